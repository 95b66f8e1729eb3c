"""`evenrisk audit`: any score in a file, at every threshold; with a limit, a gate."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from evenrisk._files import PartlyWritten, check_writable, is_standard_output, write_texts
from evenrisk.cli._status import BadInput, ClosedPipe, named

DEFAULT_RULE = "demographic_parity"  # to judge by
# what the library calls its arguments, and how the command does
_OPTIONS = {
    "sensitive_features": "--group",
    "y_true": "--label",
    "y_score": "--score",
    "sample_weight": "--weight",
    "parity": "--parity",
    "max_gap": "--max-gap",
    "threshold": "--threshold",
    "level": "--level",
    "n_resamples": "--level is too high: the number of resamples",
}


class RuleName(click.Choice):
    """The name of a parity rule."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names, looked up when they are asked for: the rules need NumPy, which --help does without."""
        from evenrisk.parity import PARITIES

        return tuple(PARITIES)


@click.command()
@click.argument("file")
@click.option(
    "--score", "scores", required=True, multiple=True, metavar="COL", help="Score column; repeatable."
)
@click.option(
    "--group",
    "groups",
    required=True,
    multiple=True,
    metavar="COL",
    help="Group column; several are crossed.",
)
@click.option("--label", metavar="COL", help="Outcome column, with two values.")
@click.option("--positive", metavar="VALUE", help="The positive outcome.  [default: the greater of two]")
@click.option(
    "--favourable",
    type=click.Choice(("high", "low")),
    default="high",
    show_default=True,
    help="Which end of the score is good for a person.",
)
@click.option("--weight", metavar="COL", help="Weight of each row.")
@click.option(
    "--parity",
    "parities",
    multiple=True,
    type=RuleName(),
    help="Rule to measure and to judge by; repeatable.  [default: demographic_parity, and equalized_odds is "
    "shown where there is a --label]",
)
@click.option(
    "--threshold",
    type=float,
    help="Cut-off in use.  [default: 0.5 for scores in [0, 1], else the median; the median too where all lie "
    "close together and nearly all on one side of 0.5]",
)
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Probability of bands and intervals."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the page here.")
@click.option("--json", type=click.Path(dir_okay=False, path_type=Path), help="Write all numbers here.")
@click.option("--max-gap", type=float, help="Limit: exit 1 if a measured max gap exceeds it.")
@click.option("--strict", is_flag=True, help="With --max-gap: exit 1 unless certified to be below it.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed.")
def audit(file: str, html: Path | None, json: Path | None, **asked: Any) -> int:
    """Audit the scores in FILE (CSV, gzipped CSV, Parquet; - is standard input) at every threshold.

    Where --html or --json is /dev/stdout, what is printed goes to standard error.

    \b
    Exit status: 0, or with --max-gap 1 where the limit is exceeded (--strict: where
    it is not certified), and never 1 otherwise; 2 for bad input, or an output that
    could not be written; 3 for an error of this program; 130 if interrupted; 141 if
    a pipe was closed before all was printed.
    """
    from rich.console import Console
    from rich.markup import escape

    outputs = {option: path for option, path in (("--html", html), ("--json", json)) if path is not None}
    _refuse_unwritable(file, outputs)
    if asked["strict"] and asked["max_gap"] is None:
        raise click.UsageError("--strict needs --max-gap")
    if asked["positive"] is not None and asked["label"] is None:
        raise click.UsageError("--positive needs --label")
    console = Console(stderr=True)
    with console.status(escape(f"auditing {named(file)}")) if console.is_terminal else nullcontext():
        report = _report(file, asked)
        made = {"--html": report.to_html, "--json": report.to_json}
        texts = {path: made[option]() for option, path in outputs.items()}
    taken = any(is_standard_output(path) for path in outputs.values())
    _write(texts)
    with redirect_stdout(sys.stderr) if taken else nullcontext():
        _print_audit(report.summary)
        for path in outputs.values():
            click.echo(f"Written: {named(path)}")
        if asked["max_gap"] is None:
            return 0
        return _judge(report, asked["max_gap"], asked["parities"] or DEFAULT_RULE, strict=asked["strict"])


