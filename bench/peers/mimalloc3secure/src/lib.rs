//! mimalloc 3 in its secure build; its C code defines the names of libc itself.
#![no_std]

#[link(name = "mimalloc", kind = "static", modifiers = "+whole-archive")]
#[link(name = "c")]
extern "C" {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
