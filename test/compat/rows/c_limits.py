"""Limits: locked memory, address space, filters, cgroups"""
from row import Row

# Moves itself into a memory cgroup of 80 MiB, of whichever version there is, and runs the command there.
CGROUP = r"""
if [ -d /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/compat-$$ limit=memory.limit_in_bytes
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control; then
  group=/sys/fs/cgroup/compat-$$ limit=memory.max
else
  echo "no memory cgroup can be made here"; exit 1
fi
mkdir "$group"
trap 'rmdir "$group"' EXIT
echo $((80 << 20)) >"$group/$limit"
[ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
(echo $BASHPID >"$group/cgroup.procs"; exec $COMMON/program)
"""

ROWS = [
    Row("mlockall", "mlockall before the first malloc: what is locked afterwards", "$COMMON/program 32", quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/locked.c -o program"),
    Row("mlockall-limited", "the same as a user who may lock 8 MiB",
        "ulimit -l 8192\nunprivileged $COMMON/program 8", quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/locked.c -o program"),
    Row("address-space-2-MiB", "2 MiB of address space are left at the first malloc: how much of it can be had",
        "$COMMON/program 1024", quick=True, peers=True, limit_s=60, setup="cc -O1 $SRC/little_room.c -o program"),
    Row("gcc-60-MB", "the compiler under ulimit -v 60000", """
printf '#include <stdio.h>\\nint main(void) { printf("%%d", 6 * 7); return 0; }\\n' >a.c
(ulimit -v 60000; gcc -O1 -c a.c -o a.o)
cksum a.o
for least in $(seq 44000 500 60000); do
  if (ulimit -v $least; gcc -O1 -c a.c -o b.o) 2>/dev/null; then break; fi
done
echo "FIGURE works from ulimit -v $least"
""", limit_s=60, peers=True, quick=True),
    Row("seccomp", "a filter that permits memory only, before the first malloc", "$COMMON/program", quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/filtered.c -o program"),
    Row("cgroup-80-MiB", "48 MB of blocks, freed and taken again in other sizes, in a cgroup of 80 MiB", CGROUP, quick=True, peers=True, limit_s=60,
        setup="cc -O1 $SRC/change_of_size.c -o program"),
]
