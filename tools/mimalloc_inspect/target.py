# SPDX-License-Identifier: MIT
"""What is looked at: a process (by /proc) or a core dump (a file). Both have

    read(address, size)     bytes, or Unreadable
    mappings                [Mapping], by address
    resident(start, end)    a byte for each OS page: 1 if it is resident
    swapped(start, end)     bytes of it that are swapped out
    threads()               {number in the process: (number, name)}
    anonymous(mapping)      bytes of a mapping that are resident and its own
    file(mapping)           a path by which the file of a mapping can be opened, or None

A core dump has no resident set: an OS page counts as resident if the dump has it and it is not all zero.
"""
import bisect
import collections
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import re
import struct
import time

from . import elf

Mapping = collections.namedtuple("Mapping", "start end flags offset name")
READ_MAX = 1 << 28
STOP_SECONDS = 5
VAST = 1 << 36
# Of linux/fs.h: the call that asks the page map for ranges, and the categories of their pages.
PAGEMAP_SCAN = 0xC0606610
SCAN_PRESENT, SCAN_ZEROS = 1 << 3, 1 << 5


class Failure(Exception):
    """What the user is told when nothing can be done."""


class Unreadable(Exception):
    """Memory that is not there."""

    def __init__(self, address, size):
        super().__init__(f"{size} bytes at {address:#x} cannot be read")


class Target:
    """What both kinds have in common."""

    def mapping_of(self, address):
        i = bisect.bisect_right(self.starts, address) - 1
        return self.mappings[i] if i >= 0 and address < self.mappings[i].end else None

    def is_mapped(self, start, end):
        """True if all of a range is mapped."""
        while start < end:
            mapping = self.mapping_of(start)
            if mapping is None:
                return False
            start = mapping.end
        return True

    def set_mappings(self, mappings):
        self.mappings = sorted(mappings)
        self.starts = [mapping.start for mapping in self.mappings]

    def rest_of(self, mapping):
        """What a mapping is called when its memory is told that is not the library's."""
        if mapping.name.startswith("[stack"):
            return "stack of the first thread"
        if mapping.name.startswith("[") and not mapping.name.startswith("[anon"):
            return mapping.name
        if mapping.name.startswith("/") or mapping.name.startswith("("):
            return "data of programs and libraries"
        return "other mappings (stacks of threads, what the program maps itself)"


