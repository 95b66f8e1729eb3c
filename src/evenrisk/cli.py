"""The command line: parse, make one public call, print or write."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

import click

from evenrisk import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="evenrisk")
def main() -> None:
    """Risk scores that are fair at every threshold."""


@main.command()
@click.option("--splits", default=20, show_default=True, type=click.IntRange(1), help="70/30 splits.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the splits.")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for tables and figures.",
)
def reproduce(splits: int, seed: int, out: Path) -> None:
    """Run the paper's comparison on COMPAS: plain against fair logistic regression."""
    from rich.console import Console
    from rich.progress import Progress

    from evenrisk._files import write_text
    from evenrisk.paper import METHODS, run_experiment
    from evenrisk.paper.figures import parity_curves
    from evenrisk.paper.protocol import PARITIES
    from evenrisk.paper.tables import print_tables, summarise, to_csv, to_json, to_markdown

    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()  # better to know now than when all is computed
    except OSError as error:
        message = f"--out must be a folder that can be written, got {out}: {error.strerror}"
        raise click.UsageError(message) from error
    console = Console(stderr=True)
    # a bar on a terminal, silence in a pipe
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("fitting", total=splits * len(METHODS) * len(PARITIES))
        experiment = run_experiment(splits, seed, step=lambda: bar.advance(task))
    summary = summarise(experiment)
    print_tables(summary)
    for name, text in (
        ("tables.md", to_markdown(summary)),
        ("tables.csv", to_csv(summary)),
        ("results.json", to_json(summary)),
    ):
        write_text(out / name, text)
    parity_curves(experiment, out)
    click.echo(f"Tables and figures are in {out}/")


if __name__ == "__main__":
    main()
