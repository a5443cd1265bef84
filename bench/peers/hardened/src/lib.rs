//! GrapheneOS' hardened_malloc in its default configuration; its C code defines the names of libc itself.
#![no_std]

#[link(name = "hardened_malloc", kind = "static", modifiers = "+whole-archive")]
#[link(name = "c")]
extern "C" {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
