//! snmalloc with all of its checks; its functions begin with `sn_`, see the file `aliases`.
#![no_std]

#[link(name = "snmallocshim-checks-rust", kind = "static", modifiers = "+whole-archive")]
#[link(name = "stdc++", kind = "static", modifiers = "-bundle")]
#[link(name = "gcc_s")]
#[link(name = "c")]
extern "C" {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
