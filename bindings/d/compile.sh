#!/bin/sh
# Compiles the library, one C file, into build/libmimalloc.a, if that is older than a source. The flags are those of
# cmake/flags.cmake.
set -eu
cd "$(dirname "$0")"
mkdir -p build
if [ -e build/libmimalloc.a ] && [ -z "$(find ../../src ../../include compile.sh -newer build/libmimalloc.a -type f)" ]; then
  exit 0
fi
${CC:-cc} -c ../../src/static.c -o build/static.o -I../../include -std=gnu11 -O2 -DNDEBUG -DMI_STATIC_LIB -fPIC \
  -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -fno-plt -fexceptions -fno-semantic-interposition \
  -fno-align-loops -fno-align-jumps ${CFLAGS:-}
rm -f build/libmimalloc.a
ar rcs build/libmimalloc.a build/static.o
