# What every script of a row starts with. See row.py.
set -euo pipefail
ulimit -c 0

# Ends the row unless the library is loaded in the process; with glibc nothing has to be loaded.
active() { # active PID|self
  [ -z "$PRELOADED" ] || grep -qF "$PRELOADED" "/proc/$1/maps" || { echo "the library is not loaded in $1"; exit 99; }
}

# Servers that refuse to run as root run as nobody; in the background, as the process that $! names.
unprivileged() {
  if [ "$(id -u)" = 0 ]; then set -- setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; fi
  if [ $BASHPID = $$ ]; then "$@"; else exec "$@"; fi
}

# Waits until the command succeeds, for ten seconds.
await() {
  for _ in $(seq 200); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.05
  done
  echo "waited in vain: $*"
  return 1
}

# The harness' own tools run without the library: only the program under test is.
plain() { env -u LD_PRELOAD "$@"; }

# A port that nobody listens at: the kernel names one.
free_port() { plain /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The peak of a server, or of the largest of its children, as a figure: whoever asks it may be larger.
server_peak() {
  plain sh -c 'for pid in $1 $(cat /proc/$1/task/*/children); do cat /proc/$pid/status; done' - "$1" |
    awk '/^VmHWM/ && $2 > most {most = $2} END {printf "FIGURE server %.1f MiB\n", most / 1024}'
}

# The server that was just started in the background: when the command succeeds it is there, ask.py asks it on the port, and
# its peak is a figure. What runs in the background is ended with the row.
ask_server() { # ask_server PORT COMMAND...
  local server=$! port=$1
  trap 'kill $(jobs -p); wait' EXIT
  await "${@:2}"
  active $server
  /usr/bin/python3 ask.py $port
  server_peak $server
}

# Resident memory of a process in KiB.
resident() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }

active self
