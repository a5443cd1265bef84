// SPDX-License-Identifier: MIT
//! The trait of allocator-api2, for the whole library and for a heap. It asks for blocks of size 0, which take no memory
//! here: their address is the alignment, and there is nothing to give back.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::source::{give_back, Source};
use crate::MiMalloc;

type Block = Result<NonNull<[u8]>, AllocError>;

fn block(start: *mut u8, size: usize) -> Block {
    NonNull::new(ptr::slice_from_raw_parts_mut(start, size)).ok_or(AllocError)
}

fn empty(layout: Layout) -> *mut u8 {
    ptr::null_mut::<u8>().wrapping_add(layout.align())
}

fn allocate(source: &impl Source, layout: Layout) -> Block {
    block(if layout.size() == 0 { empty(layout) } else { source.take(layout) }, layout.size())
}

fn allocate_zeroed(source: &impl Source, layout: Layout) -> Block {
    block(if layout.size() == 0 { empty(layout) } else { source.take_zeroed(layout) }, layout.size())
}

unsafe fn deallocate(start: NonNull<u8>, layout: Layout) {
    if layout.size() != 0 {
        give_back(start.as_ptr(), layout);
    }
}

/// To a larger or a smaller size.
unsafe fn resize(source: &impl Source, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
    if old.size() == 0 {
        return allocate(source, new);
    }
    if new.size() == 0 {
        deallocate(start, old);
        return block(empty(new), 0);
    }
    block(source.resize(start.as_ptr(), new), new.size())
}

macro_rules! allocator {
    ($($type:ty),+) => {$(
        unsafe impl Allocator for $type {
            fn allocate(&self, layout: Layout) -> Block {
                allocate(self as &$type, layout)
            }

            fn allocate_zeroed(&self, layout: Layout) -> Block {
                allocate_zeroed(self as &$type, layout)
            }

            unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
                deallocate(start, layout)
            }

            unsafe fn grow(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                resize(self as &$type, start, old, new)
            }

            unsafe fn grow_zeroed(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                let grown = resize(self as &$type, start, old, new)?;
                let added = grown.cast::<u8>().as_ptr().add(old.size());
                added.write_bytes(0, new.size() - old.size());
                Ok(grown)
            }

            unsafe fn shrink(&self, start: NonNull<u8>, old: Layout, new: Layout) -> Block {
                resize(self as &$type, start, old, new)
            }
        }
    )+};
}

allocator!(MiMalloc);
// Not the heap itself: an allocator that is moved into a container would end with it, before what it holds.
#[cfg(feature = "heap")]
allocator!(&crate::Heap);

#[cfg(feature = "heap")]
impl Source for &crate::Heap {
    fn take(&self, layout: Layout) -> *mut u8 {
        (**self).take(layout)
    }

    fn take_zeroed(&self, layout: Layout) -> *mut u8 {
        (**self).take_zeroed(layout)
    }

    unsafe fn resize(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        (**self).resize(block, layout)
    }
}
