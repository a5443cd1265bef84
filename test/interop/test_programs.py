"""Real programs, unmodified, on our malloc: what they print and how they end must not change.

Each test runs a program twice, as it is and with our library preloaded, in two folders of the same
content. A program that is not installed is a skipped test. If one of these fails, programs of users fail.

All run with each build that users can choose: the library as shipped, the secure build, the debug build, and the library
as shipped with guards around every block. The last two take several times as long. So `make test` runs all programs
with the first, and those of QUICK with the others; `make long WHAT=flavours` (MI_FLAVOURS=all) runs all with all.
"""
import collections
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from conftest import attempt, compiled, find, run

pytestmark = pytest.mark.slow
TIMEOUT_S = 100
HERE = pathlib.Path(__file__).resolve().parent
QUICK = ("the_library_is_really_loaded", "perl", "lua", "jq", "xmllint", "tar_and_xz")

# The file to preload, the variables of the environment that belong to it, and how many times as long a program may take.
# A mistake that is noticed ends the program.
Flavour = collections.namedtuple("Flavour", "path variables patience")
FATAL = {"MIMALLOC_ABORT_ON_MISUSE": "2"}
FLAVOURS = {
    "release": (None, {}, 1),
    "secure": (("-DMI_SECURE=4",), FATAL, 2),
    "debug": (("-DMI_DEBUG=2", "-DMI_PADDING=1"), FATAL, 4),
    "guarded": (None, {**FATAL, "MIMALLOC_GUARDED_SAMPLE_RATE": "1"}, 10),
}


def in_a_group(name):
    """One process runs the tests of a flavour, for which it makes the library."""
    return pytest.param(name, marks=pytest.mark.xdist_group(f"programs-{name}"))


def pytest_generate_tests(metafunc):
    if "flavour" in metafunc.fixturenames:
        is_whole = os.environ.get("MI_FLAVOURS") == "all" or metafunc.function.__name__.removeprefix("test_") in QUICK
        names = list(FLAVOURS) if is_whole else ["release"]
        metafunc.parametrize("flavour", [in_a_group(name) for name in names], indirect=True)


@pytest.fixture(scope="session")
def flavour_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("flavours")


@pytest.fixture
def flavour(request, library, flavour_folder):
    macros, variables, patience = FLAVOURS[request.param]
    path = library
    if macros is not None:
        path = flavour_folder / f"libmimalloc-{request.param}.so"
        if not path.exists():
            compiled(flavour_folder, f"mimalloc-{request.param}", *macros)
    return Flavour(path, tuple(variables.items()), patience)


