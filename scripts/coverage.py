"""Which lines of src/ the tests run: `make long WHAT=coverage`.

Builds preset `coverage`, runs the unit tests and, on the library as it is shipped, the API and stress tests; writes
build/coverage/html/index.html and a table. Fails if less than 95 % of the lines of src/core run, or if one does not
whose function has no reason in test/coverage-exceptions.txt.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
EXCEPTIONS = ROOT / "test" / "coverage-exceptions.txt"
BOUND_PERCENT = 95
TESTS = "not aarch64 and (unit/ or (release and (api/ or stress/)))"
FUNCTION = re.compile(r"^[A-Za-z][^;=]*?\b(\w+)\(")


def run(command, log=None, **options):
    """Run a command to its end; its output goes to a file, and is shown if it fails."""
    with open(log or os.devnull, "w", encoding="utf-8") as out:
        status = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False, **options).returncode
    if status != 0 and log:
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
    return status


def build():
    BUILD.mkdir(parents=True, exist_ok=True)
    for command in (["cmake", "--preset", "coverage"], ["cmake", "--build", "--preset", "coverage"]):
        if run(command, BUILD / "build.log") != 0:
            sys.exit("coverage: the build of preset coverage failed")


def run_tests():
    """A test that fails here may hold elsewhere: code that counts is slower, and its runtime allocates at the end of a
    process, also where the test lets that fail. So it is only said."""
    for path in BUILD.rglob("*.gcda"):
        path.unlink()
    environment = {**os.environ, "MI_BUILD_DIR": str(BUILD), "MI_TEST_TIMEOUT": "1200"}
    command = [sys.executable, "-m", "pytest", "test/test_native.py", "-q", "-p", "no:cacheprovider", "-k", TESTS]
    log = BUILD / "tests.log"
    with open(log, "w", encoding="utf-8") as out:
        subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=environment, check=False)
    lines = log.read_text(errors="replace").splitlines()
    print(f"coverage: {lines[-1]}")
    print("\n".join(line for line in lines if line.startswith("FAILED")))


def capture():
    """{file: {line: how often}} from lcov's format, and the HTML pages."""
    info = BUILD / "coverage.info"
    everything = BUILD / "everything.info"
    run(["lcov", "--quiet", "--capture", "--directory", str(BUILD), "--output-file", str(everything)], BUILD / "lcov.log")
    if run(["lcov", "--quiet", "--extract", str(everything), f"{ROOT}/src/*", "--output-file", str(info)]) != 0:
        sys.exit("coverage: lcov found nothing; see build/coverage/lcov.log")
    run(["genhtml", "--quiet", "--prefix", str(ROOT), "--output-directory", str(BUILD / "html"), str(info)],
        BUILD / "genhtml.log")
    found = collections.defaultdict(dict)
    name = None
    for line in info.read_text().splitlines():
        if line.startswith("SF:"):
            name = str(pathlib.Path(line[3:]).resolve().relative_to(ROOT))
        elif line.startswith("DA:"):
            number, count = line[3:].split(",")[:2]
            found[name][int(number)] = found[name].get(int(number), 0) + int(count)
    return found


def function_of(lines, number):
    """The function that a line is in: the last definition before it."""
    for line in reversed(lines[:number]):
        match = FUNCTION.match(line)
        if match and not line.startswith(("#", "//", "return")):
            return match[1]
    return "?"


def read_exceptions():
    """{(file, function): reason}"""
    found = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, function, reason = line.split(maxsplit=2)
            found[name, function] = reason
    return found


def percent(covered, total):
    return 100 * covered / total if total else 100


def print_table(found):
    folders = collections.Counter()
    covered_in = collections.Counter()
    print(f"{'file':32} {'lines':>6} {'run':>6} {'%':>6}")
    for name in sorted(found):
        total, covered = len(found[name]), sum(count > 0 for count in found[name].values())
        folder = str(pathlib.Path(name).parent)
        folders[folder] += total
        covered_in[folder] += covered
        print(f"{name:32} {total:6} {covered:6} {percent(covered, total):6.1f}")
    for folder, total in sorted(folders.items()):
        print(f"{folder + '/':32} {total:6} {covered_in[folder]:6} {percent(covered_in[folder], total):6.1f}")
    return percent(covered_in["src/core"], folders["src/core"])


def check_core(found):
    """Lines of src/core that do not run; returns those without a reason, as text."""
    reasons = read_exceptions()
    missing = []
    used = set()
    print("\nlines of src/core that do not run:")
    for name in sorted(name for name in found if name.startswith("src/core/")):
        lines = (ROOT / name).read_text().splitlines()
        for number in sorted(number for number, count in found[name].items() if count == 0):
            key = name, function_of(lines, number)
            used.add(key)
            text = f"{name}:{number}: {key[1]}: {lines[number - 1].strip()}"
            print(f"  {text}\n      {reasons.get(key, 'NO REASON')}")
            if key not in reasons:
                missing.append(text)
    for name, function in sorted(set(reasons) - used):
        print(f"  {name}: {function} runs as a whole now, its reason is not needed")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-run", action="store_true", help="only report on what the last run left")
    arguments = parser.parse_args()
    if shutil.which("lcov") is None:
        sys.exit("coverage: lcov is not installed; make deps FOR=coverage does that")
    if not arguments.no_run:
        build()
        run_tests()
    found = capture()
    core = print_table(found)
    missing = check_core(found)
    print(f"\nsrc/core: {core:.1f} % (bound {BOUND_PERCENT} %); pages in build/coverage/html/index.html")
    if core < BOUND_PERCENT:
        sys.exit(f"coverage: src/core is below {BOUND_PERCENT} %")
    if missing:
        sys.exit(f"coverage: {len(missing)} lines of src/core do not run and have no reason in {EXCEPTIONS.name}")


if __name__ == "__main__":
    main()
