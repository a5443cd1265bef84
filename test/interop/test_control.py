"""Commands for a running process (MIMALLOC_CONTROL). If this fails, who has a process with a problem cannot ask it without
starting it anew; or another user commands it; or a program that nobody commands is disturbed."""
import os
import pathlib
import re
import subprocess
import time

import pytest

import conftest
from conftest import attempt, environment, find, run

SOURCE = conftest.ROOT / "test" / "interop" / "src" / "controlled.c"
GUIDE = (conftest.ROOT / "docs" / "guide.md").read_text()
PATIENCE = 60  # seconds, for an answer that will come
LOOKS = 0.6  # seconds in which a process looks several times


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("control") / "program"
    run("cc", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-pthread", "-o", path)
    return path


class Controlled:
    """A running program, its folder, and the commands to both."""

    def __init__(self, program, library, folder, **variables):
        variables = {"MIMALLOC_CONTROL": folder, **variables}
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen(list(map(str, program)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment(LD_PRELOAD=library, **variables))
        self.block = int(self.process.stdout.readline(), 16)
        self.id = self.process.pid

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        said = []
        while said[-1:] != ["done\n"]:
            said.append(self.process.stdout.readline())
            assert said[-1], f"the program ended at {line}"
        return "".join(said[:-1]).strip()

    def command(self, text, process=None, mode=0o644):
        """Put a command there, whole from the beginning."""
        fresh = self.folder / "fresh"
        fresh.write_text(text)
        fresh.chmod(mode)
        fresh.rename(self.folder / f"{process or self.id}.command")

    def answer(self, process=None):
        path = self.folder / f"{process or self.id}.answer"
        end = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < end, "no answer"
            time.sleep(0.02)
        assert path.stat().st_mode & 0o777 == 0o600
        text = path.read_text()
        path.unlink()
        return text

    def ask(self, text, process=None):
        self.command(text, process)
        return self.answer(process)

    def is_silent(self, process=None):
        """It looks, or would, and answers nothing."""
        time.sleep(LOOKS)
        return not (self.folder / f"{process or self.id}.answer").exists()

    def threads(self):
        return len(list(pathlib.Path(f"/proc/{self.id}/task").iterdir()))

    def resident_mib(self):
        return int(pathlib.Path(f"/proc/{self.id}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

    def end(self):
        """It ends as it would: at the end of its input. What it said of errors."""
        self.process.stdin.close()
        said = self.process.stderr.read()
        assert self.process.wait(PATIENCE) == 0
        return said


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "control"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def start(program, library, folder):
    started = []

    def one(program=(program,), library=library, **variables):
        started.append(Controlled(program, library, folder, **variables))
        return started[-1]
    yield one
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def test_commands(start, folder):
    it = start()
    assert it.threads() == 2  # its own, and the one that does commands
    assert it.ask("help\n").splitlines() == ["ok", "help", "get", "set", "collect", "stats", "metrics", "explain", "profile",
                                             "profile-start", "profile-stop", "profile-mark"]
    assert it.ask("get purge_delay") == "ok\n1000\n" and it.ask("set PURGE_DELAY 70") == "ok\n70\n"
    assert it.ask("get purge_delay") == "ok\n70\n" and "option 'purge_delay': 70\n" in it.ask("get")
    assert it.ask("set arena_reserve 2G") == "ok\n2097152\n"  # KiB, as mi_option_get says it
    assert it.ask("set purge_thread 1") == "ok\n1\n"  # one of our own, whose number is another
    assert it.ask("set show_errors on") == "ok\n1\n"
    assert it.ask("explain 0x10") == "ok\nthe address is not ours\n"
    about = it.ask(f"explain {it.block + 7:#x}")
    assert about.startswith("ok\n") and re.search(rf"^block \d+ of \d+ at {it.block:#x} of 8192 bytes, 7 bytes into it", about, re.M), about
    assert about.endswith("\n") and not about.endswith("\n\n")
    assert it.ask(f"explain {it.block}").startswith("ok\nblock ")
    where = it.ask("explain")
    assert re.match(rf"ok\nprocess {it.id}: libmimalloc \S+\n\nResident, without files: ", where), where
    assert re.search(r"^ +8192 +\d+ +[1-9]", where, re.M) and "\nBy threads:" in where and "\nArena at 0x" in where, where
    stats = it.ask("stats")
    assert stats.startswith("ok\nsubproc 0\n") and "committed" in stats and "peak rss" in stats
    metrics = it.ask("metrics")
    assert re.search(r"^mimalloc_class_blocks{size=\"8192\"} 1$", metrics, re.M)
    assert not list(folder.iterdir())
    assert it.end() == ""


WRONG = [("set nothing 1", "no such option"), ("get nothing", "no such option"), ("nothing", "no such command"),
         ("set verbose maybe", "not a value"), ("set verbose", "not a value"), ("explain x", "not an address"),
         ("explain 12x", "not an address"), ("explain 99999999999999999999", "not an address"), ("explain 0x", "not an address"),
         ("profile-start x", "not a number"), ("profile", "which file"), ("", "no such command"), ("gett", "no such command"),
         ("collect now", "nothing may follow"), ("collect\ncollect", "no such command"), ("set purge_thread 0", "must stay"),
         ("get " + "x" * 2000, "longer than")]


def test_wrong_commands(start):
    """Each is of another process, so that the test waits once for all."""
    each = [(start(), wrong, reason) for wrong, reason in WRONG]
    for it, wrong, _ in each:
        it.command(wrong)
    for it, wrong, reason in each:
        answer = it.answer()
        assert re.fullmatch(rf"error: .*{reason}.*\n", answer), f"{wrong[:40]}: {answer}"


def test_collect(start):
    """After a burst of frees; what waits would go back much later."""
    it = start(MIMALLOC_PURGE_DELAY=1000000)
    it.do("allocate")
    it.do("free")
    before = it.resident_mib()
    given_back = int(re.fullmatch(r"ok\n(\d+)\n", it.ask("collect"))[1]) >> 20
    after = it.resident_mib()
    assert given_back > 0 and after < 16 and abs(before - after - given_back) <= 3
    it.end()


def test_collect_of_all_sub_processes(start):
    """What an interpreter has freed goes back, too: at least what may wait without a limit of time."""
    it = start(MIMALLOC_PURGE_DELAY=1000000)
    it.do("sub-process")
    before = it.resident_mib()
    given_back = int(re.fullmatch(r"ok\n(\d+)\n", it.ask("collect"))[1]) >> 20
    assert given_back >= 2 and it.resident_mib() <= before - 2
    it.end()


def test_memory_goes_back_beside_commands(start):
    """The thread goes on to be the purge thread."""
    it = start()
    it.do("allocate")
    it.do("free")
    end = time.monotonic() + PATIENCE
    while it.resident_mib() >= 32:
        assert time.monotonic() < end
        time.sleep(0.1)
    it.end()


def test_profile(start, tmp_path):
    it = start()
    file = tmp_path / "run.folded"
    assert it.ask(f"profile {file}").startswith("ok\nno profile is on")
    assert it.ask("profile-start 100000") == "ok\n100000\n"
    it.do("allocate")
    assert it.ask("profile-mark") == "ok\n" and it.ask(f"profile {file}") == "ok\n"
    lines = file.read_text().splitlines()
    assert abs(sum(int(line.split()[-1]) for line in lines) / (256 << 20) - 1) < 0.2
    assert any("program" in line for line in lines)
    assert it.ask(f"profile {tmp_path}/growth.folded,growth") == "ok\n"
    assert sum(int(line.split()[-1]) for line in (tmp_path / "growth.folded").read_text().splitlines()) == 0
    assert it.ask("profile-stop") == "ok\n" and it.ask(f"profile {file}").startswith("ok\nno profile is on")
    assert it.ask(f"profile {tmp_path}/none/x") == "error: 2, no such folder\n"
    it.end()


def test_only_the_user(start, folder, tmp_path):
    it = start()
    for mode in (0o666, 0o620, 0o602):
        it.command("set verbose 1", mode=mode)
        assert re.fullmatch("error: .* only they can write\n", it.answer())
    (tmp_path / "elsewhere").write_text("set verbose 1")
    (folder / f"{it.id}.command").symlink_to(tmp_path / "elsewhere")
    assert it.answer().startswith("error: ")
    os.mkfifo(folder / f"{it.id}.command", 0o600)
    assert it.answer().startswith("error: ")
    (folder / f"{it.id}.command").mkdir()  # cannot be removed, so it is not done
    assert it.is_silent()
    (folder / f"{it.id}.command").rmdir()
    for mode in (0o770, 0o1707):
        folder.chmod(mode)
        it.command("set verbose 1")
        assert it.is_silent()
    folder.chmod(0o755)
    assert it.answer() == "ok\n1\n"  # the command was waiting
    (tmp_path / "linked").symlink_to(folder)
    assert it.ask("set verbose 0") == "ok\n0\n"
    it.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_other_users(start, folder):
    it = start()
    (folder / "fresh").write_text("set verbose 1")
    os.chown(folder / "fresh", 65534, -1)
    (folder / "fresh").rename(folder / f"{it.id}.command")
    assert re.fullmatch("error: .* only they can write\n", it.answer())
    os.chown(folder, 65534, -1)
    it.command("get verbose")
    assert it.is_silent()
    os.chown(folder, 0, -1)
    assert it.answer() == "ok\n0\n"
    it.do("user")  # the folder is that of another user from now on
    it.command("get verbose")
    assert it.is_silent()


@pytest.mark.parametrize("wrong", ["relative", "missing", "shared", "file", "link", "no thread"])
def test_wrong_folder(wrong, start, folder, tmp_path):
    """It is told at once, and there is no thread for nothing."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(folder)
    if wrong == "shared":
        folder.chmod(0o777)
    path = {"relative": "control", "missing": folder / "none", "file": tmp_path / "file", "link": tmp_path / "link"}
    it = start(MIMALLOC_CONTROL=path.get(wrong, folder), MIMALLOC_PURGE_THREAD=0 if wrong == "no thread" else 2)
    it.command("get verbose")
    assert it.threads() == 1
    said = it.end()
    assert not list(folder.glob("*.answer")) and said.startswith("mimalloc: error: no commands from ") and said.count("\n") == 1
    assert ("switched off" in said) == (wrong == "no thread")


def test_files_left_over(start, program, library, folder):
    """Of an earlier process that had the number, or of an answer that nobody took."""
    shell = f"""cd {folder}; for name in command answer answer.new; do echo set verbose 1 >$$.$name; done
                exec env LD_PRELOAD={library} MIMALLOC_CONTROL={folder} {program}"""
    it = start(program=["sh", "-c", shell], library="", MIMALLOC_CONTROL="")
    assert not list(folder.iterdir()) and it.is_silent()
    (folder / f"{it.id}.answer.new").write_text("old")
    (folder / f"{it.id}.answer").write_text("old")
    it.command("get verbose")
    path = folder / f"{it.id}.answer"
    end = time.monotonic() + PATIENCE
    while path.read_text() == "old":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert it.answer() == "ok\n0\n" and not list(folder.iterdir())
    it.end()


def test_forks(start):
    """The parent goes on to answer, and so does a child with threads of its own, under its number."""
    it = start()
    child = int(it.do("fork"))
    assert it.ask("get verbose") == "ok\n0\n"
    threaded = int(it.do("fork-thread"))
    try:
        assert it.ask("set verbose 0", threaded) == "ok\n0\n" and it.ask("get purge_delay") == "ok\n1000\n"
        it.command("get verbose", child)
        assert it.is_silent(child)
    finally:
        os.kill(child, 9)
        os.kill(threaded, 9)
    it.do("thread")
    assert it.ask("get verbose") == "ok\n0\n" and it.threads() == 3


def test_off(start, program, library, folder):
    """No thread, and no call of the system: with an empty name as without one."""
    it = start(MIMALLOC_CONTROL="")
    it.command("get verbose")
    assert it.threads() == 1 and it.is_silent()
    it.do("thread")  # the purge thread is there now
    assert it.is_silent() and it.end() == ""
    trace = attempt(find("strace"), "-f", "-e", "trace=faccessat,openat", program, stdin="thread\n", LD_PRELOAD=library)
    assert trace.status == 0 and "faccessat" not in trace.output and str(folder) not in trace.output


def test_guide(start, folder):
    """The shell function of the guide, as it stands there."""
    text = re.search(r"^ask\(\) \{.*?^\}$", GUIDE, re.M | re.S)[0]
    it = start()
    said = run("sh", "-c", f'folder={folder}\n{text}\nask {it.id} set purge_delay 30; ask {it.id} get purge_delay', timeout=PATIENCE)
    assert said == "ok\n30\nok\n30\n"
    commands = it.ask("help").split()[1:]
    assert all(re.search(rf"^\|.* `{name}[ `].*\|", GUIDE, re.M) for name in commands)
    it.end()
