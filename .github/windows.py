"""Runs the test programs that were built for Windows elsewhere, on Windows: windows.py FLAVOUR, with build/FLAVOUR/ unpacked.

The exit status of a program tells, 77 that it cannot do its work here. Those with a test that cannot hold on Windows
(ELSEWHERE_LACKS of test/test_native.py) are judged by their other tests.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test"))
from test_native import ELSEWHERE_LACKS, SKIPPED, TAP  # noqa: E402  (the folder is no package)


def here(path, which):
    """Where a file of the machine that built it is now."""
    return ROOT / "build" / re.sub(rf"^.*/build/(?=(cross/)?{which}(/|$))", "", path)


def failed(program, output, status):
    """The tests that failed and should hold; the program itself if it has no tests, or did not end in order."""
    lacking = {key[2] for key in ELSEWHERE_LACKS if key[:2] == ("windows", program["name"]) and len(key) == 3}
    tests = {match[3] for match in map(TAP.match, output.splitlines()) if match and match[1] == "not ok"}
    if status in (0, SKIPPED):
        return set()
    return tests - lacking if tests and status == len(tests) else tests - lacking | {program["name"]}


def main():
    which = sys.argv[1]
    programs = json.loads((ROOT / "build" / which / "tests.json").read_text())
    wrong = 0
    for program in programs:
        words = program["emulator"]
        folders = [here(words[i + 1], which) for i, word in enumerate(words) if word == "-p"]
        env = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}
        try:
            done = subprocess.run([here(program["path"], which)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=600, errors="backslashreplace", encoding="utf-8")
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            status, output = None, "ran too long"
        bad = failed(program, output, status)
        wrong += bool(bad)
        print(f"{program['group']}/{program['name']}[{program['flavour']}]: {', '.join(sorted(bad)) or 'ok'}", flush=True)
        if bad:
            print("\n".join(output.splitlines()[-60:]))
    print(f"{len(programs)} programs, {wrong} failed")
    sys.exit(wrong > 0 or not programs)


if __name__ == "__main__":
    main()
