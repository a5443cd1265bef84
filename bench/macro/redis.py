"""redis-server under a replayed mix of commands, then under redis-benchmark.

The time is that of the clients: a generated stream of sets, appends, list pushes and pops, hashes, sorted sets and
deletes by redis-cli --pipe, then redis-benchmark with fixed numbers of requests. Keys, values and table entries are
blocks of 16 to 1000 bytes that live for long and die in random order, tables double and are moved step by step: it
is fragmentation that decides on memory. One thread does all the work.
The distribution's server is linked with jemalloc; the peer, glibc's malloc too, is put in front of it.
"""
import random

from suite import catalog
from suite.context import checksum

COMMANDS = {"tiny": 4000, "quick": 80000, "full": 300000}
REQUESTS = {"tiny": 500, "quick": 12000, "full": 25000}
SOCKET = "socket"  # relative to the scratch folder: the whole path could be too long for an address
DIGEST = """
local keys = redis.call('keys', '*'); table.sort(keys); local out = ''
for _, k in ipairs(keys) do
  local t, v = redis.call('type', k)['ok'], ''
  if t == 'string' then v = redis.call('get', k)
  elseif t == 'hash' then v = tostring(redis.call('hlen', k))
  elseif t == 'list' then v = table.concat(redis.call('lrange', k, 0, -1), ',')
  elseif t == 'zset' then v = table.concat(redis.call('zrange', k, 0, -1, 'withscores'), ',') end
  out = redis.sha1hex(out .. k .. v)
end
return out"""


def commands(draw, count):
    for i in range(count):
        key, size = draw.randrange(count // 4), draw.randrange(900) if draw.random() < 0.2 else draw.randrange(120)
        kind = draw.randrange(20)
        yield (("set", f"s{key}", "v" * size) if kind < 7 else ("append", f"s{key}", "a" * (size // 8)) if kind < 8 else
               ("rpush", f"l{key % 500}", "r" * size) if kind < 10 else ("lpop", f"l{key % 500}") if kind < 11 else
               ("hset", f"h{key % 2000}", f"f{i % 97}", "h" * size) if kind < 14 else
               ("zadd", f"z{key % 100}", str(draw.randrange(10000)), f"m{key}") if kind < 16 else
               ("get", f"s{key}") if kind < 17 else ("del", f"s{key}"))


def prepare(folder, scale):
    with open(folder / "commands", "w") as out:
        for words in commands(random.Random(1), COMMANDS[scale]):
            out.write(f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words))


def run(context):
    def client(*argv, **how):
        return context.client(["redis-cli", "-s", SOCKET, *argv], **how).stdout.decode()

    server = context.start(["redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "",
                            "--appendonly", "no", "--daemonize", "no", "--hz", "10"])
    context.ready(server, lambda: client("ping", check=False).strip() == "PONG")
    with context.timed():
        replies = client("--pipe", stdin=context.folder / "commands")
    result = client("eval", DIGEST, "0", timeout=60)
    with context.timed():
        context.client(["redis-benchmark", "-s", SOCKET, "-q", "-n", REQUESTS[context.scale], "-c", "20", "-P", "8",
                        "-r", "20000", "-d", "250", "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset"])
    result += client("llen", "mylist")
    server.terminate()
    return checksum(replies.splitlines()[-1], result)


WORKLOAD = catalog.Program(name="redis", group="programs", prepare=prepare, run=run,
                           needs=[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
                           sentence="redis-server under a mix of commands of all sizes, and under redis-benchmark")
