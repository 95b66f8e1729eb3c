"""`evenrisk reproduce`: the paper's experiment."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
from click.core import ParameterSource

QUICK_SPLITS = 3
NEEDED = ("cvxpy", "dccp", "torch", "lightgbm")


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
    """
    from concurrent.futures.process import BrokenProcessPool

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()  # better to know now than when all is computed
    except OSError as error:
        message = f"--out must be a folder that can be written, got {out}: {error.strerror}"
        raise click.UsageError(message) from error
    if quick and click.get_current_context().get_parameter_source("splits") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--quick is 3 splits: give it or --splits, not both")
    paper = _paper()
    protocol, n_splits = paper.Protocol(seed=seed), QUICK_SPLITS if quick else splits
    console = Console(stderr=True)
    columns = (TextColumn("fitting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # a bar on a terminal, silence in a pipe
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("fitting", total=n_splits * protocol.steps)
        try:
            paper.run(out, protocol, n_splits, jobs or _cores(), step=lambda n: bar.advance(task, n))
        except KeyboardInterrupt:
            bar.stop()
            click.echo(
                f"Interrupted. Finished splits are kept in {out}/splits; run it again to go on.", err=True
            )
            raise SystemExit(130) from None
        except BrokenProcessPool as error:
            raise click.ClickException(
                "a worker process was killed, perhaps for want of memory. Finished splits are kept in "
                f"{out}/splits; run it again to go on, with fewer --jobs"
            ) from error
    experiment = paper.Experiment(paper.load_all(out, protocol, n_splits), protocol)
    summary = paper.summarise(experiment)
    paper.print_tables(summary)
    paper.write_results(experiment, summary, out)
    click.echo(f"Tables, figures and scores are in {out}/; open {out}/index.html")


def _paper() -> Any:
    """Open the room of the paper, which needs more packages."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        from evenrisk._validation import install_hint

        raise click.ClickException(
            f"the experiment's rows (Zafar-EO, MLP, LightGBM) need {names}: {install_hint('all', *missing)}"
        )
    from evenrisk import paper

    return paper


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
