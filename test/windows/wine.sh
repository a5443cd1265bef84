#!/bin/sh
# Runs a program for Windows under Wine: wine.sh [-n] [-p FOLDER]... PROGRAM [ARGUMENT...]; DLLs are looked for in the folders,
# and with -n malloc stays that of the C run-time. Its registry, and what Wine takes for drive C, are in
# build/wine; the first run makes them (15 s). What Wine says of itself is left out.
set -u
folder=$(cd "$(dirname "$0")/../.." && pwd)/build/wine
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
server=$(command -v wineserver64 || echo /usr/lib/wine/wineserver64)
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
# Wine's server ends with the last program, and one that starts just then is reset. So it is told to stay for two minutes. One
# of the programs that start at the same time starts it, and then what Wine has beside each first program (and makes the
# folder): these would keep the output of this program open.
is_up() { [ -n "$(find "$folder.up" -mmin -1 2>/dev/null)" ]; } # used in the last minute
if ! is_up; then
  mkdir -p "$folder"
  (
    flock 9
    is_up && exit
    "$server" --persistent=120 9>&- &
    "$wine" cmd /c exit 9>&- && touch "$folder.up"
  ) 9>"$folder.lock" </dev/null >/dev/null 2>&1
fi
touch "$folder.up"
exec "$wine" "$@"
