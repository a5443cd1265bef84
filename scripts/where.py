#!/usr/bin/env python3
"""The commands of docs/where.md: runs them, writes what they print into the page, and draws its pictures.

    python3 scripts/where.py [--library build/release/libmimalloc.so] [--no-pictures]

A block ```console of it has commands behind "$ ", each with its output below it; a block ```sh has functions for them. All are
run one after the other by one shell, in a folder of its own that has demo/ and scripts/ of this tree; `ask` is the
function of docs/guide.md. test/interop/test_where.py runs them in the same way and compares.

WHERE-1  nothing is drawn or written that was not measured in the same run.
WHERE-2  a command for which a program is missing (pprof, gdb) is not run, and its output stays as it is.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "where.md"
IMAGES = ROOT / "docs" / "images"
OPTIONAL = ("pprof", "gdb")
BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```$", re.M | re.S)
FIXES = ["fix-session", "fix-cache", "fix-import"]
MIB = 1 << 20

Command = collections.namedtuple("Command", "text output is_run")


def ask_function():
    return re.search(r"^ask\(\) \{.*?^\}$", (ROOT / "docs" / "guide.md").read_text(), re.M | re.S)[0]


def commands(page):
    """What the page says: the commands, with the output it shows."""
    found = []
    for kind, body in BLOCK.findall(page):
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
                text, output = part.split("\n", 1)
                found.append(Command(text, output, True))
    return found


def script(page):
    """For the shell: each command, behind it a line that ends its output."""
    lines, number = [ask_function()], 0
    for kind, body in BLOCK.findall(page):
        if kind == "sh":
            lines.append(body)
            continue
        for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
            text = part.split("\n", 1)[0]
            program = text.split()[0]
            if program not in OPTIONAL or shutil.which(program):
                lines.append(text)
                lines.append(f"printf '@@ %d\\n' {number}")
            number += 1
    return "\n".join(lines) + "\n"


def run(page, folder, library, timeout=120):
    """The commands of the page with what they print now; what they write is in the folder."""
    for name in ("demo", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MIMALLOC_", "LD_"))}
    env.update(LD_LIBRARY_PATH=str(library.resolve().parent), LC_ALL="C")
    # A session of its own: what a command leaves running ends with it.
    process = subprocess.Popen(["bash", "-s"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said = process.communicate(script(page), timeout=timeout)[0]
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
    outputs = dict((int(number), output) for output, number in re.findall(r"(.*?)^@@ (\d+)\n", said, re.M | re.S))
    return [Command(text, outputs.get(number, ""), number in outputs)
            for number, (text, _, _) in enumerate(commands(page))]


def renewed(page, ran):
    """The page with the output of this run."""
    rest = iter(ran)

    def block(match):
        if match[1] == "sh":
            return match[0]
        parts = re.split(r"^\$ ", match[2], flags=re.M)[1:]
        text = ""
        for part, command in zip(parts, rest):
            old = part.split("\n", 1)[1]
            text += f"$ {command.text}\n{command.output if command.is_run else old}"
        return f"```console\n{text}```"
    # zip takes the parts first, so that it takes no command too many.
    return BLOCK.sub(block, page)


def stacks(text, bottoms=("main", "work")):
    """Of a file with folded stacks: {(function, ...): bytes}, from main or from a thread's function on."""
    found = collections.Counter()
    for line in text.splitlines():
        names, value = line.rsplit(" ", 1)
        names = names.split(";")
        begin = next((names.index(name) for name in bottoms if name in names), 0)
        found[tuple(names[begin:])] += int(value)
    return found


# -- Pictures --

def plots():
    sys.path.insert(0, str(ROOT / "bench"))
    from suite import charts
    from matplotlib import pyplot
    return charts, pyplot