def find_python():
    """The system's own interpreter: a wrapper script in front of it would be what is preloaded."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def environment(preload):
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LANG")}
    kept.update(LC_ALL="C.UTF-8", TZ="UTC", PYTHONHASHSEED="0", PYTHONMALLOC="malloc", PYTHONDONTWRITEBYTECODE="1",
                GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null")
    if preload:
        kept.update(preload.variables, LD_PRELOAD=str(preload.path))
    return kept


class Pair:
    """The two runs of a test: `plain` and `ours` are folders, run() does the same in both."""

    def __init__(self, flavour, tmp_path):
        self.folders = {None: tmp_path / "plain", flavour: tmp_path / "ours"}
        for folder in self.folders.values():
            folder.mkdir()
        self.plain, self.ours = self.folders.values()

    def write(self, name, text):
        for folder in self.folders.values():
            (folder / name).write_text(text)

    def run(self, *command, stdin=None, expect=0, same=True, timeout=TIMEOUT_S, extra=None):
        """Run in both folders, compare exit status and output, return the output of our run."""
        seen = []
        for preload, folder in self.folders.items():
            result = run_in(folder, preload, command, stdin, timeout, extra)
            who = f"{'ours' if preload else 'plain'}: {' '.join(map(str, command))[:200]}"
            assert result.status == expect, f"{who} ended with {result.status}\n{text_of(result)}"
            seen.append(result)
        if same:
            assert seen[0].output == seen[1].output, "stdout differs"
            assert seen[0].errors == seen[1].errors, "stderr differs"
        return seen[1].output

    def same_files(self, *names):
        for name in names:
            assert filecmp.cmp(self.plain / name, self.ours / name, shallow=False), f"{name} differs"


def run_in(folder, preload, command, stdin, timeout, extra=None):
    """One run, which must not take too long."""
    timeout *= preload.patience if preload else 1
    ended = attempt(*command, cwd=folder, stdin=stdin, env={**environment(preload), **(extra or {})}, apart=True,
                    timeout=timeout)
    if ended.status is None:
        pytest.fail(f"{' '.join(map(str, command))[:200]} ran longer than {timeout} s ({'ours' if preload else 'plain'})")
    return ended


def text_of(result):
    return (result.output + result.errors)[-6000:]


@pytest.fixture
def pair(flavour, tmp_path):
    return Pair(flavour, tmp_path)


def test_the_library_is_really_loaded(flavour):
    """The control of this file: without it a library that the loader refuses would pass every test."""
    maps = run_in("/", flavour, ["cat", "/proc/self/maps"], None, 10)
    assert os.path.realpath(flavour.path) in maps.output
    assert "cannot be preloaded" not in maps.errors


# -- python3

PYTHON_PARTS = ["test_json", "test_threading", "test_subprocess", "test_decimal", "test_gc"]


@pytest.mark.parametrize("part", PYTHON_PARTS)
def test_python_own_tests(flavour, tmp_path, part):
    python = find_python()
    if attempt(python, "-c", f"import test.{part}").status:
        pytest.skip(f"python3's own {part} is not installed")
    # Not every part passes everywhere without us either: what counts is that nothing gets worse.
    verdicts = {}
    for preload in (flavour, None):
        result = run_in(tmp_path, preload, [python, "-m", "test", "-v", part], None, 120)
        verdicts[preload] = (result.status, python_verdicts(result.output + result.errors))
        if preload and result.status == 0:
            assert len(verdicts[preload][1]) >= 5, text_of(result)
            return
    worse = {name for name, verdict in verdicts[flavour][1].items()
             if verdict in ("FAIL", "ERROR") and verdicts[None][1].get(name) not in ("FAIL", "ERROR")}
    assert not worse and verdicts[flavour][0] == verdicts[None][0], f"{sorted(worse)}\n{verdicts[flavour][0]}"


def python_verdicts(output):
    """{test: verdict} from lines like "test_x (test.test_json.T) ... ok"."""
    found = {}
    for line in output.splitlines():
        name, dots, verdict = line.partition(" ... ")
        if dots and name.startswith("test"):
            found[name] = verdict.split(" ")[0]
    return found


PYTHON_WORK = r"""
import collections, decimal, gc, hashlib, json, re, subprocess, sys, threading
decimal.getcontext().prec = 600
x = decimal.Decimal(2).sqrt(); print(x)
tree = {str(i): [{"n": i, "s": "x" * (i % 700)}] * 3 for i in range(9000)}
text = json.dumps(tree); print(hashlib.sha256(text.encode()).hexdigest(), json.loads(text) == tree)
done = collections.deque()
def work(k):
    d = {}
    for i in range(30000):
        d[(k, i % 997)] = bytes(i % 2000)
    done.append((k, len(d), sum(map(len, d.values()))))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(done))
class Node:
    pass
for i in range(40000):
    a, b = Node(), Node(); a.b, b.a = b, a
del a, b
print(gc.collect() >= 0, gc.garbage)
print(subprocess.run([sys.executable, "-c", "print(sum(range(10**5)))"], capture_output=True).stdout)
print(len(re.findall(r"(\w+)\s\1", "ab ab cd cd " * 20000)))
"""


def test_python_work(pair):
    pair.write("work.py", PYTHON_WORK)
    assert len(pair.run(find_python(), "work.py")) > 600


# -- Other interpreters

def test_perl(pair):
    pair.write("work.pl", r"""
use strict; use warnings; use threads;
my %h; for my $i (1 .. 200000) { $h{$i % 5003} .= chr(97 + $i % 26); }
my $all = join ",", map { "$_=" . length $h{$_} } sort { $a <=> $b } keys %h;
print length $all, " ", unpack("%32C*", $all), "\n";
my $s = "abc" x 100000; (my $t = $s) =~ s/b/BBBB/g; print length $t, "\n";
my @l = sort map { sprintf "%08d", $_ * 7919 % 100003 } 1 .. 100000; print "$l[0] $l[-1] $l[5000]\n";
my @t = map { threads->create(sub { my %x = map { $_ => "v$_" } 1 .. 5000; scalar keys %x }) } 1 .. 4;
print join(" ", map { $_->join } @t), "\n";
""")
    assert "5000 5000 5000 5000" in pair.run(find("perl"), "work.pl")


def test_node(pair):
    pair.write("work.js", r"""
