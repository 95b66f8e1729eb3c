"""`evenrisk reproduce`: the paper's experiment."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from evenrisk._files import check_writable
from evenrisk.cli._status import BadInput, Killed, named

QUICK_SPLITS = 3
NEEDED_PACKAGES = ("cvxpy", "dccp", "torch", "lightgbm")


@click.command()
@click.option("--splits", default=20, show_default=True, type=click.IntRange(1), help="70/30 splits.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the splits.")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for tables, figures, scores and a page.",
)
@click.option("--quick", is_flag=True, help="3 splits only.")
@click.option("--jobs", type=click.IntRange(1), help="Processes.  [default: one per core]")
def reproduce(splits: int, seed: int, out: Path, quick: bool, jobs: int | None) -> None:
    """Run the paper's experiment on COMPAS: both tables, all figures.

    Finished splits are kept: after an interruption the same command goes on where it stopped.

    \b
    Exit status: 0; 2 for bad usage, or a folder that cannot be written to or holds
    files of others; 3 for an error of this program or a killed worker process; 130
    if interrupted; 141 if a pipe was closed before all was printed.
    """
    from concurrent.futures.process import BrokenProcessPool

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if quick and click.get_current_context().get_parameter_source("splits") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--quick is 3 splits: give it or --splits, not both")
    _refuse_unwritable(out)
    paper = _paper()
    if foreign := paper.foreign_files(out):  # write over nothing that no run has made
        names = ", ".join(named(path.relative_to(out).as_posix()) for path in foreign)
        required = f"--out must be a new folder or that of an earlier run, got {named(out)}"
        raise click.UsageError(f"{required}: no run has made {names}")
    protocol, n_splits = paper.Protocol(seed=seed), QUICK_SPLITS if quick else splits
    console = Console(stderr=True)
    columns = (TextColumn("fitting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    kept = f"Finished splits are kept in {named(out)}/splits; run it again to go on"
    try:
        # a bar on a terminal, silence in a pipe
        with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
            task = bar.add_task("fitting", total=n_splits * protocol.steps)
            paper.run(out, protocol, n_splits, jobs or _cores(), step=lambda n: bar.advance(task, n))
        experiment = paper.Experiment(paper.load_all(out, protocol, n_splits), protocol)
        summary = paper.summarise(experiment)
        paper.write_results(experiment, summary, out)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. {kept}.", err=True)
        raise
    except BrokenProcessPool as error:
        reason = "a worker process was killed, perhaps for want of memory"
        raise Killed(f"{reason}. {kept}, with fewer --jobs") from error
    except OSError as error:
        raise BadInput(f"could not go on in {named(out)}: {error.strerror or error}. {kept}") from error
    paper.print_tables(summary)
    click.echo(f"Tables, figures and scores are in {named(out)}/; open {named(out)}/index.html")


def _refuse_unwritable(out: Path) -> None:
    """Better to know now than when all is computed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for folder in (out, out / "splits", out / "scores"):
            if folder.is_dir():
                check_writable(folder / ".evenrisk")
    except OSError as error:
        message = f"--out must be a folder that can be written, got {named(out)}: {error.strerror}"
        raise click.UsageError(message) from error


def _paper() -> Any:
    """Import `evenrisk.paper`, which needs more packages."""
    missing = [name for name in NEEDED_PACKAGES if find_spec(name) is None]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        from evenrisk._validation import install_hint

        raise BadInput(
            f"the experiment's rows (Zafar-EO, MLP, LightGBM) need {names}: {install_hint('all', *missing)}"
        )
    from evenrisk import paper

    return paper


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
