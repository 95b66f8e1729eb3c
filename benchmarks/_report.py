"""What every benchmark shares: its options, its tables, the line about the machine, its results file.

A script prints as it goes. A run in full, with no option that changes a figure, also writes what it printed
to `results/<name of the script>.md`: a title, the command, the machine and the date, then the tables. Any
other run (`--quick` among them) writes a file only where `--out` says so. What stands below the heading
`## Reading` of a results file is written by hand; it is kept when the script writes the file again.
"""

import argparse
import contextlib
import io
import os
import platform
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"
BY_HAND = "\n## Reading\n"
NO_FIGURE = {"out", "jobs", "processes", "csv", "picture"}  # options that change no figure


def option_parser(doc: str | None, quick: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--out` and, where there is a quick run, `--quick`."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--out", type=Path, metavar="PATH", help="write the tables to this file")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def describe_machine() -> str:
    """Return one line about where the figures come from."""
    import numpy  # noqa: F401  (loads the BLAS whose threads are counted)

    threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    counted = ", ".join(map(str, sorted(threads))) or "?"
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, BLAS threads: {counted}, "
        f"Python {platform.python_version()}, {packages}"
    )


@contextlib.contextmanager
def results_file(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Iterator[None]:
    """Print the header, then let the block print its tables; write both to a file if the run ends well."""
    script = Path(sys.argv[0])
    target = args.out
    if target is None and _in_full(parser, args):
        target = RESULTS / f"{script.stem}.md"
    screen, printed = sys.stdout, io.StringIO()
    with contextlib.redirect_stdout(_Both(screen, printed)):
        print(f"# {_title(parser.description)}\n")
        print(f"`{_command()}`, {date.today():%Y-%m-%d}; {describe_machine()}.", flush=True)
        yield
    if target is not None:
        write(target, printed.getvalue())
        print(f"written to {target}", file=sys.stderr)


def write(target: Path, text: str) -> None:
    """Replace what the script wrote of a results file before; what stands below `## Reading` is kept."""
    if target.exists():
        _, heading, kept = target.read_text(encoding="utf-8").partition(BY_HAND)
        text = text.rstrip("\n") + "\n" + heading + kept
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


def print_heading(title: str, note: str = "") -> None:
    """Print the heading of a table, and what a reader should know of it."""
    print(f"\n## {title}")
    if note:
        print("\n" + textwrap.fill(note, 110))


def print_table(headings: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Print a Markdown table, each line as soon as it is there."""
    print(f"\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}", flush=True)
    for line in lines:
        print(f"| {' | '.join(str(cell) for cell in line)} |", flush=True)


def time_in_turn(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, float], dict]:
    """Return the median seconds of each task and what it last returned.

    The tasks take turns, so that a slow moment of the machine hits all alike.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    results = {}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            results[name] = task()
            seconds[name].append(time.perf_counter() - start)
    return {name: median(each) for name, each in seconds.items()}, results


def _in_full(parser: argparse.ArgumentParser, args: argparse.Namespace) -> bool:
    given = {name: value for name, value in vars(args).items() if name not in NO_FIGURE}
    return all(parser.get_default(name) == value for name, value in given.items())


def _title(doc: str | None) -> str:
    return (doc or "").strip().splitlines()[0].rstrip(".")


def _command() -> str:
    threads = os.environ.get("OMP_NUM_THREADS")
    words = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    return (f"OMP_NUM_THREADS={threads} " if threads else "") + shlex.join(words)


class _Both(io.TextIOBase):
    """A stream that writes to two others."""

    def __init__(self, *streams: Any) -> None:
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()