const crypto = require('crypto'), zlib = require('zlib'), { Worker, isMainThread, parentPort } = require('worker_threads');
if (isMainThread) {
  const m = new Map();
  for (let i = 0; i < 200000; i++) m.set('k' + i % 30011, Buffer.alloc(i % 300, i & 255));
  const h = crypto.createHash('sha256'); for (const [k, v] of [...m].sort()) h.update(k).update(v);
  console.log(m.size, h.digest('hex'));
  const big = Buffer.from('hello world '.repeat(200000));
  console.log(zlib.gunzipSync(zlib.gzipSync(big)).equals(big), JSON.parse(JSON.stringify([...Array(50000).keys()])).length);
  let left = 3;
  for (let i = 0; i < 3; i++) new Worker(__filename).on('message', x => { if (--left === 0) console.log('workers', x); });
} else {
  const a = []; for (let i = 0; i < 3000; i++) a.push(Buffer.alloc(i)); parentPort.postMessage(a.length);
}
""")
    assert "workers 3000" in pair.run(find("node", "nodejs"), "work.js")


def test_lua(pair):
    pair.write("work.lua", r"""
local t, n = {}, 0
for i = 1, 200000 do t[i % 7001] = string.rep(string.char(97 + i % 26), i % 200) end
for k = 0, 7000 do n = n + #t[k] * k end
print(n)
local parts = {} for i = 1, 100000 do parts[i] = tostring(i * 3) end
print(#table.concat(parts, ","))
local co = {} for i = 1, 5000 do co[i] = coroutine.wrap(function(x) while true do x = coroutine.yield(x + i) end end) end
local sum = 0 for r = 1, 5 do for i = 1, 5000 do sum = sum + co[i](r) end end
print(sum) collectgarbage() print(collectgarbage("count") > 0)
""")
    pair.run(find("lua5.4", "lua5.3", "lua"), "work.lua")


def test_bash(pair):
    pair.write("work.sh", r"""
declare -A h; for i in {1..20000}; do h[$((i % 503))]+=x; done
n=0; for k in "${!h[@]}"; do n=$((n + ${#h[$k]} * k)); done; echo $n ${#h[@]}
s=$(printf '%05d,' {1..20000}); echo ${#s} ${s//0/} | cksum
for i in {1..60}; do echo $(echo $i | tr 0-9 a-j); done | cksum
""")
    pair.run(find("bash"), "work.sh")


# -- Tools

def test_git(pair):
    """init, 150 commits, branch and merge, clone, gc, log, fsck; the object names do not depend on malloc."""
    git = find("git")
    pair.write("work.sh", r"""
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
"$1" init -q -b main repo; cd repo
i=0
while [ $i -lt 150 ]; do
  i=$((i + 1)); d=d$((i % 7)); mkdir -p $d
  seq $i $((i * 40 + 400)) > $d/f$((i % 23)); echo "line $i" >> all
  "$1" add -A
  GIT_AUTHOR_DATE="$((1700000000 + i)) +0000" GIT_COMMITTER_DATE="$((1700000000 + i)) +0000" "$1" commit -q -m "commit $i"
done
"$1" gc -q --aggressive --prune=now
"$1" clone -q --no-hardlinks . ../clone 2>&1
cd ../clone
"$1" log --stat --format='%H %an %ad %s' --date=unix | cksum
"$1" log -p --all -- d3 | cksum
"$1" blame all | cksum
"$1" diff HEAD~40 HEAD --stat | tail -n 1
"$1" fsck --full 2>&1 | grep -v -i checking || true
"$1" rev-parse HEAD
""")
    assert "files changed" in pair.run("sh", "work.sh", git)


HEAVY_CPP = r"""
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Fib { static constexpr long value = Fib<N - 1>::value + Fib<N - 2>::value; };
template <> struct Fib<0> { static constexpr long value = 0; };
template <> struct Fib<1> { static constexpr long value = 1; };
template <std::size_t... I> auto make(std::index_sequence<I...>) { return std::make_tuple(std::vector<std::string>(I % 5, "x")...); }
template <int N> struct Tag { std::map<std::string, std::variant<int, std::string, std::vector<Tag<N - 1>>>> m; };
template <> struct Tag<0> { int v; };
template <int N> std::size_t walk() { Tag<N> t; t.m["a"] = N; t.m["b"] = std::string(N, 'b'); return t.m.size() + walk<N - 1>(); }
template <> std::size_t walk<0>() { return 0; }
int main() {
  auto t = make(std::make_index_sequence<60>{});
  std::unordered_map<std::string, std::function<long(long)>> f;
  for (int i = 0; i < 1000; i++) f[std::to_string(i)] = [i](long x) { return x * i; };
  long sum = 0;
  for (auto& e : f) sum += e.second(3);
  std::regex r("(a+)(b+)");
  std::smatch m;
  std::string s = "xxaaabbyy";
  std::regex_search(s, m, r);
  std::cout << Fib<80>::value << ' ' << std::tuple_size<decltype(t)>::value << ' ' << sum << ' ' << m[1] << ' ' << walk<8>() << '\n';
}
"""


def test_compiler(pair):
    """The object file must be the same to the byte, and a program built under us works under us."""
    compiler = find("g++")
    pair.write("heavy.cpp", HEAVY_CPP)
    pair.run(compiler, "-std=c++17", "-O1", "-c", "heavy.cpp", "-o", "heavy.o")
    pair.same_files("heavy.o")
    pair.run(compiler, "heavy.o", "-o", "heavy")
    assert pair.run("./heavy").startswith("23416728348467685 60 1498500 aaa")


def test_sqlite(pair):
    pair.write("work.sql", r"""
create table t(id integer primary key, name text, body blob);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 60000)
  insert into t select i, 'name' || (i * 7919 % 60013), zeroblob(i % 300) from c;
create index by_name on t(name);
select count(*), sum(length(body)), min(name), max(name) from t;
update t set body = zeroblob(length(body) * 3) where id % 3 = 0;
delete from t where id % 5 = 0;
select a.id, b.id from t a join t b on a.name = b.name where a.id < 50 order by a.id;
select group_concat(name, '') from (select name from t order by name limit 2000);
select json_group_array(id) from (select id from t limit 3000);
vacuum;
select count(*), sum(length(body)) from t;
""")
    assert len(pair.run(find("sqlite3"), ":memory:", ".read work.sql")) > 10000


def test_jq(pair):
    rows = ",".join('{"id":%d,"tags":["a%d","b%d"],"nest":{"v":%d.5}}' % (i, i % 13, i % 7, i) for i in range(15000))
    pair.write("in.json", f"[{rows}]")
    program = "group_by(.tags[0]) | map({k: .[0].tags[0], n: length, s: (map(.nest.v) | add), t: [.[].tags[1]] | unique})"
    assert '"n"' in pair.run(find("jq"), program, "in.json")
    pair.run(find("jq"), ".[", "in.json", expect=3)


def test_xmllint(pair):
    body = "".join(f'<item id="i{i}"><name>n{i % 97}</name><v a="{i}">&lt;{i * 3}&gt;</v></item>' for i in range(15000))
    pair.write("in.xml", f"<?xml version='1.0'?><root>{body}</root>")
    pair.write("bad.xml", f"<root>{body}</wrong>")
    program = find("xmllint")
    assert len(pair.run(program, "--format", "in.xml")) > len(body)
    pair.run(program, "--xpath", "count(//item[name='n5']/v[@a > 100])", "in.xml")
    pair.run(program, "--noout", "bad.xml", expect=1)


def test_ghostscript(pair):
    pair.write("in.ps", r"""%!PS
/Helvetica findfont 11 scalefont setfont
1 1 12 { /page exch def
  0 1 60 { /i exch def
    gsave 300 400 translate i 6 mul rotate i 61 div 0.3 page 12 div setrgbcolor
    newpath 0 0 moveto 200 i 2 mul lineto 50 i 3 mul 120 0 360 arc closepath fill grestore
    60 700 i 10 mul sub moveto (line ) show i 8 string cvs show ( of page ) show page 8 string cvs show
  } for showpage } for
""")
    program = find("gs")
    pair.run(program, "-q", "-dBATCH", "-dNOPAUSE", "-dSAFER", "-sDEVICE=ppmraw", "-r60", "-sOutputFile=out%d.ppm", "in.ps")
    pair.same_files("out1.ppm", "out12.ppm")


def test_tar_and_xz(pair):
    find("xz")
    script = r"""
set -eu
mkdir -p in; i=0
while [ $i -lt 300 ]; do i=$((i + 1)); seq $i $((i * 11 + 3000)) > in/f$i; done
tar --sort=name --mtime=@1700000000 --owner=0 --group=0 --numeric-owner -cf in.tar in
xz -T2 --block-size=1MiB -k -6 in.tar
mkdir out; tar -C out -xJf in.tar.xz
diff -r in out/in && echo same
tar --sort=name --mtime=@1700000000 --owner=0 --group=0 --numeric-owner -I 'xz -T2 -1' -cf again.tar.xz in
xz -dc -T2 again.tar.xz | cksum
"""
    pair.write("work.sh", script)
    assert "same" in pair.run("sh", "work.sh")
    pair.same_files("in.tar", "in.tar.xz")


def test_sort(pair):
    pair.write("in", "".join(f"{i * 7919 % 600011} line {i}\n" for i in range(400000)))
    program = find("sort")
    pair.run(program, "--parallel=4", "-S", "24M", "-n", "in", "-o", "out")
    pair.same_files("out")
    pair.run(program, "-R", "--random-source=in", "in", "-o", "shuffled")
    pair.same_files("shuffled")


# -- A server

class Redis:
    """A server of its own, on a socket in its own folder, without a port."""

    def __init__(self, folder, preload):
        self.socket, self.preload, self.folder = folder / "s", preload, folder
        server = shutil.which("redis-server")
        # Some packages ship the server only under this name; it goes by the name it is called with.
        program = server or find("redis-check-rdb")
        self.log = open(folder / "log", "a")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(folder),
             "--daemonize", "no"], executable=program, stdout=self.log, stderr=self.log, env=environment(preload))

    def __enter__(self):
        deadline = time.monotonic() + 20
        while self.cli("ping", check=False).strip() != "PONG":
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.__exit__()
                pytest.fail("redis did not start:\n" + (self.folder / "log").read_text()[-4000:])
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def cli(self, *command, check=True):
        result = attempt("redis-cli", "-s", self.socket, *command, env=environment(None), apart=True)
        assert not check or result.status == 0, text_of(result)
        return result.output

    def stop(self):
        """Shut down in order; the exit status says whether the server was content."""
        self.cli("shutdown", "nosave", check=False)
        return self.process.wait(timeout=30)


FILL = """
for i = 1, 20000 do
  redis.call('set', 'k' .. i, string.rep('v', i % 500)); redis.call('hset', 'h' .. i % 100, 'f' .. i, i)
  redis.call('rpush', 'l' .. i % 50, i); redis.call('zadd', 'z', i * 7919 % 20011, 'm' .. i)
end
for i = 1, 20000, 3 do redis.call('del', 'k' .. i) end
return redis.call('dbsize')"""


def test_redis(pair, flavour):
    """Fill, benchmark, save, stop, start again from the dump: both servers hold the same data."""
    find("redis-server", "redis-check-rdb")
    find("redis-benchmark")
    digests = {}
    for preload, folder in pair.folders.items():
        with Redis(folder, preload) as redis:
            assert redis.cli("eval", FILL, "0").strip().isdigit()
            digests[preload] = redis.cli("eval", DIGEST, "0")
            bench = run("redis-benchmark", "-s", redis.socket, "-q", "-n", "20000", "-c", "20", "-r", "5000", "-d", "200",
                        "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset", env=environment(None))
            assert "requests per second" in bench, bench
            redis.cli("flushall")
            assert redis.cli("eval", FILL, "0").strip().isdigit()
            assert redis.cli("save").strip() == "OK"
            assert redis.stop() == 0
        with Redis(folder, preload) as redis:
            assert redis.cli("eval", DIGEST, "0") == digests[preload], "the dump does not hold what was saved"
            if preload:
                maps = pathlib.Path(f"/proc/{redis.process.pid}/maps").read_text()
                assert os.path.realpath(flavour.path) in maps
            assert redis.stop() == 0
    assert len(set(digests.values())) == 1 and len(digests) == 2


DIGEST = """
local keys = redis.call('keys', '*'); table.sort(keys); local out = ''
for _, k in ipairs(keys) do
  local t, v = redis.call('type', k)['ok'], ''
  if t == 'string' then v = redis.call('get', k)
  elseif t == 'hash' then v = table.concat({redis.call('hlen', k), redis.call('hget', k, 'f' .. k:sub(2)) or ''}, ',')
  elseif t == 'list' then v = table.concat(redis.call('lrange', k, 0, -1), ',')
  elseif t == 'zset' then v = table.concat(redis.call('zrange', k, 0, -1, 'withscores'), ',') end
  out = redis.sha1hex(out .. k .. v)
end
return out"""
