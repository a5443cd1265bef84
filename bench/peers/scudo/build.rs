// The crate scudo-sys bundles all of Scudo, but builds it without libc's functions. We build the same sources with
// them, and with the flags of their own build.
use std::{env, fs, path::Path, process::Command};

#[path = "../build.rs"]
mod shared;

/// The folder of the dependency's sources. Cargo tells it only as JSON, of which we need one string.
fn sources() -> String {
    let output = Command::new(env::var("CARGO").unwrap())
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .expect("cargo metadata");
    let text = String::from_utf8(output.stdout).unwrap();
    let manifest = text
        .split('"')
        .find(|string| string.contains("/scudo-sys-") && string.ends_with("/Cargo.toml"))
        .expect("scudo-sys is not among the dependencies");
    manifest.replace("Cargo.toml", "scudo-standalone")
}

fn build() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).cpp_link_stdlib(None).std("c++17").warnings(false).cargo_metadata(false);
    for flag in ["-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-lto", "-pthread"] {
        build.flag(flag);
    }
    build
}

fn main() {
    shared::main();
    let folder = sources();
    let folder = Path::new(&folder);
    let includes = [folder.to_path_buf(), folder.join("include")];
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cpp"));
    files.sort();
    // One file may use the processor's CRC32, which is looked for at run time.
    let (crc32, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| path.ends_with("crc32_hw.cpp"));
    let mut with_crc32 = build();
    if env::var("CARGO_CFG_TARGET_ARCH").unwrap() == "x86_64" {
        with_crc32.flag("-msse4.2");
    }
    let objects = with_crc32.includes(&includes).files(crc32).compile_intermediates();
    build().includes(&includes).files(rest).objects(objects).compile("scudo_libc");
    println!("cargo:rustc-link-search=native={}", env::var("OUT_DIR").unwrap());
}
