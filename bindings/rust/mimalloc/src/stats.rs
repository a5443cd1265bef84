// SPDX-License-Identifier: MIT
//! Statistics as JSON, in a block of the library.

use core::ffi::{c_char, CStr};
use core::fmt;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use libmimalloc_sys as mi;

use crate::MiMalloc;

/// A text that the library wrote; it is freed when this is dropped.
pub struct StatsJson(NonNull<c_char>);

impl StatsJson {
    /// # Safety
    /// The text is null or in a block of the library that ends with a zero, and nothing else owns it.
    unsafe fn from_raw(text: *mut c_char) -> Result<StatsJson, &'static str> {
        NonNull::new(text).map(StatsJson).ok_or("no memory for the statistics")
    }
}

impl Deref for StatsJson {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        unsafe { CStr::from_ptr(self.0.as_ptr()) }
    }
}

impl fmt::Debug for StatsJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Drop for StatsJson {
    fn drop(&mut self) {
        unsafe { mi::mi_free(self.0.as_ptr().cast()) }
    }
}

// The text belongs to one owner, who may only read it, and any thread may free a block.
unsafe impl Send for StatsJson {}
unsafe impl Sync for StatsJson {}

impl MiMalloc {
    /// What the whole process has, as in `mi_stats_get_json()`.
    pub fn stats_json() -> Result<StatsJson, &'static str> {
        unsafe { StatsJson::from_raw(mi::mi_stats_get_json(0, ptr::null_mut())) }
    }
}

#[cfg(feature = "heap")]
impl crate::Heap {
    /// What this heap has.
    pub fn stats_json(&self) -> Result<StatsJson, &'static str> {
        unsafe { StatsJson::from_raw(mi::mi_heap_stats_get_json(self.as_raw(), 0, ptr::null_mut())) }
    }
}
