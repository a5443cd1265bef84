//! Google's tcmalloc with its per-CPU caches; its functions begin with `TCMallocInternal`, see the file `aliases`.
#![no_std]

#[link(name = "tcmalloc", kind = "static", modifiers = "+whole-archive")]
#[link(name = "stdc++")]
#[link(name = "gcc_s")]
#[link(name = "m")]
#[link(name = "c")]
extern "C" {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
