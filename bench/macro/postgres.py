"""PostgreSQL under pgbench: queries that sort, group, join and build strings and JSON, and ones of a single row.

Each connection is a process of its own, and every query takes memory in contexts: blocks of 1, 8, 16 KiB and so on up
to 8 MiB from malloc, freed together when the query ends, large ones grown by realloc. Short-lived connections start
from an empty heap. Shared memory, which is most of the resident memory, is the same for all peers and kept small.
The time is that of pgbench. The server is told not to sync; nothing is written. It refuses to run as root and then
runs as postgres or nobody.
"""
import glob
import os
import pwd
import subprocess

from suite import catalog
from suite.context import Failed, checksum, environment, free_port

BIN = max(glob.glob("/usr/lib/postgresql/*/bin"), default="/usr/lib/postgresql/bin")
ROWS = {"tiny": 2000, "quick": 20000, "full": 30000}
TRANSACTIONS = {"tiny": (1, 20), "quick": (5, 300), "full": (4, 350)}
TABLES = """
create table item as select i as id, i * 7919 % 60013 as key, i * 31 % 509 as grp,
  'name' || (i * 31337 % 99991) as name, repeat(chr(97 + i % 26), i * 13 % 120) as body
  from generate_series(1, {rows}) as i;
create index on item(id); create index on item(grp); vacuum freeze analyze item;
"""
HEAVY = """
select count(*), sum(length(s)) from (select grp, string_agg(name, ',' order by key) as s from item group by grp) as q;
select sum(length(j::text)) from (select jsonb_agg(jsonb_build_object('id', id, 'n', name)) as j
  from item group by grp % 50) as q;
select count(*), max(a.name || b.name) from item a join item b on a.key = b.id + b.grp where a.grp < 300;
select md5(string_agg(w, '')) from (select unnest(regexp_split_to_array(name || ' ' || body, 'a+')) as w from item
  where grp < 120 order by 1) as q;
select sum(array_length(a, 1)), sum(h) from (select array_agg(id) as a, max(hashtext(upper(body))) as h
  from item group by name) as q;
"""
LIGHT = """\\set id random(1, {rows})
select name, length(body), upper(body) from item where id = :id;
select grp, count(*), min(name) from item where grp = :id % 509 group by grp;
"""


SETTINGS = ("shared_buffers=8MB", "max_connections=20", "work_mem=16MB", "autovacuum=off", "jit=off",
            "max_parallel_workers=0", "wal_level=minimal", "max_wal_senders=0")


def as_user(argv):
    if os.geteuid():
        return argv
    user = next(user for name in ("postgres", "nobody") for user in [find_user(name)] if user)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
            "--pdeathsig=INT", *argv]  # the harness asks for this too, but a change of user drops it


def find_user(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def serve(data, port):
    return as_user([f"{BIN}/postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F",
                    *(word for setting in SETTINGS for word in ("-c", setting))])


def psql(port, *more):
    return [f"{BIN}/psql", "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-qXAt", "-v", "ON_ERROR_STOP=1",
            *more, "postgres"]


def ask(argv, folder, text=""):
    done = subprocess.run(argv, input=text.encode(), cwd=folder, env=environment(), capture_output=True, timeout=300)
    if done.returncode or b"ERROR:" in done.stderr:
        raise Failed(f"{argv[0]}: {(done.stdout + done.stderr).decode(errors='replace')[-2000:]}")


def prepare(folder, scale):
    """The cluster is filled by a server in its single-user mode, which takes one statement a line."""
    data = folder / "data"
    data.mkdir()
    if os.geteuid() == 0:
        os.chown(data, *[int(word.partition("=")[2]) for word in as_user([])[1:3]])
    ask(as_user([f"{BIN}/initdb", "-D", data, "-U", "bench", "-A", "trust", "-N", "-E", "UTF8", "--no-locale"]), folder)
    statements = [line.replace("\n", " ") + ";" for line in TABLES.format(rows=ROWS[scale]).split(";")[:-1]]
    ask(as_user([f"{BIN}/postgres", "--single", "-F", "-D", data, "postgres"]), folder, "\n".join(statements) + "\n")
    (folder / "heavy.sql").write_text(HEAVY)
    (folder / "light.sql").write_text(LIGHT.format(rows=ROWS[scale]))


def run(context):
    port, (heavy, light) = free_port(), TRANSACTIONS[context.scale]
    server = context.start(serve(context.folder / "data", port), cwd=context.folder)
    context.ready(server, lambda: context.client(psql(port, "-c", "select 1"), check=False).returncode == 0)
    result = context.client(psql(port, "-f", context.folder / "heavy.sql")).stdout
    bench = [f"{BIN}/pgbench", "-h", "127.0.0.1", "-p", port, "-U", "bench", "-n", "--random-seed=1", "-j", "1"]
    for script, count, how in (("heavy", heavy, ["-c", "2"]), ("light", light, ["-c", "4", "-M", "extended"]),
                               ("light", light // 10, ["-c", "2", "-C"])):
        with context.timed():
            done = context.client([*bench, *how, "-t", count, "-f", context.folder / f"{script}.sql", "postgres"])
        result += b"".join(line for line in done.stdout.splitlines() if b"actually processed" in line)
    server.terminate()
    return checksum(result)


WORKLOAD = catalog.Program(name="postgres", group="programs", prepare=prepare, run=run,
                           needs=[(f"{BIN}/postgres", "postgresql"), (f"{BIN}/pgbench", "postgresql"),
                                  ("setpriv", "util-linux")],
                           sentence="PostgreSQL under pgbench: sorts, groups, joins, JSON, a process per connection")
