"""RocksDB by its own db_bench: random writes, overwrites, deletes, reads, scans, with compaction in the background.

A memtable is an arena of blocks of some dozen KiB that dies as a whole when it has been written out, by another
thread than the one that filled it. Reads put blocks of 4 KiB and a little more into a cache that throws them out from
any thread, after any time; between them are keys, iterators and descriptions of files, half of all blocks no larger
than 32 bytes. Two client threads,
two in the background. Files go to the scratch folder, without a log and without sync. The
distribution's build has assertions on.
"""
import re

from suite import catalog
from suite.context import Failed, checksum

KEYS = {"tiny": 3000, "quick": 20000, "full": 30000}


def prepare(folder, scale):
    """db_bench makes its own keys, from a fixed seed."""


def run(context):
    keys = KEYS[context.scale]
    printed = context.finish([
        "db_bench", "--benchmarks=fillrandom,overwrite,deleterandom,readrandom,compact,readseq,seekrandom,readrandom",
        f"--db={context.scratch}/db", f"--num={keys}", "--threads=2", "--seed=1", "--key_size=24", "--value_size=120",
        "--value_size_distribution_type=uniform", "--value_size_min=20", "--value_size_max=600", "--seek_nexts=10",
        "--disable_wal=true", "--write_buffer_size=4194304", "--target_file_size_base=4194304", "--cache_size=16777216",
        "--compression_type=lz4", "--max_background_jobs=2", "--bloom_bits=10", "--open_files=200"]).decode()
    found = re.findall(r"^(\w+) +:.*\((\d+ of \d+) found\)", printed, re.M)
    if len(found) < 2:
        raise Failed(f"db_bench: {printed[-2000:]}")
    return checksum(str(sorted(done for done in re.findall(r"^(\w+) +: +[\d.]+ micros/op", printed, re.M))), str(found))


WORKLOAD = catalog.Program(name="rocksdb", group="programs", needs=[("db_bench", "rocksdb-tools")], prepare=prepare,
                           run=run, sentence="RocksDB by db_bench: memtables, a cache of blocks, compaction")
