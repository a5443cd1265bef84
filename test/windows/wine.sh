#!/bin/sh
# Runs a program for Windows under Wine: wine.sh [-n] [-p FOLDER]... PROGRAM [ARGUMENT...]; DLLs are looked for in the folders,
# and with -n malloc stays that of the C run-time. Its registry, and what Wine takes for drive C, are in
# build/wine; the first run makes them (15 s). What Wine says of itself is left out.
set -u
folder=$(cd "$(dirname "$0")/../.." && pwd)/build/wine
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
if [ "${1:-}" = -n ]; then
  export MIMALLOC_DISABLE_REDIRECT=1
  shift
fi
while [ "${1:-}" = -p ]; do
  WINEPATH="Z:$2${WINEPATH:+;$WINEPATH}"
  shift 2
done
export WINEPATH="${WINEPATH:-}"
# No window, no browser, no .NET: nothing that a program of ours uses.
export WINEPREFIX="$folder" WINEDEBUG="${WINEDEBUG:--all}" WINEDLLOVERRIDES="mscoree,mshtml,winemenubuilder.exe,winedbg.exe=;${WINEDLLOVERRIDES:-}"
unset DISPLAY
# The prefix is made once, by one of the programs that are started at the same time.
if [ ! -e "$folder/ready" ]; then
  mkdir -p "$folder"
  (
    flock 9
    [ -e "$folder/ready" ] || { "$wine" cmd /c exit >/dev/null 2>&1 9>&- && touch "$folder/ready"; }
  ) 9>"$folder.lock"
fi
exec "$wine" "$@"
