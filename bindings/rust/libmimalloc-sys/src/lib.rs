// SPDX-License-Identifier: MIT
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals)]
#![doc = include_str!("../README.md")]

#[rustfmt::skip]
mod basic;
pub use basic::*;

#[cfg(feature = "extended")]
#[rustfmt::skip]
#[allow(clippy::unnecessary_cast)] // the length of an array may be an enumerator
mod extended;
#[cfg(feature = "extended")]
pub use extended::*;

#[cfg(feature = "extended")]
mod wide {
    #[cfg(windows)]
    pub type Char = u16;
    #[cfg(all(any(target_arch = "arm", target_arch = "aarch64"), not(any(windows, target_vendor = "apple"))))]
    pub type Char = u32;
    #[cfg(not(any(windows, all(any(target_arch = "arm", target_arch = "aarch64"), not(target_vendor = "apple")))))]
    pub type Char = i32;
}
/// A wide character of C.
#[cfg(feature = "extended")]
pub type wchar_t = wide::Char;
