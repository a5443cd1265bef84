#!/bin/sh
# The runs that take minutes to hours: `make long WHAT="soak faults"`, one after the other, in this order. Their
# parameters are variables of the environment, as make hands them on. All run, whatever becomes of those before; the last
# line names those that failed. Nothing is installed: scripts/setup.sh says what is missing before the first one starts.
# shellcheck disable=SC2086,SC2329  # parameters are lists of words; functions are called by the words that name them
set -u
cd "$(dirname "$0")/.." || exit 1

RUNS='sanitize   the tests under AddressSanitizer, ThreadSanitizer, UBSan and Valgrind; 45 minutes
           WHICH="tsan ubsan": only these (asan, tsan, ubsan, valgrind)
models     the models of the lock-free protocols, as many interleavings as anyone can wait for; 5 minutes
endurance  2,000 threads at once, a million one after another, 10,000 forks; 40 minutes
           AT_ONCE=500 THREADS=20000 FORKS=500
soak       the life of a server: its memory over time, with bounds and a picture; 30 minutes
           MINUTES=120 SEED=7 ARGS=--help
faults     break one rule of the code after the other: the tests must see each; 10 minutes
           ONLY="pool-tag fork-lock": only these
flavours   the tests of real programs with the secure and the debug build, and with guards around every block; 15 minutes
           ONLY="redis or git": only these
coverage   which lines of src/ the tests run, as HTML in build/coverage; 10 minutes
fuzz       look for inputs that break something; 1 minute for each of 12 programs
           SECONDS=600 for each, TARGET=calls: only this, ARGS=--merge
platforms  unit, API and stress tests on other processors, under emulators, with other sizes of OS pages, with musl, for Windows under Wine,
           and those of WebAssembly; what zig links for BSDs and macOS; kernels with two NUMA nodes, huge pages, OS pages of 64 KiB are booted;
           writes what it saw into docs/platforms.json, and the table in README from it; 45 minutes
           WHICH="s390x musl": only these (x86_64, aarch64, riscv64, s390x, ppc64le, i686, arm, musl, windows, windows-gcc, windows-msvc, wasm, bsd, macos-arm64, macos-x86_64, kernel)
wasm       WebAssembly: the time of a malloc and free, beside the malloc of wasi-libc, dlmalloc and emmalloc; 5 minutes
           ARGS="--rounds 1"
service    a pool of 800 threads that wait, with each allocator that is there: what lives and what is resident; 5 minutes
           ARGS="--peers ours,glibc"
scaling    workloads with threads on 1, 4 and all cores, with each allocator that is there: time, CPU time and peak; 11 minutes
           ARGS="--threads 1,16 --seconds 300"
languages  what is in bindings/; of the crates for Rust each feature alone, release builds, lints, the packaged crate; the library
           compiled by cgo, npm, dub and zig; 8 minutes
packages   build packages from the source archive, and programs on what they contain; two builds give the same bytes; 8 minutes
           ONLY="debian or rpm": only these'
words=$(printf '%s\n' "$RUNS" | sed -n 's/^\([a-z][a-z]*\) .*/\1/p' | tr '\n' ' ')

build() { # build PRESET [ARGUMENT...]: of cmake --build
  cmake --preset "$1" && cmake --build --preset "$@"
}

run_sanitize() { python3 scripts/sanitize.py ${WHICH:-}; }

run_models() {
  CARGO_TARGET_DIR=build/models RUST_BACKTRACE=0 cargo test --release --locked --manifest-path test/models/Cargo.toml
}

run_endurance() {
  stress=build/test/test/release/stress
  build test --target stress-forks-release stress-threads-release stress-crowd-release &&
    $stress/crowd --threads "${AT_ONCE:-2000}" --waves 10 &&
    $stress/threads --count "${THREADS:-1000000}" --at-once 1 --seconds 86400 &&
    $stress/forks --count "${FORKS:-10000}" --threads 32 --mib 100 --seconds 86400
}

run_soak() {
  build test --target soak soak-plain &&
    /usr/bin/python3 test/soak/soak.py --minutes "${MINUTES:-30}" --seed "${SEED:-1}" ${ARGS:-}
}

run_faults() {
  only=""
  for name in ${ONLY:-}; do
    only="$only --only $name"
  done
  python3 scripts/faults.py $only ${ARGS:-}
}

