"""What the terminal shows: a line of progress with the time that remains, and the tables at the end."""
import sys
import time

from rich import box, console, progress, table, text

from suite import stats

STYLES = {"ahead": "green", "behind": "yellow", "failed": "bold red"}
PLAIN_EVERY_S = 60  # where the output is no terminal
MOST_ROWS = 20  # of the lists at the end; the report has all


def clock(seconds):
    minutes = int(seconds / 60 + 0.5)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


class Progress:
    """with Progress() as shown: shown.update("round 1 of 3: larson, ours", seconds that remain)."""

    def __init__(self):
        self._since = self._said = time.monotonic()
        self._bar = progress.Progress(
            progress.BarColumn(bar_width=30), progress.TextColumn("{task.percentage:3.0f} %, {task.fields[left]} left"),
            progress.TextColumn("{task.description}"), refresh_per_second=2, transient=True,
            disable=not sys.stdout.isatty())
        self._task = self._bar.add_task("", total=1, left="?")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def update(self, what, remaining):
        now = time.monotonic()
        done = now - self._since
        self._bar.update(self._task, description=what, completed=done, total=done + remaining, left=clock(remaining))
        if self._bar.disable and now - self._said > PLAIN_EVERY_S:
            self._said = now
            print(f"{what} ({clock(done)} gone, {clock(remaining)} left)", flush=True)

    def say(self, message):
        if self._bar.disable:
            print(message, flush=True)
        else:
            self._bar.console.print(text.Text(message))


def printable(part, head=None, columns=None, most=None):
    """A table of the report as one of rich."""
    chosen = range(len(part.head)) if columns is None else columns
    shown = table.Table(title=part.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index in chosen:
        is_text = all(isinstance(row[index].sort, str) for row in part.rows)
        shown.add_column((head or part.head)[index], justify="left" if is_text else "right", overflow="fold")
    for row in part.rows[:most]:
        shown.add_row(*(text.Text(row[index].text, STYLES.get(row[index].kind, "")) for index in chosen))
    return shown


def print_summary(results, tables, notes):
    """What a user wants to know without opening the report."""
    out = console.Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    titles = [f"{metric.title}, {metric.unit}" for metric in stats.METRICS.values()]
    for key, part in tables.items():
        if key.startswith("group-"):
            head = ["workload", *(word for title in titles for word in (title, "best", "ratio"))]
            out.print(printable(part, head, range(7)))  # time and peak memory; the rest is in the report
    for key in ("summary", "work", "failures", "missing"):
        if key in tables:
            out.print(printable(tables[key], most=MOST_ROWS))
            if len(tables[key].rows) > MOST_ROWS:
                out.print(f"{len(tables[key].rows) - MOST_ROWS} more are in the report.")
    for note in notes:
        out.print(text.Text(f"Note: {note}"))
    if stats.OURS not in results.peers:
        out.print("Without ours there is nothing to relate to: only the medians are in the report.")
