#!/bin/sh
# Installs what a build, the demo or the tests need and this machine lacks (Debian, Ubuntu).
#
# Usage: scripts/setup.sh [build] [demo] [test] [cross]      (no argument: build demo test)
#
# As root it calls apt-get, and only if something is missing. As another user it prints the line to
# type, and fails if a build is impossible without it. A program that only one test needs is named
# and left out if it cannot be had; the test then reports itself as skipped.
# `cross` fetches cmocka for 64-bit ARM into build/cross-root, without installing anything.
set -u
cd "$(dirname "$0")/.." || exit 1

hard=""     # packages without which the command asked for is impossible
soft=""     # packages without which a single test or row is left out

have() { command -v "$1" >/dev/null 2>&1; }
python_has() { python3 -c "import $1" >/dev/null 2>&1 || /usr/bin/python3 -c "import $1" >/dev/null 2>&1; }

need() { # need hard|soft PACKAGE COMMAND...: the package is missing if none of the commands is there
  kind=$1 package=$2
  shift 2
  for command in "$@"; do
    have "$command" && return
  done
  eval "$kind=\"\$$kind $package\""
}

need_build() {
  need hard cmake cmake
  need hard ninja-build ninja
  need hard gcc gcc cc
  printf '#include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 || hard="$hard libc6-dev"
  need hard python3 python3
  need hard git git
}

need_demo() {
  need soft g++ g++
  # redis-tools holds the server too, under another name, and starts no service.
  need soft redis-tools redis-server redis-check-rdb
}

need_test() {
  need hard g++ g++
  printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n' |
    cc -E - >/dev/null 2>&1 || hard="$hard libcmocka-dev"
  python_has pytest || hard="$hard python3-pytest"
  need hard binutils objdump
  need soft pkgconf pkg-config pkgconf
  need soft valgrind valgrind
  need soft strace strace
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
  need soft gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
  need soft qemu-user qemu-aarch64 qemu-aarch64-static
  [ -e /usr/aarch64-linux-gnu/include/stdlib.h ] || soft="$soft libc6-dev-arm64-cross"
  # The interpreter's own test suite is a package of its own, named after the version.
  version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
  if [ -n "$version" ] && ! /usr/bin/python3 -c 'import test.test_json' >/dev/null 2>&1; then
    soft="$soft libpython$version-testsuite"
  fi
}

# cmocka for ARM, unpacked from the distribution's own packages with apt's state in our build folder.
fetch_cross() {
  root=build/cross-root
  [ -e $root/usr/include/cmocka.h ] && return 0
  have aarch64-linux-gnu-gcc || return 1
  have apt-get || return 1
  mkdir -p $root/apt/lists/partial $root/apt/cache/archives/partial || return 1
  here=$(pwd)
  options="-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o Dir::State::lists=$here/$root/apt/lists -o Dir::Cache=$here/$root/apt/cache
    -o Dir::State::status=/dev/null -o APT::Sandbox::User=root"
  # shellcheck disable=SC2086  # the options are words
  (cd $root/apt && apt-get $options update && apt-get $options download libcmocka-dev libcmocka0) \
    >$root/apt/log 2>&1
  for package in "$root"/apt/*.deb; do
    [ -e "$package" ] || continue
    dpkg-deb -x "$package" $root || return 1
  done
  rm -rf $root/apt/lists $root/apt/cache
  [ -e $root/usr/include/cmocka.h ]
}

[ $# -eq 0 ] && set -- build demo test
for group in "$@"; do
  case $group in
    build | demo | test) "need_$group" ;;
    cross)
      fetch_cross && continue
      echo "setup: cmocka for aarch64 cannot be had; the tests under qemu will be skipped" >&2
      ;;
    *)
      echo "setup: unknown group '$group' (build, demo, test or cross)" >&2
      exit 2
      ;;
  esac
done

unique() { printf '%s\n' "$@" | awk '!seen[$0]++' | tr '\n' ' ' | sed 's/ $//'; }
# shellcheck disable=SC2086  # lists of words
hard=$(unique $hard) soft=$(unique $soft)
[ -z "$hard$soft" ] && exit 0

if ! have apt-get; then
  echo "setup: this machine has no apt-get; please install by hand: $hard $soft" >&2
elif [ "$(id -u)" -ne 0 ]; then
  echo "setup: missing: $(unique $hard $soft). To install, type:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $(unique $hard $soft)" >&2
else
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  install() { apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1; }
  echo "setup: installing $(unique $hard $soft)"
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
fi
[ -z "$hard" ]
