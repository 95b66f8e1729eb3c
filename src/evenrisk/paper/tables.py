"""The summary as tables: on the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from evenrisk.paper.protocol import CHANCE_COLUMNS, COLUMNS, PAPER_COLUMNS
from evenrisk.paper.summary import CLAIM_HEADINGS, CLAIMED, signed, verdict

HEADINGS = {
    "accuracy": "accuracy",
    "gap": "gap at 0.5",
    "interval": "Int.",
    "std": "STD",
    "max_gap": "max gap",
    "rank_gap": "rank gap",
    "auc": "AUC",
    "score_sd": "sd of s",
}
MAIN_COLUMNS = ("accuracy", "gap", "std", "max_gap")
TITLES = {"demographic_parity": "Table 1. Demographic parity", "equalized_odds": "Table 2. Equalized odds"}
UNMATCHED = "†"
CHANCE = "by chance"


def header(columns: Sequence[str] = COLUMNS) -> list[str]:
    return ["method", "η or c", *(HEADINGS[name] for name in columns)]


def body(
    summary: dict[str, Any], parity: str, columns: Sequence[str] = COLUMNS, *, spread: bool = True
) -> list[list[str]]:
    """Return a table's rows, the noise floor last; a narrow terminal has no space for the spread."""
    rows = [_cells(row, columns, spread=spread) for row in summary["tables"][parity]]
    return [*rows, _chance(summary["noise_floor"][parity], columns)]


def first_of_ours(summary: dict[str, Any], parity: str) -> int:
    """Return the number of the first row of ours, which a rule sets apart from the paper's."""
    return [row["ours"] for row in summary["tables"][parity]].index(True)


def _cells(row: dict[str, Any], columns: Sequence[str], *, spread: bool) -> list[str]:
    name = row["method"] + ("" if row["matched"] else f" {UNMATCHED}")
    return [name, _strength(row, spread=spread), *(_cell(row, column, spread=spread) for column in columns)]


def _strength(row: dict[str, Any], *, spread: bool) -> str:
    """Return η, which differs from split to split, or c, which does not."""
    if "c" in row:
        return f"c = {row['c']:g}"
    return _with_sd(row["eta"], "{:.3g}", spread=spread) if row["eta"]["mean"] else "0"


def _cell(row: dict[str, Any], column: str, *, spread: bool) -> str:
    text = _with_sd(row[column], "{:.3f}", spread=spread)
    if row["paper"] is not None and column in PAPER_COLUMNS:
        text += f" [{row['paper'][column]:.3f}]"
    return text


def _with_sd(value: dict[str, float | None], form: str, *, spread: bool) -> str:
    mean = form.format(value["mean"])
    return f"{mean} ± {form.format(value['sd'])}" if spread and value["sd"] is not None else mean


def _chance(floor: dict[str, dict[str, float]], columns: Sequence[str]) -> list[str]:
    """Return the noise floor's cells: mean and 95 % point."""
    cells = [
        f"{floor[name]['mean']:.3f} ({floor[name]['p95']:.3f})" if name in CHANCE_COLUMNS else ""
        for name in columns
    ]
    return [CHANCE, "", *cells]


def notes(summary: dict[str, Any], parity: str) -> list[str]:
    rows, n = summary["tables"][parity], summary["settings"]["splits"]
    target = summary["settings"]["zafar_accuracy"][parity]
    found = [
        f"Mean ± sd over {n} split{'s' if n > 1 else ''}; in brackets the paper's figure, of one split. The "
        "last row is the plain model's under permuted race: mean (95 % point).",
        f"c is the bound whose mean accuracy on the validation parts is nearest the paper's {target:.3f}; "
        "η is matched in each split to Zafar's accuracy on its validation part.",
        "Int. and STD are not measures of fairness: a constant gap of 0.3 has 0 in both. Read the max gap.",
    ]
    unmatched = [f"{row['method']} {row['far']}" for row in rows if not row["matched"]]
    if unmatched:
        found.append(
            f"{UNMATCHED} accuracy not matched: the path jumps, or the grid of η ends before; shown at the "
            f"nearest point. Splits off by more than .01 on validation: {', '.join(unmatched)}."
        )
    for row in rows:
        if row["collapsed"]:
            found.append(f"{row['method']}: scores collapsed (sd below 0.01) in {row['collapsed']} splits.")
        if row["unfinished"]:
            what = "did not converge or hold the norm guard" if "c" in row else "did not converge"
            found.append(f"{row['method']}: {row['unfinished']} fits, validation and test, {what}.")
    return found