def _report(file: str, asked: dict[str, Any]) -> Any:
    """Read the file and audit it; errors name the options of the command."""
    import warnings

    from evenrisk._score_file import read_table
    from evenrisk._validation import ArgumentError
    from evenrisk.exceptions import SmallCellWarning
    from evenrisk.report import audit as audit_scores

    columns = {name: asked[name] for name in ("scores", "groups", "label", "positive", "weight")}
    try:
        table = read_table(file, **columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)  # printed with the verdict
            report = audit_scores(
                table.outcomes(asked["label"]),
                table.scores,
                sensitive_features=table.groups,
                sample_weight=table.weight,
                parity=list(dict.fromkeys(asked["parities"])) or None,
                threshold=asked["threshold"],
                level=asked["level"],
                favourable=asked["favourable"],
                random_state=asked["seed"],
                positive=table.label_words[1] if table.label_words else None,
                max_gap=asked["max_gap"],
            )
    except ArgumentError as error:
        option = _OPTIONS.get(error.argument, f"`{error.argument}`")
        raise BadInput(f"{option} {error.problem}") from error
    except ValueError as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(
            f"{named(file)}: must be a file that can be read, got: {error.strerror or error}"
        ) from error
    if table.label_words and asked["positive"] is None:
        report.summary["warnings"][:0] = _guess_warnings(table.label_words)
    return report


def _guess_warnings(label_words: tuple[str, str]) -> list[str]:
    """Say which label was taken as positive; a file has numbers and booleans as text."""
    from evenrisk._validation import NUMBER, guessed_label

    if {word.casefold() for word in label_words} == {"true", "false"}:
        return []
    if all(NUMBER.fullmatch(word) for word in label_words):
        return []
    return [f"{guessed_label('--label', label_words, '--positive')}."]


def _write(texts: dict[Path, str]) -> None:
    """Write all outputs or none, and say which it was."""
    names = " and ".join(map(named, texts))
    try:
        write_texts(texts)
    except BrokenPipeError as error:
        raise ClosedPipe from error
    except PartlyWritten as error:
        written = " and ".join(map(named, error.written))
        message = (
            f"could not write {named(error.filename)}: {error.strerror}. Written all the same: {written}"
        )
        raise BadInput(message) from error
    except OSError as error:
        raise BadInput(f"could not write {names}: {error.strerror or error}. Nothing was written") from error


def _print_audit(summary: dict[str, Any]) -> None:
    """Print tables, warnings and the verdict."""
    from evenrisk._validation import shown
    from evenrisk.report.words import to_terminal

    click.echo(to_terminal(summary))
    for sentence in summary["warnings"]:
        click.secho(f"Warning: {sentence}", err=True, fg="yellow")
    several = len(summary["scores"]) > 1
    for score in summary["scores"]:
        for paragraph in score["verdict"]:
            click.secho(f"{shown(score['name'])}: {paragraph}" if several else paragraph, bold=True)


def _judge(report: Any, limit: float, rules: Any, *, strict: bool) -> int:
    """Print how every score column compares with the limit, and return the exit status."""
    for each in report.judge(limit, strict=strict, parity=rules):
        click.secho(
            f"{'PASS' if each.passes else 'FAIL'}  {each.words}", fg="green" if each.passes else "red"
        )
    return 0 if report.passes(limit, strict=strict, parity=rules) else 1


def _refuse_unwritable(file: str, outputs: dict[str, Path]) -> None:
    """Better to know now than when all is computed."""
    for option, path in outputs.items():
        try:
            check_writable(path)
        except OSError as error:
            message = f"{option} must be a file that can be written, got {named(path)}: {error.strerror}"
            raise click.UsageError(message) from error
        if file != "-" and os.path.realpath(path) == os.path.realpath(file):
            raise click.UsageError(f"{option} must not be the file that is read, got {named(path)}")
    if len({os.path.realpath(path) for path in outputs.values()}) < len(outputs):
        raise click.UsageError(f"--html and --json must differ, got {named(outputs['--html'])} for both")
