//! What only the feature `extended` declares: structures that C fills in, callbacks, constants.
#![cfg(feature = "extended")]
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::{size_of, zeroed};
use core::ptr;

use libmimalloc_sys as mi;

#[test]
fn statistics_fill_a_structure_of_this_size() {
    unsafe {
        let mut stats: mi::mi_stats_t = zeroed();
        stats.size = size_of::<mi::mi_stats_t>();
        stats.version = mi::MI_STAT_VERSION;
        let p = mi::mi_malloc(1000);
        assert!(mi::mi_stats_get(&mut stats));
        assert!(stats.malloc_normal.current >= 1000 && stats.committed.current >= stats.malloc_normal.current);
        mi::mi_free(p);
        stats.size += 8;
        assert!(!mi::mi_stats_get(&mut stats), "the library knows another structure");
    }
}

#[test]
fn visitor_sees_each_block_of_a_heap() {
    unsafe extern "C" fn visit(
        heap: *const mi::mi_heap_t,
        area: *const mi::mi_heap_area_t,
        block: *mut c_void,
        size: usize,
        arg: *mut c_void,
    ) -> bool {
        assert!(mi::mi_heap_contains(heap, (*area).blocks));
        if !block.is_null() {
            assert!(size >= 100);
            *arg.cast::<usize>() += 1;
        }
        true
    }
    unsafe {
        let heap = mi::mi_heap_new();
        for _ in 0..10 {
            assert!(!mi::mi_heap_malloc(heap, 100).is_null());
        }
        let mut count = 0usize;
        assert!(mi::mi_heap_visit_blocks(heap, true, Some(visit), ptr::from_mut(&mut count).cast()));
        assert_eq!(count, 10);
        mi::mi_heap_destroy(heap);
    }
}

#[test]
fn output_comes_through_a_callback() {
    unsafe extern "C" fn out(message: *const c_char, arg: *mut c_void) {
        (*arg.cast::<String>()).push_str(CStr::from_ptr(message).to_str().unwrap());
    }
    let mut text = String::new();
    unsafe { mi::mi_options_print_out(Some(out), ptr::from_mut(&mut text).cast()) };
    assert!(text.contains("purge_delay"), "{text}");
}

#[test]
fn error_function_is_called_and_can_be_taken_back() {
    unsafe extern "C" fn error(code: c_int, arg: *mut c_void) {
        *arg.cast::<c_int>() = code;
    }
    let mut code: c_int = 0;
    unsafe {
        mi::mi_register_error(Some(error), ptr::from_mut(&mut code).cast());
        assert!(mi::mi_malloc(usize::MAX).is_null());
        mi::mi_register_error(None, ptr::null_mut());
    }
    assert_ne!(code, 0);
}

#[test]
fn options_have_the_numbers_of_the_library() {
    unsafe {
        mi::mi_option_set(mi::mi_option_purge_delay, 250);
        assert_eq!(mi::mi_option_get(mi::mi_option_purge_delay), 250);
        assert_eq!(mi::mi_option_get(mi::mi_option_reset_delay), 250); // an older name
        mi::mi_option_disable(mi::mi_option_purge_delay);
        assert!(!mi::mi_option_is_enabled(mi::mi_option_purge_delay));
    }
}

#[test]
fn structure_is_passed_and_returned_by_value() {
    unsafe {
        let group = mi::mi_subproc_new();
        assert_ne!(group._mi_subproc_id, mi::mi_subproc_main()._mi_subproc_id);
        mi::mi_subproc_delete(group);
    }
}

#[test]
fn wide_characters_are_as_wide_as_in_c() {
    let mut text: Vec<mi::wchar_t> = "wide\0".chars().map(|c| c as mi::wchar_t).collect();
    text.extend([1; 1000]); // what C reads if it takes two characters for one, and the end for the half of one
    text.extend([0; 8]);
    unsafe {
        let copy = mi::mi_wcsdup(text.as_ptr());
        assert_eq!(core::slice::from_raw_parts(copy, 5), &text[..5]);
        assert!(mi::mi_usable_size(copy.cast()) < 100);
        mi::mi_free(copy.cast());
    }
}