def claim_header() -> list[str]:
    names = [CLAIM_HEADINGS[name] for name in CLAIMED]
    return ["method", *(f"{name} − Zafar's" for name in names), *(f"{name} − rescaled" for name in names)]


def claim_body(summary: dict[str, Any], parity: str) -> list[list[str]]:
    """Return the paired differences with their standard errors; a star where a 95 % interval excludes 0."""
    return [
        [
            claim["method"],
            *(
                _difference(claim[against][column])
                for against in ("zafar", "zafar_rescaled")
                for column in CLAIMED
            ),
        ]
        for claim in summary["claims"][parity]
    ]


def _difference(found: dict[str, Any]) -> str:
    text = signed(found["mean"])
    if found["se"] is None:
        return text
    return f"{text} ± {found['se']:.3f}{'' if verdict(found) == 'unclear' else '*'}"


def to_markdown(summary: dict[str, Any]) -> str:
    """Return both tables and both lists of claims as Markdown."""
    parts = []
    for parity in summary["tables"]:
        rows, place = body(summary, parity), first_of_ours(summary, parity)
        ours = ["*ours:*", *[""] * (len(header()) - 1)]
        rows = [*rows[:place], ours, *rows[place:]]
        parts.append(f"## {TITLES[parity]}\n\n{_markdown(header(), rows)}\n")
        parts.append("\n".join(f"* {note}" for note in notes(summary, parity)) + "\n")
        parts.append(f"### Does the claim hold?\n\n{CLAIM_NOTE}\n")
        parts.append(_markdown(claim_header(), claim_body(summary, parity)) + "\n")
        parts.append("\n".join(f"* {claim['words']}" for claim in summary["claims"][parity]) + "\n")
    return "\n".join(parts)


CLAIM_NOTE = (
    "Difference to Zafar, split by split: mean ± standard error (Nadeau and Bengio's, for overlapping "
    "splits); * where a 95 % interval excludes 0. “Rescaled” is Zafar's score multiplied by a constant that "
    "gives it the row's own spread: same accuracy, same gap at 0.5, same max gap, other Int. and STD."
)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_csv(summary: dict[str, Any]) -> str:
    """Return both tables as one CSV, with full precision."""
    numbers = [(name, part) for name in (*COLUMNS, "eta") for part in ("mean", "sd")]
    head = ["parity", "method", "ours", "matched", "c", *(f"{name}_{part}" for name, part in numbers)]
    lines: list[list[Any]] = [[*head, *(f"paper_{name}" for name in PAPER_COLUMNS)]]
    for parity, rows in summary["tables"].items():
        for row in rows:
            values = [row.get(name, {}).get(part) for name, part in numbers]
            paper = [(row["paper"] or {}).get(name) for name in PAPER_COLUMNS]
            lines.append([parity, row["method"], row["ours"], row["matched"], row.get("c"), *values, *paper])
    return csv_text(lines)


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def to_json(summary: dict[str, Any]) -> str:
    return json.dumps(summary, indent=2, ensure_ascii=False) + "\n"


def print_tables(summary: dict[str, Any]) -> None:
    """Print both tables and what survives of the claim; fewer columns on a narrow terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    columns = COLUMNS if console.width >= 210 else MAIN_COLUMNS
    spread = console.width >= 125
    for parity in summary["tables"]:
        rows = body(summary, parity, columns, spread=spread)
        rules = {first_of_ours(summary, parity) - 1, len(rows) - 2}
        console.print(TITLES[parity], style="bold")
        console.print(_table(header(columns), rows, rules))
        console.print("\n".join(["", *notes(summary, parity), ""]), highlight=False, markup=False)
        console.print(
            "Does the claim hold? Against Zafar at the same accuracy, split by split:", style="bold"
        )
        if spread:
            console.print(_table(claim_header(), claim_body(summary, parity), set()))
        words = [claim["words"] for claim in summary["claims"][parity]]
        console.print("\n".join(["", *words, ""]), highlight=False, markup=False)


def _table(head: list[str], rows: list[list[str]], rules: set[int]) -> Any:
    """Lay out a table for the terminal, with a rule below some rows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(*head, box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for i, column in enumerate(table.columns):
        column.justify = "right" if i else "left"
        column.no_wrap = True
    for i, row in enumerate(rows):
        table.add_row(*row, end_section=i in rules)
    return table
