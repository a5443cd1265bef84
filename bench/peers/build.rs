// Shared by the crates beside this file: export libc's names from a library whose code is C or C++.
//
// rustc hides what is not Rust in a cdylib. A second list of exports, exports.map, is merged with rustc's; of the
// linkers only lld does that, and rustc brings it along. If a library has other names for libc's functions, the
// crate's file `aliases` has lines "NAME TARGET": the linker gives TARGET's address to NAME, so that a call costs
// nothing more than a call of the original.
use std::{env, fs, path::Path};

pub fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").unwrap();
    let exports = Path::new(&here).join("../exports.map");
    let aliases = Path::new(&here).join("aliases");
    println!("cargo:rerun-if-changed={}", exports.display());
    println!("cargo:rerun-if-changed={}", aliases.display());
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", exports.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,--undefined-version"); // exports.map names more than each library has
    for line in fs::read_to_string(aliases).unwrap_or_default().lines() {
        let (name, target) = line.split_once(' ').expect("aliases: NAME TARGET");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym={name}={target}");
    }
}
