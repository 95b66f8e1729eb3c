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
    "reference": "--reference",
    "ordered": "--cut",
    "min_rows": "--min-rows",
    "min_share": "--min-share",
    "probabilities": "--probability",
}
COLUMNS = ("crossed", "each", "each-and-crossed")


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
@click.option("--group", "groups", multiple=True, metavar="COL", help="Group column; repeatable.")
@click.option(
    "--ordered",
    multiple=True,
    metavar="COL",
    help="Column of a measurement, such as age: people up to each of ten quantiles against those over it; "
    "repeatable.",
)
@click.option(
    "--cut",
    "cuts",
    nargs=2,
    multiple=True,
    type=(str, float),
    metavar="COL VALUE",
    help="Cut a column of a measurement here instead; repeatable.",
)
@click.option(
    "--probability",
    "probabilities",
    multiple=True,
    metavar="COL",
    help="Column with the probability that a person belongs to the group of its name; one for every group.",
)
@click.option(
    "--columns",
    type=click.Choice(COLUMNS),
    default="crossed",
    show_default=True,
    help="What several group columns are.",
)
@click.option(
    "--against",
    type=click.Choice(("every", "rest")),
    default="every",
    show_default=True,
    help="Whom a group is compared with: every other group, or all others together.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="GROUP",
    help="Group that all others are compared with instead; COL=GROUP where there are several columns.",
)
@click.option(
    "--unknown",
    type=click.Choice(("error", "exclude", "group")),
    default="error",
    show_default=True,
    help="What people without a value are.",
)
@click.option(
    "--min-rows",
    type=click.IntRange(0),
    help="Groups with fewer rows are listed and not compared.  [default: 30]",
)
@click.option(
    "--min-share",
    type=float,
    default=0.0,
    help="Groups with a smaller share of the people are listed and not compared.",
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
    _refuse_attributes(asked)
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
    from evenrisk._validation import ArgumentError, shown
    from evenrisk.exceptions import SmallCellWarning
    from evenrisk.report import audit as audit_scores

    names = ("scores", "groups", "probabilities", "label", "positive", "weight")
    columns = {name: asked[name] for name in names}
    columns["ordered"] = [*asked["ordered"], *dict.fromkeys(name for name, _ in asked["cuts"])]
    try:
        table = read_table(file, **columns, may_lack=asked["unknown"] != "error")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)  # printed with the verdict
            report = audit_scores(
                table.outcomes(asked["label"]),
                table.scores,
                sensitive_features=table.groups,
                sample_weight=table.weight,
                parity=list(dict.fromkeys(asked["parities"])) or None,
                comparison=_comparison(asked),
                threshold=asked["threshold"],
                level=asked["level"],
                favourable=asked["favourable"],
                random_state=asked["seed"],
                positive=table.label_words[1] if table.label_words else None,
                max_gap=asked["max_gap"],
            )
    except ArgumentError as error:
        options = _OPTIONS | {"sensitive_features": shown(_attribute_options(asked))}
        option = options.get(error.argument, f"`{error.argument}`")
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


def _refuse_attributes(asked: dict[str, Any]) -> None:
    """Refuse options of the attribute that do not go together."""
    options = ("groups", "ordered", "cuts", "probabilities")
    if not any(asked[name] for name in options):
        raise click.UsageError("Missing option '--group' (or --ordered, --cut or --probability)")
    given = [name for name in (*options[:3], "columns") if asked[name] not in ((), "crossed")]
    if asked["probabilities"] and given:
        other = {"groups": "--group", "cuts": "--cut"}.get(given[0], f"--{given[0]}")
        raise click.UsageError(f"--probability must not go with {other}")
    both = sorted({name for name, _ in asked["cuts"]} & set(asked["ordered"]))
    if both:
        raise click.UsageError(f"--ordered must not go with --cut for the same column, got {named(both[0])}")


def _attribute_options(asked: dict[str, Any]) -> str:
    """Return the option that names the attribute's columns, for messages."""
    if asked["probabilities"]:
        return "--probability"
    if asked["groups"]:
        return "--group"
    return "--ordered" if asked["ordered"] else "--cut"


def _comparison(asked: dict[str, Any]) -> Any:
    """Return who is compared with whom."""
    from evenrisk._validation import N_CUTS
    from evenrisk.parity import Comparison

    ordered: dict[str, Any] = dict.fromkeys(asked["ordered"], N_CUTS)
    for name, value in asked["cuts"]:
        ordered.setdefault(name, []).append(value)
    return Comparison(
        columns=asked["columns"].replace("-", " "),
        against=asked["against"],
        reference=_reference(asked["references"], asked["groups"]),
        unknown=asked["unknown"],
        min_rows=asked["min_rows"],
        min_share=asked["min_share"],
        ordered=ordered or False,
        probabilities=bool(asked["probabilities"]),
    )


def _reference(references: tuple[str, ...], groups: tuple[str, ...]) -> Any:
    """Return the reference group, or one of each column where GROUP is COL=GROUP."""
    titles = [*groups, " × ".join(groups)]
    of_column = [(title, text) for text in references for title in titles if text.startswith(f"{title}=")]
    found = {title: text.removeprefix(f"{title}=") for title, text in of_column}
    if len(found) == len(references):
        return found or None
    if len(references) > 1:
        raise click.UsageError(
            "--reference must be COL=GROUP, each with another --group column, where it is given several times"
        )
    return references[0]


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
