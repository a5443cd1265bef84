//! rpmalloc; its functions begin with `rp`, see the file `aliases`.
#![no_std]

#[link(name = "rpmalloc", kind = "static", modifiers = "+whole-archive")]
#[link(name = "c")]
extern "C" {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
