"""Builds the fuzz targets of test/fuzz and runs them: `make long WHAT=fuzz SECONDS=600 TARGET=calls`.

Every target starts from its corpus, test/fuzz/corpus/TARGET.hex: an input each line, in hexadecimal. New inputs that
reach something stay in build/fuzz/corpus, inputs that fail in build/fuzz/crashes; `build/fuzz/bin/PROGRAM INPUT` runs
one again. `--merge` brings into test/fuzz/corpus what is worth keeping: as few and as small inputs as reach the same.

The tests use this file too (test/test_fuzz.py).
"""
import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "test" / "fuzz" / "corpus"
EMPTY_TARGET = "#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t* d, size_t n) " \
               "{ return d == 0 && n > 0; }\n"
LONG = 400  # bytes of an input
# A race ends the run as any other fault does.
ENVIRONMENT = {"TSAN_OPTIONS": "halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def missing():
    """Why nothing can be fuzzed on this machine, or None."""
    if shutil.which("clang") is None or shutil.which("cmake") is None:
        return "clang is not installed"
    with tempfile.TemporaryDirectory() as folder:
        command = ["clang", "-fsanitize=fuzzer,address,undefined", "-x", "c", "-", "-o", f"{folder}/empty"]
        done = subprocess.run(command, input=EMPTY_TARGET, text=True, stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode == 0 else "the runtime of clang's sanitizers is not installed (libclang-rt-dev)"


def build():
    """Build all targets; returns the output if that fails, else None."""
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            return done.stdout
    return None


def programs():
    """Names of what there is to run, as calls-debug, without needing a build."""
    lists = (ROOT / "cmake" / "fuzz.cmake").read_text().splitlines()
    tiny = next(line for line in lists if line.startswith("set(mi_fuzz_tiny"))[:-1].split()[1:]
    names = sorted(path.stem for path in (ROOT / "test" / "fuzz").glob("*.c"))
    return [f"{name}-{flavour}" for name in names for flavour in ("debug", "tiny") if flavour == "debug" or name in tiny]


def target_of(program):
    return program.rsplit("-", 1)[0]


def read_corpus(target):
    path = CORPUS / f"{target}.hex"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


def unpack_corpus(target, folder):
    """The corpus as libFuzzer wants it: a file each."""
    for data in read_corpus(target):
        (pathlib.Path(folder) / hashlib.sha1(data).hexdigest()).write_bytes(data)


def run(program, seconds, new_inputs, options=()):
    """Run a program over its corpus and then on; returns (exit status, output)."""
    crashes = BUILD / "crashes"
    for folder in (crashes, new_inputs):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        unpack_corpus(target_of(program), corpus)
        command = [BUILD / "bin" / program, f"-max_total_time={seconds}", "-max_len=1024", "-len_control=0",
                   "-timeout=120", "-rss_limit_mb=4096", f"-artifact_prefix={crashes}/{program}-", *options, new_inputs,
                   corpus]
        done = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def merge(target, source):
    """Replace the corpus of a target by what reaches the same, from it and from `source`. Long inputs stay: what they
    reach a short one reaches too, but not with as many blocks in use. None are added, for the size of it all."""
    kept = {data for data in read_corpus(target) if len(data) >= LONG}
    with tempfile.TemporaryDirectory() as merged, tempfile.TemporaryDirectory() as corpus:
        unpack_corpus(target, corpus)
        for program in programs():
            if target_of(program) == target:
                subprocess.run([BUILD / "bin" / program, "-merge=1", "-use_counters=0", "-max_len=1024", merged, corpus,
                                source], check=True, env={**os.environ, **ENVIRONMENT}, stderr=subprocess.DEVNULL)
        found = (path.read_bytes() for path in pathlib.Path(merged).iterdir())
        kept |= {data for data in found if len(data) < LONG}
    lines = sorted((data.hex() + "\n" for data in kept if data), key=lambda line: (len(line), line))
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{target}.hex").write_text("".join(lines))
    print(f"{target}: {len(lines)} inputs, {sum(map(len, lines))} characters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each program (default 60)")
    parser.add_argument("--target", default="", help="one of test/fuzz, such as calls, or a program, such as calls-tiny")
    parser.add_argument("--merge", action="store_true", help="bring what was found into test/fuzz/corpus")
    arguments = parser.parse_args()
    wanted = [program for program in programs() if arguments.target in ("", program, target_of(program))]
    if not wanted:
        parser.error(f"no target '{arguments.target}'; there are: {', '.join(programs())}")
    problem = missing() or build()
    if problem:
        sys.exit(f"fuzz: {problem}")
    failed = []
    for program in wanted:
        status, output = run(program, arguments.seconds, BUILD / "corpus" / target_of(program))
        print(f"fuzz: {program}: {output.splitlines()[-1] if status == 0 else 'FAILED'}", flush=True)
        if status != 0:
            failed.append(program)
            print("\n".join(output.splitlines()[-60:]), flush=True)
    if arguments.merge and not failed:
        for target in sorted({target_of(program) for program in wanted}):
            merge(target, BUILD / "corpus" / target)
    if failed:
        sys.exit(f"fuzz: {', '.join(failed)} failed; the inputs are in {BUILD / 'crashes'}")


if __name__ == "__main__":
    main()
