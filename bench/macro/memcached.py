"""memcached with four threads, under a client that sets, gets and deletes over eight connections.

memcached is its own allocator: items live in pages of 1 MiB, taken from malloc once and never given back. What it
asks of malloc is the table that doubles, these pages, and per connection the buffers that grow with values and
requests. A program that needs little: no allocator should be able to hurt it, in memory least of all.
The time is that of the client, which sends prepared requests, many in one piece, and compares every reply.
"""
import hashlib
import pickle
import random
import socket
import threading

from suite import catalog
from suite.context import Failed, checksum, free_port, listens

CONNECTIONS, BATCH = 8, 200
REQUESTS = {"tiny": 400, "quick": 20000, "full": 20000}  # per connection
TIMES = {"tiny": 1, "quick": 1, "full": 2}


def conversation(number, count):
    """[(what to send, what to get back)]: keys of different connections do not meet, and none is left at the end."""
    draw, live, pieces = random.Random(number), {}, []
    for start in range(0, count, BATCH):
        ask, answer = [], []
        for _ in range(BATCH):
            key, kind = f"c{number}-{draw.randrange(count // 8 + 1)}", draw.randrange(10)
            if kind < 5:
                live[key] = (chr(97 + draw.randrange(26)) * draw.randrange(1, 8000 if draw.random() < 0.02 else 300))
                ask.append(f"set {key} 0 0 {len(live[key])}\r\n{live[key]}\r\n")
                answer.append("STORED\r\n")
            elif kind < 9:
                found = f"VALUE {key} 0 {len(live[key])}\r\n{live[key]}\r\n" if key in live else ""
                ask.append(f"get {key}\r\n")
                answer.append(found + "END\r\n")
            else:
                ask.append(f"delete {key}\r\n")
                answer.append("DELETED\r\n" if live.pop(key, None) else "NOT_FOUND\r\n")
        pieces.append(("".join(ask).encode(), "".join(answer).encode()))
    pieces.append(("".join(f"delete {key}\r\n" for key in live).encode(), b"DELETED\r\n" * len(live)))
    return pieces


def prepare(folder, scale):
    talks = [conversation(number, REQUESTS[scale]) * TIMES[scale] for number in range(CONNECTIONS)]
    (folder / "talks").write_bytes(pickle.dumps(talks))


def talk(port, pieces, digests, number):
    digest = hashlib.sha256()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ask, answer in pieces:
            line.sendall(ask)
            got = bytearray()
            while len(got) < len(answer):
                more = line.recv(1 << 18)
                if not more:
                    return
                got += more
            if got != answer:
                return
            digest.update(got)
    digests[number] = digest.hexdigest()


def run(context):
    port, digests = free_port(), {}
    talks = pickle.loads((context.folder / "talks").read_bytes())
    server = context.start(["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "4", "-m", "256",
                            "-u", "root"])
    context.ready(server, lambda: listens(port))
    threads = [threading.Thread(target=talk, args=(port, pieces, digests, number), daemon=True)
               for number, pieces in enumerate(talks)]
    with context.timed():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(digests) < CONNECTIONS:
        raise Failed(f"memcached did not answer as it should: {server.errors()}")
    server.terminate()
    return checksum(*(digests[number] for number in range(CONNECTIONS)))


WORKLOAD = catalog.Program(name="memcached", group="programs", needs=[("memcached", "memcached")], prepare=prepare,
                           run=run, sentence="memcached with four threads: slabs of its own, buffers per connection")
