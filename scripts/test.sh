#!/bin/sh
# Builds and runs the tests: everything, after installing what is missing, or with --quick the style, unit and API tests.
# Of 64-bit ARM, musl and 32-bit x86 each commit leaves one out, unless MI_TEST_ALL is set. Further arguments go to pytest.
# The last line is "N passed, N failed, N skipped".
set -u
ulimit -S -c 0 # a program that crashes on purpose leaves no file behind
cd "$(dirname "$0")/.." || exit 1

quick=""
if [ "${1:-}" = "--quick" ]; then
  quick=yes
  shift
  set -- -m "not slow" "$@"
fi

say() { printf 'test: %s\n' "$*" >&2; }
build() { # build PRESET [OPTION...]
  log=build/$1.log
  mkdir -p build
  if ! { cmake --preset "$@" && cmake --build --preset "$1"; } >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    say "the build of preset $1 failed, see $log"
    exit 1
  fi
  say "built preset $1"
}

scripts/setup.sh ${quick:+--check} test || exit 1
build test

# Three platforms take a fourth of the time. The last digit of the commit says which is left out; `make platforms` runs all.
left=""
if [ -z "$quick$(printenv MI_TEST_ALL MI_PLATFORMS)" ]; then
  case $(git rev-parse HEAD 2>/dev/null) in
    *[0369cf]) left=aarch64 ;;
    *[147ad]) left=musl ;;
    *[258be]) left=i686 ;;
  esac
  [ -z "$left" ] || say "this commit leaves out $left, which takes long; MI_TEST_ALL=1 does not"
fi

# 64-bit ARM: only where there is a compiler, an emulator and cmocka for it.
rm -f build/aarch64/tests.json
if [ -z "$quick" ] && [ "$left" != aarch64 ] && command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
  scripts/setup.sh cross
  [ -e build/cross/aarch64/usr/include/cmocka.h ] && build aarch64
fi

# Another C library, and 32 bits: where there is a compiler for it, and cmocka, and what runs the programs.
# (With MI_PLATFORMS, make platforms has built what is to run.)
[ -n "${MI_PLATFORMS:-}" ] || rm -f build/musl/tests.json build/i686/tests.json build/windows/tests.json build/windows-msvc/tests.json
if [ -z "$quick" ] && [ -z "${MI_PLATFORMS:-}" ]; then
  for platform in musl i686 windows; do
    [ $platform != "$left" ] || continue
    more=-DMI_TEST_STRESS=ON
    case $platform in
      windows)
        { command -v clang-19 && command -v x86_64-w64-mingw32-ar && { command -v wine64 || [ -x /usr/lib/wine/wine64 ]; }; } \
          >/dev/null || continue
        scripts/setup.sh lief
        more="-DMI_TEST_SOME=ON -DMI_TEST_STRESS=OFF" # all in `make platforms`
        ;;
      musl) command -v musl-gcc >/dev/null || continue ;;
      i686) command -v i686-linux-gnu-gcc >/dev/null && [ -e /lib/ld-linux.so.2 ] && [ "$(uname -m)" = x86_64 ] || continue ;;
    esac
    WHICH=$platform scripts/setup.sh cross
    [ -e build/cross/$platform/usr/include/cmocka.h ] || continue
    # shellcheck disable=SC2086  # options are words
    build $platform $more
    MI_PLATFORMS="${MI_PLATFORMS:-} $platform"
    if [ $platform = windows ]; then
      scripts/msvc.sh >build/windows-msvc.log || { tail -n 60 build/windows-msvc.log >&2; exit 1; }
      MI_PLATFORMS="$MI_PLATFORMS windows-msvc"
    fi
  done
  export MI_PLATFORMS
fi

# macOS: zig is large, and only `make platforms` and `make long WHAT=languages` fetch it. What looks into the files is small.
[ -z "$quick" ] && { [ -x build/zig/bin/python ] || command -v zig >/dev/null; } && scripts/setup.sh lief

# What makes the site is no package.
[ -z "$quick" ] && command -v doxygen >/dev/null && scripts/setup.sh sphinx

# WebAssembly: its tests build what they need, and one of the two programs that run it is no package.
[ -z "$quick" ] && command -v wasm-ld >/dev/null && scripts/setup.sh wasmtime

# What checks the files for continuous integration.
[ -z "$quick" ] && scripts/setup.sh actionlint

# The first interpreter that has pytest-xdist, with which the tests run side by side; else one that has pytest. Some tests
# sleep: one more than there are processors keeps all of these busy.
python=/usr/bin/python3
for modules in pytest,xdist pytest; do
  for candidate in python3 /usr/bin/python3; do
    $candidate -c "import $modules" >/dev/null 2>&1 && python=$candidate && break 2
  done
done
[ "$modules" = pytest ] || set -- -n "$(($(nproc) + 1))" --dist loadgroup "$@"
exec $python -m pytest test -q -rs -p no:cacheprovider "$@"