run_flavours() {
  build test --target mimalloc && MI_FLAVOURS=all scripts/test.sh -k "test_programs${ONLY:+ and ($ONLY)}"
}

run_coverage() { python3 scripts/coverage.py; }

run_fuzz() {
  seconds=$(printenv SECONDS) # a shell may have a variable of its own by this name
  python3 scripts/fuzz.py ${seconds:+--seconds="$seconds"} ${TARGET:+--target="$TARGET"} ${ARGS:-}
}

run_platforms() {
  which=${WHICH:-x86_64 aarch64 riscv64 s390x ppc64le i686 arm musl windows windows-gcc windows-msvc wasm bsd macos-arm64 macos-x86_64 kernel}
  tests="platform or windows" crossed=""
  for processor in $which; do
    case $processor in # those that the tests themselves build
      x86_64) tests="$tests or (test_native and not aarch64)" ;;
      wasm) tests="$tests or test_wasm" ;;
      bsd) tests="$tests or test_bsd" ;;
      macos-*) tests="$tests or test_macos" ;;
      kernel) tests="$tests or test_kernel" ;;
      windows-msvc) ;; # it runs the programs of windows
      *) crossed="$crossed $processor" ;;
    esac
  done
  case " $which " in
    *" ppc64le "*) ;;
    *" kernel "*) crossed="$crossed ppc64le" ;; # it runs the programs of this one
  esac
  case " $which " in
    *" windows "*) ;;
    *" windows-msvc "*) crossed="$crossed windows" ;;
  esac
  [ -z "$crossed" ] || WHICH=$crossed scripts/setup.sh cross
  for processor in $crossed; do
    rm -f build/$processor/tests.json
    [ -e build/cross/$processor/usr/include/cmocka.h ] || continue
    cmake --preset $processor -DMI_TEST_STRESS=ON -DMI_TEST_SOME=OFF && cmake --build --preset $processor || return 1
  done
  case " $which " in *" windows "*) scripts/setup.sh lief exe ;; esac
  case " $which " in *" windows-msvc "*) scripts/msvc.sh || return 1 ;; esac
  case " $which " in *" macos-"*) scripts/setup.sh lief ;; esac
  case " $which " in *" macos-"* | *" bsd "*) scripts/setup.sh zig ;; esac
  case " $which " in *" kernel "*) scripts/setup.sh kernel ;; esac
  rm -f build/platforms.xml
  MI_EXE=yes MI_PLATFORMS=$which MI_TEST_TIMEOUT=1200 scripts/test.sh -k "$tests" --junitxml=build/platforms.xml
  status=$?
  [ ! -e build/platforms.xml ] || python3 scripts/platforms.py build/platforms.xml $which || status=1
  return $status
}

run_wasm() { python3 scripts/wasm.py ${ARGS:-}; }

run_service() {
  build release && cmake -S bench -B build/bench/cmake -G Ninja && cmake --build build/bench/cmake --target bench-pool &&
    /usr/bin/python3 bench/service.py ${ARGS:-}
}

run_scaling() {
  build release && cmake -S bench -B build/bench/cmake -G Ninja && cmake --build build/bench/cmake &&
    /usr/bin/python3 bench/scaling.py ${ARGS:-}
}

run_languages() {
  scripts/setup.sh zig
  MI_LANGUAGES=all scripts/test.sh -k bindings
}

run_packages() {
  scripts/setup.sh tools
  python=/usr/bin/python3
  ! python3 -c "import pytest" 2>/dev/null || python=python3
  $python -m pytest test/packages/builds.py -q -rs -p no:cacheprovider ${ONLY:+-k "$ONLY"}
}

if [ $# -eq 0 ]; then
  printf 'make long WHAT="WORD..." runs these, one after the other:\n\n%s\n' "$RUNS"
  exit 0
fi
for word in "$@"; do
  case " $words" in
    *" $word "*) ;;
    *)
      echo "long: unknown word '$word'; there are: $words" >&2
      exit 2
      ;;
  esac
done
scripts/setup.sh --check "$@" || exit 1

failed=""
trap 'exit 130' INT
for word in "$@"; do
  echo "long: $word" >&2
  "run_$word" || failed="$failed $word"
done
[ -z "$failed" ] && exit 0
echo "long: failed:$failed" >&2
exit 1