def draw_flames(found, title, theme):
    """A flame graph: as wide as its bytes, upon what called it."""
    charts, pyplot = plots()
    total = sum(found.values())
    colors = ["#f4a261", "#e9805c", "#e76f51", "#f6bd60"] if theme == "light" else ["#b5652b", "#a84e32", "#94412b", "#a67c2d"]
    with pyplot.rc_context(charts.settings(theme, "where")):
        figure, axes = pyplot.subplots(figsize=(8, 2.4))

        def draw(below, depth, left):
            width = sum(found[stack] for stack in below)
            if depth:
                name = below[0][depth - 1]
                axes.barh(depth, width - total / 400, 0.94, left, color=colors[(depth + len(name)) % len(colors)], edgecolor="none")
                if width > total / 12:
                    axes.text(left + total / 200, depth, f"{name}  {width / MIB:.1f} MiB, {100 * width / total:.0f} %",
                              va="center", fontsize=8, clip_on=True)
            children = sorted({stack[depth] for stack in below if len(stack) > depth})
            for child in children:
                group = [stack for stack in below if len(stack) > depth and stack[depth] == child]
                draw(group, depth + 1, left)
                left += sum(found[stack] for stack in group)
        draw(list(found), 0, 0)
        axes.set_xlim(0, total)
        axes.set_axis_off()
        axes.set_title(title, loc="left", fontsize=9)
        return charts.finish(figure)


def watch(program, library, arguments, folder):
    """Rows of a process while it runs: seconds, and MiB in use, free in pages, waiting, resident."""
    env = {**os.environ, "LD_PRELOAD": str(library), "MIMALLOC_CONTROL": str(folder)}
    process = subprocess.Popen([str(program), *arguments], env=env, stdout=subprocess.DEVNULL)
    begin, rows = time.monotonic(), []
    answer = folder / f"{process.pid}.answer"
    while process.poll() is None:
        time.sleep(0.1)
        (folder / "new").write_text("metrics")
        (folder / "new").rename(folder / f"{process.pid}.command")
        # One that was there before the program began is removed by it: so ask again.
        asked = time.monotonic()
        while not answer.exists() and process.poll() is None and time.monotonic() < asked + 1:
            time.sleep(0.01)
        if not answer.exists():
            continue
        values = dict(re.findall(r"^mimalloc_(\w+)_bytes (\d+)$", answer.read_text(), re.M))
        answer.unlink()
        binned, huge, touched, committed, resident = (int(values[name]) / MIB for name in
                                                      ("binned", "huge", "touched", "committed", "process_resident"))
        rows.append((time.monotonic() - begin, binned + huge, touched - binned, max(0, committed - touched - huge), resident))
    return rows


def draw_time(panels, theme):
    charts, pyplot = plots()
    names = ["in use", "free, in pages with a block in use", "waiting to go back, or never touched"]
    colors = ["#0072b2", "#d55e00", "#c8ccd1"] if theme == "light" else ["#58a6ff", "#f0883e", "#484f58"]
    with pyplot.rc_context(charts.settings(theme, "where")):
        figure, all_axes = pyplot.subplots(len(panels), 1, figsize=(8, 5), sharex=True, sharey=True)
        for axes, (title, rows) in zip(all_axes, panels):
            seconds, *parts, resident = zip(*rows)
            axes.stackplot(seconds, *parts, labels=names, colors=colors, linewidth=0)
            axes.plot(seconds, resident, color=charts.THEMES[theme]["text"], linewidth=1.4, label="resident")
            axes.set_ylabel("MiB")
            axes.grid(axis="y")
            axes.set_title(title, loc="left", fontsize=9, y=0.86, x=0.01)
        charts.add_legend(all_axes[0], 4)
        all_axes[-1].set_xlabel("seconds")
        all_axes[-1].set_xlim(0, max(rows[-1][0] for _, rows in panels))
        return charts.finish(figure)


def draw_all(folder, library):
    growth = stacks((folder / "growth.folded").read_text())
    control = folder / "watched"
    control.mkdir(mode=0o700)
    slow = ["100", "pause=100"]
    panels = [("as it is", watch(folder / "leaky", library, slow, control)),
              ("with the three fixes", watch(folder / "leaky", library, slow + FIXES, control))]
    for theme in ("light", "dark"):
        (IMAGES / f"where-growth-{theme}.svg").write_text(draw_flames(growth, "What has grown since the mark, by call", theme))
        (IMAGES / f"where-time-{theme}.svg").write_text(draw_time(panels, theme))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=pathlib.Path, default=ROOT / "build" / "release" / "libmimalloc.so")
    parser.add_argument("--no-pictures", action="store_true")
    arguments = parser.parse_args()
    os.environ["PATH"] += f":{ROOT / 'build' / 'pprof'}"
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ran = run(page, folder, arguments.library.resolve())
        for command in ran:
            if not command.is_run:
                print(f"not run: {command.text}", file=sys.stderr)
        PAGE.write_text(renewed(page, ran))
        if not arguments.no_pictures:
            draw_all(folder, arguments.library.resolve())


if __name__ == "__main__":
    main()
