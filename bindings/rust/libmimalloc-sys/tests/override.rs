//! With the feature `override` the malloc of libc is ours, in a program that calls nothing of this crate; without it
//! libc's own is left alone.
use core::ffi::{c_char, c_void};

use libmimalloc_sys as _;

extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn malloc(size: usize) -> *mut c_void;
    fn malloc_usable_size(p: *const c_void) -> usize;
    fn free(p: *mut c_void);
}

/// The file that is mapped at an address.
fn file_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let is_there = |line: &&str| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        (hex(start)..hex(end)).contains(&address)
    };
    maps.lines().find(is_there).unwrap().split_whitespace().last().unwrap().to_string()
}

#[test]
fn malloc_is_in_this_program_if_it_was_asked_for() {
    let mine = file_of(malloc_is_in_this_program_if_it_was_asked_for as *const () as usize);
    assert_eq!(file_of(malloc as *const () as usize) == mine, cfg!(feature = "override"));
}

#[test]
fn what_libc_allocates_comes_from_the_same_malloc() {
    unsafe {
        let text = strdup(c"text".as_ptr());
        assert!(malloc_usable_size(text.cast()) >= 5);
        free(text.cast());
    }
}
