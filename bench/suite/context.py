"""What a macro workload is given to run: its folder, its scale, and two ways to start a program.

start() starts the program under test: with the peer preloaded, through `launch` of the harness, which measures it
and all its children. client() runs a program that drives the one under test: without the peer, not measured.

The harness gives launch(argv, env, cwd, stdin, stdout, stderr) -> handle. `env` is the whole environment, with the
peer in it already; `stdin`, `stdout`, `stderr` are open files, to be handed to the child as they are. The child must
lead a session of its own (start_new_session), because what is left of it is ended by its group. The handle has `pid`,
`wait(timeout)` that returns the exit status as subprocess does or raises subprocess.TimeoutExpired, and `terminate()`.

    with Context(folder, scale, peer_env, launch) as context:
        check = workload.run(context)
    seconds = context.seconds

Leaving the `with` ends every process that is left, in whatever way it is left, and removes the scratch folder.
"""
import contextlib
import ctypes
import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TIMEOUT_S = 300
KEPT = ("PATH", "HOME", "TMPDIR", "USER")


class Failed(Exception):
    """The program under test or its client did not do what it does on every working allocator."""


def environment(extra=None, peer=None):
    """The same everywhere: what a user has set for some allocator, interpreter or locale does not reach a run."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", **(extra or {}), **(peer or {})}


def libc():
    """What is preloaded where the peer is glibc: some programs are linked with another malloc, which would win."""
    with open("/proc/self/maps") as maps:
        paths = [line.split(None, 5)[5].strip() for line in maps if re.search(r"/libc(-[\d.]+)?\.so", line)]
    return {"LD_PRELOAD": paths[0]} if paths else {}


def end_with_us():
    """Between fork and exec: a child whose harness is killed gets SIGTERM."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def launch_plainly(argv, env, cwd, stdin, stdout, stderr):
    """A launch that measures nothing."""
    return subprocess.Popen(argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True,
                            preexec_fn=end_with_us)


def checksum(*parts):
    """Of bytes, texts and files (as paths), in this order."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            part = part.read_bytes()
        part = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:16]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_below(pid):
    """`pid` and all it started, as far as they still have a parent."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


class Process:
    """One program under test."""

    def __init__(self, handle, argv, stdout, stderr):
        self.handle, self.pid, self.name = handle, handle.pid, pathlib.Path(argv[0]).name
        self._stdout, self._stderr, self._since = stdout, stderr, time.perf_counter()
        self.seconds, self.status = 0.0, None

    def wait(self, timeout=TIMEOUT_S, status=0):
        """Wait for its end; another exit status than this one is a failure."""
        self._await(timeout)
        if self.status != status:
            raise Failed(f"{self.name} ended with {self.status}: {self.errors()}")

    def terminate(self, timeout=30):
        """End a server in order."""
        self.handle.terminate()
        self._await(timeout)
        if self.status not in (0, -signal.SIGTERM):
            raise Failed(f"{self.name} ended with {self.status} when told to stop: {self.errors()}")

    def _await(self, timeout):
        if self.status is None:
            try:
                self.status = self.handle.wait(timeout)
            except subprocess.TimeoutExpired:
                raise Failed(f"{self.name} ran longer than {timeout} s: {self.errors()}") from None
            self.seconds = time.perf_counter() - self._since

    def running(self):
        """Without reaping: the harness wants to see the end itself."""
        try:
            return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def output(self):
        return self._stdout.read_bytes()

    def errors(self):
        """The end of what it wrote, for a message."""
        return (self._stderr.read_bytes()[-2000:] or self.output()[-2000:]).decode(errors="replace").strip()

    def kill(self):
        if self.status is not None:
            left = []
        else:
            left = processes_below(self.pid)  # before they lose their parent; some lead a session of their own
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(Failed):
            self._await(30)


class Context:
    """folder: what prepare() made, not to be written to; scratch: empty, for this run alone; scale; seconds."""

    def __init__(self, folder, scale, peer_env=None, launch=launch_plainly):
        self.folder, self.scale = pathlib.Path(folder).resolve(), scale
        self.peer_env, self.launch = {**libc(), **(peer_env or {})}, launch
        self.processes, self._timed = [], None

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        self.scratch.chmod(0o755)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def start(self, argv, stdin=None, cwd=None, env=None, stdout=None):
        """The program under test. stdin: a path or nothing; cwd: scratch if not given; stdout: a path if to be kept."""
        argv = [str(part) for part in argv]
        number = len(self.processes)
        out, err = pathlib.Path(stdout or self.scratch / f"stdout-{number}"), self.scratch / f"stderr-{number}"
        with open(stdin or os.devnull, "rb") as input_file, open(out, "wb") as out_file, open(err, "wb") as err_file:
            handle = self.launch(argv, environment(env, self.peer_env), str(cwd or self.scratch),
                                 input_file, out_file, err_file)
        self.processes.append(Process(handle, argv, out, err))
        return self.processes[-1]

    def finish(self, argv, **how):
        """start() a program that ends by itself, wait for it, and return what it printed."""
        process = self.start(argv, **how)
        process.wait()
        return process.output()

    def client(self, argv, stdin=None, cwd=None, env=None, check=True, timeout=TIMEOUT_S, text=None):
        """A program without the peer, off the books. stdin: a path; text: what to send instead."""
        argv = [str(part) for part in argv]
        with open(stdin or os.devnull, "rb") as input_file:
            source = {"input": text.encode()} if text is not None else {"stdin": input_file}
            try:
                done = subprocess.run(argv, cwd=cwd or self.scratch, env=environment(env), capture_output=True,
                                      timeout=timeout, **source)
            except subprocess.TimeoutExpired:
                raise Failed(f"{argv[0]} ran longer than {timeout} s") from None
        if check and done.returncode:
            errors = " / ".join(process.errors() for process in self.processes)
            raise Failed(f"{argv[0]} ended with {done.returncode}: {(done.stderr + done.stdout)[-2000:]!r}; {errors}")
        return done

    def ready(self, server, probe, timeout=60):
        """Wait until probe() is true; then see that the peer is in the server: the loader only warns if it is not."""
        deadline = time.monotonic() + timeout
        while not probe():
            if not server.running() or time.monotonic() > deadline:
                raise Failed(f"{server.name} did not start: {server.errors()}")
            time.sleep(0.01)
        maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text()
        for library in self.peer_env.get("LD_PRELOAD", "").replace(":", " ").split():
            if os.path.realpath(library) not in maps:
                raise Failed(f"{library} is not loaded in {server.name}: {server.errors()}")

    @contextlib.contextmanager
    def timed(self):
        """What runs inside is the time of the workload, in place of the life of the program. May be used repeatedly."""
        since = time.perf_counter()
        yield
        self._timed = (self._timed or 0.0) + time.perf_counter() - since

    @property
    def seconds(self):
        return self._timed if self._timed is not None else sum(process.seconds for process in self.processes)


def listens(port):
    """A probe for ready()."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
