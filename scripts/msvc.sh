#!/bin/sh
# Builds the library for Windows with clang-cl, and lists the test programs that run with it.
#
#   build/windows-msvc      with ucrtbase.dll, as Visual Studio builds it
#   build/windows-msvc-crt  with msvcrt.dll, where the programs of build/windows have errno: these are the test programs
#
# Does nothing where the compiler or Wine's libraries cannot be had (scripts/setup.sh names them).
set -u
cd "$(dirname "$0")/.." || exit 1
rm -f build/windows-msvc/tests.json
WHICH=windows-msvc scripts/setup.sh cross
[ -e build/cross/windows-msvc/lib/msvcrt/msvcrt.lib ] || exit 0
cmake --preset windows-msvc && cmake --build --preset windows-msvc || exit 1
cmake --preset windows-msvc -B build/windows-msvc-crt -DMI_WINDOWS_CRT=msvcrt && cmake --build build/windows-msvc-crt || exit 1
[ -e build/windows/tests.json ] || exit 0
exec python3 -c '
import json, pathlib
windows, folder = (str(pathlib.Path("build", name).resolve()) for name in ("windows", "windows-msvc-crt"))
found = [program for program in json.load(open("build/windows/tests.json")) if program["flavour"] == "release"]
for program in found:
    program["emulator"] = [folder if word == windows else word for word in program["emulator"]]
json.dump(found, open("build/windows-msvc/tests.json", "w"))'
