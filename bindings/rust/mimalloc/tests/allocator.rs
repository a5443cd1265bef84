//! Containers whose memory comes from a heap, or from the library without its being the global allocator.
#![cfg(all(feature = "allocator-api2", feature = "heap"))]
use core::alloc::Layout;
use core::ptr::NonNull;
use std::cell::Cell;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use mimalloc::{Heap, MiMalloc};

fn layout(size: usize, alignment: usize) -> Layout {
    Layout::from_size_align(size, alignment).unwrap()
}

fn bytes(block: NonNull<[u8]>) -> &'static mut [u8] {
    unsafe { &mut *block.as_ptr() }
}

#[test]
fn containers_live_in_a_heap() {
    let heap = Heap::new();
    let mut numbers = Vec::new_in(&heap);
    numbers.extend(0..100_000u32);
    assert!(heap.contains(numbers.as_ptr()) && numbers.iter().copied().eq(0..100_000));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert!(heap.contains(numbers.as_ptr()) && numbers.iter().copied().eq(0..10));
    let boxed = Box::new_in([7u64; 4], &heap);
    assert!(heap.contains(&*boxed) && *boxed == [7; 4]);
}

#[test]
fn containers_drop_what_is_in_them() {
    struct Counts<'a>(&'a Cell<i32>);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let (count, heap) = (Cell::new(0), Heap::new());
    drop(Box::new_in(Counts(&count), &heap));
    assert_eq!(count.get(), 1);
}

#[test]
fn library_is_an_allocator_beside_the_global_one() {
    let mut numbers = Vec::new_in(MiMalloc);
    numbers.extend(0..1000u32);
    assert!(unsafe { MiMalloc.usable_size(numbers.as_ptr().cast()) } >= 4000);
    let of_the_system = std::vec![1u8; 4000];
    let is_ours = unsafe { MiMalloc.usable_size(of_the_system.as_ptr()) } != 0;
    assert_eq!(is_ours, cfg!(feature = "override"));
}

/// The rules of the trait, which are more than those of a global allocator.
fn keeps_the_rules(source: impl Allocator) {
    let nothing = source.allocate(layout(0, 64)).unwrap();
    assert!(nothing.is_empty() && nothing.cast::<u8>().as_ptr().align_offset(64) == 0);
    unsafe {
        let some = source.grow(nothing.cast(), layout(0, 64), layout(24, 64)).unwrap();
        assert_eq!((some.len(), some.cast::<u8>().as_ptr().align_offset(64)), (24, 0));
        bytes(some).fill(7);
        // A larger alignment, and zeros only where there was nothing.
        let more = source.grow_zeroed(some.cast(), layout(24, 64), layout(5000, 4096)).unwrap();
        assert_eq!(more.cast::<u8>().as_ptr().align_offset(4096), 0);
        assert!(bytes(more)[..24].iter().all(|byte| *byte == 7) && bytes(more)[24..].iter().all(|byte| *byte == 0));
        let less = source.shrink(more.cast(), layout(5000, 4096), layout(10, 8)).unwrap();
        assert_eq!(bytes(less), [7; 10]);
        let nothing = source.shrink(less.cast(), layout(10, 8), layout(0, 8)).unwrap();
        source.deallocate(nothing.cast(), layout(0, 8));
        for (small, large) in [(8, 16), (12, 16), (16, 32), (100, 128)] {
            // The smallest alignments, which the library keeps without being told.
            let blocks: std::vec::Vec<_> = (0..100)
                .map(|_| source.allocate(layout(small, 4)).unwrap())
                .map(|block| source.grow(block.cast(), layout(small, 4), layout(large, 16)).unwrap())
                .collect();
            for block in blocks {
                assert_eq!(block.cast::<u8>().as_ptr().align_offset(16), 0);
                source.deallocate(block.cast(), layout(large, 16));
            }
        }
    }
    let zeros = source.allocate_zeroed(layout(1000, 8)).unwrap();
    assert!(bytes(zeros).iter().all(|byte| *byte == 0));
    unsafe { source.deallocate(zeros.cast(), layout(1000, 8)) };
    assert!(source.allocate(layout(isize::MAX as usize - 4096, 8)).is_err());
}

#[test]
fn library_keeps_the_rules() {
    keeps_the_rules(MiMalloc);
}

#[test]
fn heap_keeps_the_rules() {
    keeps_the_rules(&Heap::new());
}
