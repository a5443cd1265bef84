//! The functions are called as they are declared. If one of these fails, Rust and C disagree on a signature, a layout or a
//! constant.
use core::ffi::c_void;
use core::ptr;

use libmimalloc_sys as mi;

#[test]
fn a_block_is_as_large_and_aligned_as_asked_for() {
    unsafe {
        for alignment in [8, 64, 4096, 1 << 20] {
            let p = mi::mi_zalloc_aligned(1000, alignment).cast::<u8>();
            assert_eq!(p.align_offset(alignment), 0);
            assert!(mi::mi_usable_size(p.cast()) >= 1000);
            assert!(core::slice::from_raw_parts(p, 1000).iter().all(|byte| *byte == 0));
            p.write_bytes(7, 1000);
            let p = mi::mi_realloc_aligned(p.cast(), 5000, alignment).cast::<u8>();
            assert_eq!(p.align_offset(alignment), 0);
            assert!(core::slice::from_raw_parts(p, 1000).iter().all(|byte| *byte == 7));
            mi::mi_free_size_aligned(p.cast(), 5000, alignment);
        }
        let p = mi::mi_realloc(mi::mi_malloc(10), 100);
        mi::mi_free(p);
        mi::mi_free(ptr::null_mut());
        assert_eq!(mi::mi_usable_size(ptr::null::<c_void>()), 0);
    }
}

#[test]
fn version_of_the_library_is_that_of_the_crate() {
    let number = unsafe { mi::mi_version() };
    let version = format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}