class Process(Target):
    """A process. A folder of /proc stays that of this process, even if its number is used again."""

    kind = "process"

    def __init__(self, pid):
        self.pid = pid
        try:
            self.folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Failure(f"there is no process {pid}") from error
        self.page_size = os.sysconf("SC_PAGE_SIZE")
        self.read_status()
        if int(self.status.get("Tgid", pid)) != pid:
            raise Failure(f"{pid} is a thread of process {self.status['Tgid']}: name the process")
        if self.status.get("State", "").startswith("Z"):
            raise Failure(f"process {pid} has ended, and only its parent has not noticed")
        if "VmSize" not in self.status:
            raise Failure(f"{pid} is a thread of the kernel: it has no memory of its own")
        self.memory = self.open("mem")
        self.pagemap = None
        try:
            self.pagemap = self.open("pagemap")
        except Failure:
            pass  # then what is resident is known for each mapping only
        self.look()

    def look(self):
        """Read the mappings and how much of each is resident."""
        self.set_mappings(Mapping(int(start, 16), int(end, 16), flags, int(offset, 16), name) for start, end, flags, offset, name
                          in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \S+[ ]*(.*)$", self.text("maps"), re.M))
        self.own, self.sizes, self.known, self.empty = {}, {}, {}, {}
        start = None
        for line in self.text("smaps").splitlines():
            name, _, value = line.partition(":")
            if value[-3:] != " kB":
                head = re.match(r"[0-9a-f]+-", line)
                start = int(head[0][:-1], 16) if head else start
            elif name == "Anonymous":
                self.own[start] = int(value[:-3]) * 1024
            elif name == "Rss":
                self.sizes[start] = int(value[:-3]) * 1024
                self.empty[start] = self.sizes[start] == 0
            elif name == "Swap" and int(value[:-3]):
                self.empty[start] = False
        self.read_status()

    def read_status(self):
        self.status = dict(re.findall(r"^(\w+):\s*(.*?)\s*$", self.text("status"), re.M))

    def path(self, name):
        return f"/proc/self/fd/{self.folder}/{name}"

    def open(self, name):
        try:
            return os.open(name, os.O_RDONLY, dir_fd=self.folder)
        except OSError as error:
            raise Failure(self.refusal(error)) from error

    def text(self, name):
        try:
            file = os.open(name, os.O_RDONLY, dir_fd=self.folder)
            with os.fdopen(file, errors="replace") as stream:
                return stream.read()
        except OSError as error:
            raise Failure(self.refusal(error)) from error

    def refusal(self, error):
        """What is needed to read the process."""
        if error.errno in (errno.ESRCH, errno.ENOENT):
            return f"process {self.pid} has ended meanwhile"
        if error.errno not in (errno.EPERM, errno.EACCES):
            return f"process {self.pid} cannot be read: {error.strerror}"
        owner = os.fstat(self.folder).st_uid
        user = self.status.get("Uid", "0").split()[0] if hasattr(self, "status") else str(owner)
        if os.geteuid() not in (0, int(user)):
            return f"process {self.pid} belongs to user {user}: run this as that user, or as root (CAP_SYS_PTRACE)"
        scope = "0"
        with contextlib.suppress(OSError), open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = file.read().strip()
        if scope != "0":
            return (f"process {self.pid} may not be read: kernel.yama.ptrace_scope is {scope}, which lets only "
                    f"{'a parent' if scope == '1' else 'root' if scope == '2' else 'nobody'} look; run this as root, or "
                    "sysctl kernel.yama.ptrace_scope=0, or the process calls prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)")
        return (f"process {self.pid} may not be read: it is not dumpable (set-user-id, or prctl PR_SET_DUMPABLE), or this "
                "container lacks CAP_SYS_PTRACE; run this as root outside of it")

    def read(self, address, size):
        if size > READ_MAX or not 0 <= address < 1 << 63:
            raise Unreadable(address, size)
        try:
            found = os.pread(self.memory, size, address)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.ESRCH):
                raise Failure(self.refusal(error)) from error
            raise Unreadable(address, size) from error
        if len(found) < size:
            rest = self.read(address + len(found), size - len(found)) if found else None
            if rest is None:
                if not self.is_alive():
                    raise Failure(f"process {self.pid} has ended meanwhile")
                raise Unreadable(address, size)
            found += rest
        return found

    def is_alive(self):
        try:
            return "VmSize" in self.text("status")
        except Failure:
            return False

    PRESENT = bytes(i >> 7 & 1 for i in range(256))
    ABSENT = bytes(i & 0x7f for i in range(256))
    # Present, and in no other process: the page of zeros of the kernel never is.
    EXCLUSIVE = bytes(i if i & 0x81 == 0x81 else i & 0x7f for i in range(256))
    SWAPPED = bytes(i >> 6 & 1 for i in range(256))

    def entries(self, start, end):
        """The highest byte of the page map's word of each OS page."""
        first, last = start // self.page_size, end // self.page_size
        found = bytearray()
        while first < last:
            part = os.pread(self.pagemap, min(last - first, 1 << 17) * 8, first * 8)
            if not part:
                break
            found += part[7::8]
            first += len(part) // 8
        return bytes(found).ljust(last - start // self.page_size, b"\0")

    def scan(self, start, end):
        """The ranges that are present and not the kernel's page of zeros (PAGEMAP_SCAN of linux/fs.h, since Linux 6.7)."""
        regions = (ctypes.c_uint64 * (3 * 4096))()  # start, end, categories
        while start < end:
            request = bytearray(struct.pack("12Q", 96, 0, start, end, 0, ctypes.addressof(regions), len(regions) // 3, 0,
                                            SCAN_ZEROS, SCAN_PRESENT | SCAN_ZEROS, 0, SCAN_PRESENT))
            count = fcntl.ioctl(self.pagemap, PAGEMAP_SCAN, request)
            yield from zip(regions[0:3 * count:3], regions[1:3 * count:3])
            start = struct.unpack_from("Q", request, 32)[0] or end

    def without_zeros(self, found, start, end):
        """The entries without those of memory that was read, and never written: the kernel has its page of zeros there, which
        counts for nobody."""
        rest = bytearray(found.translate(self.ABSENT))
        try:
            for first, until in self.scan(start, end):
                part = slice((first - start) // self.page_size, (until - start) // self.page_size)
                rest[part] = found[part]
        except OSError:  # an older kernel does not tell that page from one that another process has, too
            return found.translate(self.EXCLUSIVE)
        return bytes(rest)

    def entries_of(self, mapping, start, end):
        """Those of a part of a mapping. A mapping is read once, unless it is vast."""
        if self.empty.get(mapping.start):
            return bytes((end - start) // self.page_size)
        if mapping.end - mapping.start > VAST:
            return self.entries(start, end)
        if mapping.start not in self.known:
            found = self.entries(mapping.start, mapping.end)
            has_zeros = found.translate(self.PRESENT).count(1) * self.page_size > self.sizes.get(mapping.start, 1 << 62)
            self.known[mapping.start] = self.without_zeros(found, mapping.start, mapping.end) if has_zeros else found
        return self.known[mapping.start][(start - mapping.start) // self.page_size:(end - mapping.start) // self.page_size]

    def parts(self, start, end):
        """The parts of a range that lie in one mapping each, with that; what lies in none has None."""
        while start < end:
            i = bisect.bisect_right(self.starts, start)
            mapping = self.mapping_of(start)
            until = mapping.end if mapping else self.starts[i] if i < len(self.starts) else end
            yield start, min(end, until), mapping
            start = until

    def resident(self, start, end):
        found = bytearray()
        for at, until, mapping in self.parts(start, end):
            count = (until - at) // self.page_size
            if mapping is None:
                found += bytes(count)
            elif self.pagemap is None:  # what the mapping has is spread over it
                has = count * self.sizes.get(mapping.start, 0) // (mapping.end - mapping.start)
                found += b"\1" * has + bytes(count - has)
            else:
                found += self.entries_of(mapping, at, until).translate(self.PRESENT)
        return bytes(found)

    def swapped(self, start, end):
        found = 0
        for at, until, mapping in self.parts(start, end):
            if mapping is not None and self.pagemap is not None:
                found += self.entries_of(mapping, at, until).translate(self.SWAPPED).count(1)
        return found * self.page_size

    def anonymous(self, mapping):
        return self.own.get(mapping.start, 0)

    def figure(self, name):
        """A figure of /proc/PID/status in bytes, None if the kernel has none."""
        found = re.match(r"(\d+) kB$", self.status.get(name, ""))
        return int(found[1]) * 1024 if found else None

    def figures(self):
        names = {"resident": "VmRSS", "anonymous": "RssAnon", "files": "RssFile", "shared": "RssShmem", "swapped": "VmSwap"}
        return {key: self.figure(name) for key, name in names.items()}

    def name(self):
        return self.status.get("Name", "")

    def threads(self):
        found = {}
        with contextlib.suppress(OSError, Failure):
            is_nested = len(self.status.get("NSpid", "").split()) > 1
            for number in os.listdir(self.path("task")):
                # In a PID namespace the process itself knows another number.
                inner = re.search(r"^NSpid:.*?(\d+)$", self.text(f"task/{number}/status"), re.M)[1] if is_nested else number
                found[int(inner)] = int(number), self.text(f"task/{number}/comm").strip()
        return found

    def file(self, mapping):
        # By its addresses: also a file that was replaced or removed, or that lies in another mount namespace.
        for path in (self.path(f"map_files/{mapping.start:x}-{mapping.end:x}"), self.path(f"root{mapping.name}")):
            if mapping.name.startswith("/") and os.access(path, os.R_OK):
                return path
        return None

    # -- Stopping --

    @contextlib.contextmanager
    def stopped(self):
        """No thread of the process runs meanwhile. If this process ends, the kernel lets the threads go on."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.restype = ctypes.c_long
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, interrupt, detach, wait_all = 0x4206, 0x4207, 17, 0x40000000
        signals = {}

        def call(request, thread, data=0):
            if libc.ptrace(request, thread, None, data) == 0:
                return 0
            return ctypes.get_errno()

        def stop(thread):
            error = call(seize, thread)
            if error == errno.ESRCH:
                return  # it has ended
            if error:
                raise Failure(f"process {self.pid} cannot be stopped ({os.strerror(error)}): another debugger may be attached; "
                              + self.refusal(OSError(error, os.strerror(error))))
            signals[thread] = 0
            call(interrupt, thread)
            until = time.monotonic() + STOP_SECONDS
            while True:
                done, status = os.waitpid(thread, os.WNOHANG | wait_all)
                if done:
                    break
                if time.monotonic() > until:
                    raise Failure(f"thread {thread} of process {self.pid} did not stop in {STOP_SECONDS} s: it waits in the kernel")
                time.sleep(0.0002)
            if not os.WIFSTOPPED(status):
                del signals[thread]
            elif status >> 16 == 0:  # a signal was about to be delivered: it is, when the thread goes on
                signals[thread] = os.WSTOPSIG(status)

        try:
            while True:
                fresh = [t for t in map(int, os.listdir(self.path("task"))) if t not in signals]
                before = len(signals)
                for thread in fresh:
                    stop(thread)
                if len(signals) == before:
                    break
            yield
        finally:
            for thread, number in signals.items():
                call(detach, thread, number)


class Kept:
    """A process as it was while it was stopped: what was read then is kept. It is asked again only for what nobody read."""

    LARGE = 4096

    def __init__(self, target):
        self.target, self.texts, self.large, self.missed, self.is_frozen = target, {}, {}, 0, False

    def __getattr__(self, name):
        return getattr(self.target, name)

    def freeze(self):
        self.is_frozen, self.large_starts = True, sorted(self.large)

    def read(self, address, size):
        text = self.texts.get((address, size))
        if text is None and self.is_frozen:
            i = bisect.bisect_right(self.large_starts, address) - 1
            start = self.large_starts[i] if i >= 0 else 0
            whole = self.large.get(start, b"")
            if address + size <= start + len(whole):
                return whole[address - start:address - start + size]
            self.missed += 1
        if text is None:
            text = self.target.read(address, size)
            if not self.is_frozen:
                self.texts[(address, size)] = text
                if size >= max(self.LARGE, len(self.large.get(address, b""))):
                    self.large[address] = text
        return text


class Core(Target):
    """A core dump."""

    kind = "core"
    TYPE_CORE = 4
    PRSTATUS, PRPSINFO, AUXV, FILES = 1, 3, 6, 0x46494c45

    def __init__(self, path, sysroot=None):
        self.path, self.sysroot, self.warnings, self.checked = path, sysroot, [], {}
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except (OSError, ValueError) as error:
            raise Failure(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        try:
            self.parse()
        except elf.NotElf as error:
            packed = {b"\x28\xb5\x2f\xfd": "zstd -d", b"\x04\x22\x4d\x18": "lz4 -d", b"\x1f\x8b": "gunzip", b"\xfd7zX": "xz -d"}
            hint = next((f" (it is compressed: {tool})" for head, tool in packed.items() if self.data[:len(head)] == head), "")
            raise Failure(f"{path} is no core dump that can be read: {error}{hint}") from error
        except struct.error as error:
            raise Failure(f"{path} is no core dump that can be read: its headers are damaged") from error

    def at(self, offset, size):
        found = self.data[offset:offset + size]
        if len(found) < size:
            raise elf.NotElf("it is truncated")
        return found

    def parse(self):
        header = elf.Header(self.at)
        if header.type != self.TYPE_CORE:
            raise elf.NotElf("it is an ELF file, but no core dump")
        self.header, self.page_size, self.number, self.people, self.program = header, 0, 0, [], ""
        loads, files = [], []
        for kind, flags, offset, address, file_size, size in header.segments(self.at, most=1 << 20):
            if kind == elf.PT_NOTE:
                self.parse_notes(self.data[offset:offset + min(file_size, READ_MAX)], files)
            elif kind == elf.PT_LOAD and 0 < size < 1 << 63 and address < 1 << 63:
                loads.append((address, min(file_size, size), size, offset, flags))
        if not loads:
            raise elf.NotElf("it has no memory")
        self.loads = sorted(loads)
        self.load_starts = [load[0] for load in self.loads]
        self.page_size = self.page_size or mmap.PAGESIZE
        self.length = max((offset + file_size for _, file_size, _, offset, _ in loads), default=0)
        if self.length > len(self.data):
            self.warnings.append(f"the core dump is truncated: {len(self.data)} of {self.length} bytes are there")
        self.files = sorted(files)
        self.set_mappings(self.merge())

    def parse_notes(self, table, files):
        pointer = self.header.order + self.header.pointer
        word = struct.calcsize(pointer)
        for owner, kind, _, text in elf.notes(self.header.order, table, most=1 << 16):
            if owner not in (b"CORE", b"LINUX"):
                continue
            if kind == self.PRSTATUS and len(text) >= 36:
                self.people.append(struct.unpack_from(self.header.order + "i", text, 32 if word == 8 else 24)[0])
            elif kind == self.PRPSINFO and len(text) >= 56:
                self.number = struct.unpack_from(self.header.order + "i", text, 24 if word == 8 else 12)[0]
                start = 40 if word == 8 else 28
                self.program = text[start:start + 16].split(b"\0")[0].decode(errors="replace")
            elif kind == self.AUXV:
                for i in range(0, len(text) - 2 * word + 1, 2 * word):
                    name, value = struct.unpack_from(pointer + self.header.pointer, text, i)
                    if name == 6 and 4096 <= value <= 1 << 20 and value & value - 1 == 0:
                        self.page_size = value
            elif kind == self.FILES and len(text) >= 2 * word:
                count, unit = struct.unpack_from(pointer + self.header.pointer, text, 0)
                names = text[(2 + 3 * count) * word:].split(b"\0") if count < 1 << 20 else []
                for i, name in enumerate(names[:count]):
                    start, end, offset = struct.unpack_from(self.header.order + 3 * self.header.pointer, text, (2 + 3 * i) * word)
                    files.append((start, end, offset * unit, name.decode(errors="surrogateescape")))

    def merge(self):
        """Segments, with the names of the files that are mapped there."""
        starts = [file[0] for file in self.files]
        for address, _, size, _, flags in self.loads:
            i = bisect.bisect_right(starts, address) - 1
            name, offset = "", 0
            if i >= 0 and address < self.files[i][1]:
                offset, name = self.files[i][2] + address - self.files[i][0], self.files[i][3]
            letters = "".join(letter if flags >> bit & 1 else "-" for letter, bit in (("r", 2), ("w", 1), ("x", 0)))
            yield Mapping(address, address + size, letters + "p", offset, name)

    def read(self, address, size):
        if size > READ_MAX:
            raise Unreadable(address, size)
        found = bytearray()
        while len(found) < size:
            found += self.part(address + len(found), size - len(found))
        return bytes(found)

    def part(self, address, size):
        i = bisect.bisect_right(self.load_starts, address) - 1
        if i >= 0:
            start, file_size, _, offset, _ = self.loads[i]
            inside = address - start
            text = self.data[offset + inside:offset + min(file_size, inside + size)] if inside < file_size else b""
            if text:
                return text
        return self.part_of_file(address, size)

    def part_of_file(self, address, size):
        """What a core dump leaves out because a file has it."""
        for start, end, offset, name in self.files:
            if start <= address < end and self.open_file(name, start) is not None:
                file = self.open_file(name, start)
                text = file[offset + address - start:offset + min(end - start, address - start + size)]
                if text:
                    return text
        raise Unreadable(address, size)

    def open_file(self, name, start):
        """The contents of a mapped file, None if there are none; the build id of a file must be that in the core dump."""
        if name not in self.checked:
            self.checked[name] = None
            path = self.sysroot.rstrip("/") + name if self.sysroot else name
            with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
                self.checked[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.check_file(name, path)
        return self.checked[name]

    def check_file(self, name, path):
        file = self.checked[name]
        first = next((start for start, _, offset, other in self.files if other == name and offset == 0), None)
        if file is None or first is None:
            return

        def dumped(offset, size):
            i = bisect.bisect_right(self.load_starts, first) - 1
            load = self.loads[i]
            if load[0] != first or offset + size > load[1]:
                raise elf.NotElf("it is not in the dump")
            return self.at(load[3] + offset, size)
        ids = []
        for read in (dumped, lambda offset, size: file[offset:offset + size]):
            try:
                header = elf.Header(read)
                ids.append(next(filter(None, (elf.build_id(header.order, read(offset, file_size)) for kind, _, offset, _, file_size, _
                                              in header.segments(read) if kind == elf.PT_NOTE)), ""))
            except (elf.NotElf, struct.error):
                ids.append("")
        if all(ids) and ids[0] != ids[1]:
            self.checked[name] = None
            self.warnings.append(f"{path} is not the file that the process had: build id {ids[1]}, not {ids[0]} (--sysroot names a "
                                 "folder with the files of the machine that the core dump is of)")

    def dumped(self, start, end):
        """The OS pages of a range that the dump has and that are not all zero."""
        zero = bytes(self.page_size)
        for i in range(max(bisect.bisect_right(self.load_starts, start) - 1, 0), len(self.loads)):
            address, file_size, _, offset, _ = self.loads[i]
            if address >= end:
                break
            first = max(start, address)
            last = min(end, address + min(file_size, max(len(self.data) - offset, 0)))
            for page in range(first, last - self.page_size + 1, self.page_size):
                at = offset + page - address
                if self.data[at:at + self.page_size] != zero:
                    yield page

    def resident(self, start, end):
        found = bytearray((end - start) // self.page_size)
        for page in self.dumped(start, end):
            found[(page - start) // self.page_size] = 1
        return bytes(found)

    def swapped(self, start, end):
        return 0

    def anonymous(self, mapping):
        # Of a file only what was written to is dumped, and what tells that it is one.
        if mapping.name and ("x" in mapping.flags or (mapping.offset == 0 and "w" not in mapping.flags)):
            return 0
        return sum(1 for _ in self.dumped(mapping.start, mapping.end)) * self.page_size

    def figures(self):
        own = sum(self.anonymous(mapping) for mapping in self.mappings)
        return {"resident": None, "anonymous": own, "files": None, "shared": None, "swapped": None}

    def name(self):
        return self.program

    @property
    def pid(self):
        return self.number

    def threads(self):
        return {number: (number, "") for number in self.people}

    def file(self, mapping):
        if not mapping.name.startswith("/"):
            return None
        path = self.sysroot.rstrip("/") + mapping.name if self.sysroot else mapping.name
        return path if os.access(path, os.R_OK) else None
