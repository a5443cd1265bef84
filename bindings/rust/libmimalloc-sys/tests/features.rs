//! Each feature that builds the library otherwise acts, and none acts without being asked for. (`override` and
//! `local_dynamic_tls` have tests of their own: tests/override.rs, and test/bindings/test_rust.py of the repository.)
#![cfg(feature = "extended")]
use core::ffi::{c_int, c_void};
use core::ptr;

use libmimalloc_sys as mi;

const IS_DEBUG: bool = cfg!(any(feature = "debug", all(feature = "debug_in_debug", debug_assertions)));
const IS_SECURE: bool = cfg!(feature = "secure");

/// What the library says about mistakes that `act` makes: the codes, in order. The function that is told is one of the
/// process, so there is one test of mistakes.
fn errors(act: impl FnOnce()) -> Vec<c_int> {
    unsafe extern "C" fn error(code: c_int, arg: *mut c_void) {
        (*arg.cast::<Vec<c_int>>()).push(code);
    }
    let mut codes = Vec::new();
    unsafe {
        mi::mi_option_set(mi::mi_option_abort_on_misuse, 0);
        mi::mi_register_error(Some(error), ptr::from_mut(&mut codes).cast());
        act();
        mi::mi_register_error(None, ptr::null_mut());
    }
    codes
}

#[test]
fn secure_and_debug_see_mistakes() {
    const EAGAIN: c_int = 11;
    const EFAULT: c_int = 14;
    if !IS_SECURE && !IS_DEBUG {
        return; // what a release build makes of them is undefined; the next test tells it from the others
    }
    let twice = errors(|| unsafe {
        let p = mi::mi_malloc(100);
        mi::mi_free(p);
        mi::mi_free(p);
    });
    assert_eq!(twice, [EAGAIN]);
    let behind = errors(|| unsafe {
        let p = mi::mi_malloc(100).cast::<u8>();
        p.add(100).write_bytes(0x55, 12); // up to the end of its slot
        mi::mi_free(p.cast());
    });
    assert_eq!(behind, [EFAULT]);
}

#[test]
fn only_secure_and_debug_watch_what_is_behind_a_block() {
    let p = unsafe { mi::mi_malloc(100) };
    assert_eq!(unsafe { mi::mi_usable_size(p) } == 100, IS_SECURE || IS_DEBUG);
    unsafe { mi::mi_free(p) };
}

#[test]
fn only_debug_fills_fresh_blocks() {
    let p = unsafe { mi::mi_malloc(100) }.cast::<u8>();
    let is_filled = unsafe { core::slice::from_raw_parts(p, 100) }.iter().all(|byte| *byte == 0xD0);
    assert_eq!(is_filled, IS_DEBUG);
    unsafe { mi::mi_free(p.cast()) };
}

#[test]
fn only_secure_clears_what_is_freed() {
    // Of a padded build freed blocks have a pattern instead.
    let is_on = unsafe { mi::mi_option_is_enabled(mi::mi_option_zero_on_free) };
    assert_eq!(is_on, IS_SECURE, "the default of the option");
}

#[test]
fn only_no_thp_asks_for_no_huge_pages() {
    let allow_thp = unsafe { mi::mi_option_get(mi::mi_option_allow_thp) };
    assert_eq!(allow_thp, if cfg!(feature = "no_thp") { 0 } else { 1 });
}
