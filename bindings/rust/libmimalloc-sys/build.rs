//! Compiles the library, one C file, into the crate. The flags are those of cmake/flags.cmake; the features of the
//! crate become the macros of src/base/config.h. Nothing is fetched: the sources are in c/, which a packaged crate has
//! and the repository makes of links; where links are not kept (a checkout on Windows), they are three folders up.

use std::{env, path::Path};

fn has(feature: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}

fn main() {
    let root = ["c", "../../.."].iter().map(Path::new).find(|root| root.join("src/static.c").exists());
    let root = root.expect("the C sources are missing: neither c/src/static.c nor ../../../src/static.c is there");
    for folder in ["src", "include"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }

    let mut build = cc::Build::new();
    build.file(root.join("src/static.c")).include(root.join("src")).include(root.join("include"));
    // As fast as in a release of the library, also where the crate that uses it is built without optimization.
    build.std("gnu11").opt_level(2).define("NDEBUG", None).define("MI_STATIC_LIB", None);
    for flag in ["-fvisibility=hidden", "-fno-builtin-malloc", "-fno-plt", "-fexceptions"] {
        build.flag(flag);
    }
    for flag in ["-fno-semantic-interposition", "-fno-align-loops", "-fno-align-jumps"] {
        build.flag_if_supported(flag);
    }
    let tls_model = if has("LOCAL_DYNAMIC_TLS") { "local-dynamic" } else { "initial-exec" };
    build.flag(format!("-ftls-model={tls_model}"));

    // As -DMI_SECURE=ON.
    if has("SECURE") {
        build.define("MI_SECURE", "4");
    }
    // As a debug build of CMake.
    if has("DEBUG") || has("DEBUG_IN_DEBUG") && env::var("PROFILE").as_deref() == Ok("debug") {
        build.define("MI_DEBUG", "2").define("MI_PADDING", "1");
    }
    if has("NO_THP") {
        build.define("MI_NO_THP", "1");
    }
    if has("OVERRIDE") {
        build.define("MI_MALLOC_OVERRIDE", None);
    }
    build.compile("mimalloc");
}
