//! A program whose allocator this is: every container, thread and string of it. If one of these fails, a Rust program
//! gets memory that is too small, not aligned, not zero, or not its own.
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::HashMap;
use std::hint::black_box;
#[cfg(feature = "debug")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mimalloc::MiMalloc;

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

const SIZES: [usize; 13] = [1, 7, 8, 9, 15, 16, 17, 24, 100, 1000, 5000, 70_000, 600_000];

fn alignments() -> impl Iterator<Item = usize> {
    (0..=21).map(|exponent| 1 << exponent)
}

fn is_filled(block: *const u8, size: usize, byte: u8) -> bool {
    unsafe { core::slice::from_raw_parts(block, size) }.iter().all(|b| *b == byte)
}

#[test]
fn boxes_are_ours() {
    let number = Box::new(7u64);
    assert!(unsafe { GLOBAL.usable_size((&raw const *number).cast()) } >= 8);
    assert_eq!(unsafe { GLOBAL.usable_size((&raw const GLOBAL).cast()) }, 0, "no block is where no block is");
}

#[test]
fn version_is_that_of_the_crate() {
    let number = GLOBAL.version();
    let version = format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn blocks_are_aligned_and_of_their_own() {
    for alignment in alignments() {
        for size in SIZES {
            let layout = Layout::from_size_align(size, alignment).unwrap();
            unsafe {
                let blocks: [*mut u8; 3] = core::array::from_fn(|_| alloc(layout));
                for (i, block) in (1..).zip(blocks) {
                    assert_eq!(block.align_offset(alignment), 0, "{layout:?}");
                    block.write_bytes(i, size);
                }
                for (i, block) in (1..).zip(blocks) {
                    assert!(is_filled(block, size, i), "{layout:?}");
                    dealloc(block, layout);
                }
                let zero = alloc_zeroed(layout); // one of those, mostly
                assert!(zero.align_offset(alignment) == 0 && is_filled(zero, size, 0), "{layout:?}");
                dealloc(zero, layout);
            }
        }
    }
}

#[test]
fn resizing_keeps_contents_and_alignment() {
    for alignment in alignments() {
        for (old, new) in SIZES.iter().flat_map(|old| SIZES.iter().map(|new| (*old, *new))) {
            let layout = Layout::from_size_align(old, alignment).unwrap();
            unsafe {
                let block = alloc(layout);
                block.write_bytes(0x77, old);
                let moved = realloc(block, layout, new);
                assert_eq!(moved.align_offset(alignment), 0, "{layout:?} to {new}");
                assert!(is_filled(moved, old.min(new), 0x77), "{layout:?} to {new}");
                moved.write_bytes(1, new);
                dealloc(moved, Layout::from_size_align(new, alignment).unwrap());
            }
        }
    }
}

#[test]
fn what_cannot_be_had_is_null() {
    for alignment in [1, 16, 4096] {
        let layout = Layout::from_size_align(isize::MAX as usize - 4096, alignment).unwrap();
        // The compiler takes it for granted that an allocation which nobody uses succeeds.
        assert!(black_box(unsafe { alloc(layout) }).is_null());
        let small = Layout::from_size_align(10, alignment).unwrap();
        unsafe {
            let block = alloc(small);
            block.write_bytes(5, 10);
            assert!(black_box(realloc(block, small, layout.size())).is_null());
            assert!(is_filled(block, 10, 5), "a block stays when it cannot grow");
            dealloc(block, small);
        }
    }
    assert!(Vec::<u8>::new().try_reserve(isize::MAX as usize).is_err());
}

#[test]
fn threads_free_what_others_allocated() {
    let made: Vec<_> = (0..4u64)
        .map(|t| thread::spawn(move || (0..2000).map(|i| (i, (t * i).to_string())).collect::<HashMap<_, _>>()))
        .collect();
    let maps: Vec<_> = made.into_iter().map(|thread| thread.join().unwrap()).collect();
    for (t, map) in (0..).zip(maps) {
        thread::spawn(move || assert!(map.iter().all(|(i, text)| *text == (t * i).to_string()))).join().unwrap();
    }
}

/// A debug build of the library is told the layout, and says when it is another one than that of the block.
#[test]
#[cfg(feature = "debug")]
fn debug_sees_a_wrong_layout() {
    use core::ffi::{c_char, c_void, CStr};
    static SEEN: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn out(message: *const c_char, _arg: *mut c_void) {
        let is_it = CStr::from_ptr(message).to_bytes().windows(19).any(|part| part == b"free with size 500 ");
        SEEN.fetch_or(is_it, Ordering::Relaxed);
    }
    unsafe {
        libmimalloc_sys::mi_register_output(Some(out), core::ptr::null_mut());
        let block = alloc(Layout::from_size_align(100, 8).unwrap());
        dealloc(block, Layout::from_size_align(500, 8).unwrap());
        libmimalloc_sys::mi_register_output(None, core::ptr::null_mut());
    }
    assert!(SEEN.load(Ordering::Relaxed));
}

#[test]
#[cfg(feature = "extended")]
fn statistics_are_json() {
    let text = MiMalloc::stats_json().unwrap();
    assert!(text.to_str().unwrap().trim().starts_with('{') && text.to_str().unwrap().contains("\"malloc_normal\""));
}
