// SPDX-License-Identifier: MIT
//! A heap as a value: what is allocated from it borrows it, so that nothing outlives it, and it may free all at once.

extern crate alloc;

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::slice;
use core::str;

use libmimalloc_sys as mi;

use crate::source::{is_natural, Source};

/// A set of blocks that end with it. Any thread may allocate from it, and at the same time.
///
/// What is put into a heap is not dropped: its memory goes, no destructor runs. With the feature `allocator-api2` a
/// reference to a heap is an allocator for containers, which drop what is in them.
///
/// ```
/// # use mimalloc::Heap;
/// let heap = Heap::new();
/// let total: &mut u64 = heap.alloc(7);
/// let name: &mut str = heap.alloc_str("any thread may allocate from it");
/// *total += name.len() as u64;
/// assert_eq!(*total, 38);
/// ```
///
/// Nothing that is in a heap can be used after it:
///
/// ```compile_fail,E0505
/// # use mimalloc::Heap;
/// let heap = Heap::new();
/// let number = heap.alloc(7);
/// drop(heap);
/// *number += 1;
/// ```
#[derive(Debug)]
pub struct Heap {
    raw: NonNull<mi::mi_heap_t>,
}

// Every function of the library that takes a heap may be called by any thread; who ends it has it alone.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap without blocks. If there is no memory for it, as with `Box::new`.
    #[must_use]
    pub fn new() -> Heap {
        Heap::try_new().unwrap_or_else(|| handle_alloc_error(Layout::new::<Heap>()))
    }

    /// A heap without blocks, or `None` if there is no memory for it.
    #[must_use]
    pub fn try_new() -> Option<Heap> {
        NonNull::new(unsafe { mi::mi_heap_new() }).map(|raw| Heap { raw })
    }

    /// The heap as C knows it, for other functions of `libmimalloc_sys`. It must not be ended by them.
    pub fn as_raw(&self) -> *mut mi::mi_heap_t {
        self.raw.as_ptr()
    }

    /// Whether the address is in a block of this heap.
    pub fn contains<T: ?Sized>(&self, address: *const T) -> bool {
        unsafe { mi::mi_heap_contains(self.as_raw(), address.cast()) }
    }

    /// Puts a value into the heap.
    #[allow(clippy::mut_from_ref)] // a block of its own for each call
    pub fn alloc<T>(&self, value: T) -> &mut T {
        let place = self.place(Layout::new::<T>()).cast::<T>();
        unsafe {
            place.write(value);
            &mut *place
        }
    }

    /// Copies a slice into the heap.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice_copy<T: Copy>(&self, values: &[T]) -> &mut [T] {
        let place = self.place(Layout::for_value(values)).cast::<T>();
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), place, values.len());
            slice::from_raw_parts_mut(place, values.len())
        }
    }

    /// Copies a text into the heap.
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_str(&self, text: &str) -> &mut str {
        unsafe { str::from_utf8_unchecked_mut(self.alloc_slice_copy(text.as_bytes())) }
    }

    /// Memory for a value of this layout; for one without a size, an address that is aligned to it.
    fn place(&self, layout: Layout) -> *mut u8 {
        if layout.size() == 0 {
            return ptr::null_mut::<u8>().wrapping_add(layout.align());
        }
        let place = self.take(layout);
        if place.is_null() {
            handle_alloc_error(layout)
        }
        place
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        unsafe { mi::mi_heap_destroy(self.as_raw()) }
    }
}

impl Source for Heap {
    fn take(&self, layout: Layout) -> *mut u8 {
        let (heap, size) = (self.as_raw(), layout.size());
        unsafe {
            if is_natural(layout) {
                mi::mi_heap_malloc(heap, size)
            } else {
                mi::mi_heap_malloc_aligned(heap, size, layout.align())
            }
        }
        .cast()
    }

    fn take_zeroed(&self, layout: Layout) -> *mut u8 {
        let (heap, size) = (self.as_raw(), layout.size());
        unsafe {
            if is_natural(layout) {
                mi::mi_heap_zalloc(heap, size)
            } else {
                mi::mi_heap_zalloc_aligned(heap, size, layout.align())
            }
        }
        .cast()
    }

    unsafe fn resize(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        let (heap, p, size) = (self.as_raw(), block.cast(), layout.size());
        if is_natural(layout) {
            mi::mi_heap_realloc(heap, p, size)
        } else {
            mi::mi_heap_realloc_aligned(heap, p, size, layout.align())
        }
        .cast()
    }
}
