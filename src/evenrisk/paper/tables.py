"""The experiment as tables: on the terminal, as Markdown, CSV and JSON, all from one list of rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenrisk.paper.protocol import COLUMNS, ETA_NOTE, PARITIES, Experiment

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
MAIN_COLUMNS = ("accuracy", "gap", "max_gap", "rank_gap", "auc")
TITLES = {"demographic_parity": "Demographic parity", "equalized_odds": "Equalized odds"}


def summarise(experiment: Experiment) -> dict[str, Any]:
    """Give {"tables": {parity: [row, …]}, "noise_floor": …, "settings": …}, means and sd over splits."""
    tables, floors = {}, {}
    for parity in PARITIES:
        tables[parity] = [
            {"method": method.name, "eta": method.eta}
            | {name: _mean_sd(experiment.values[parity, method.name][name]) for name in COLUMNS}
            | {"warnings": _warnings(experiment, parity, method.name)}
            for method in experiment.methods
        ]
        mean, p95 = np.mean(experiment.floors[parity], axis=0)
        floors[parity] = {"max_gap": {"mean": float(mean), "p95": float(p95)}}
    return {"tables": tables, "noise_floor": floors, "settings": dict(experiment.settings)}


def _warnings(experiment: Experiment, parity: str, method: str) -> dict[str, int]:
    """Kind of warning → in how many splits the fit gave it."""
    found = {kind: n for (p, m, kind), n in experiment.warned.items() if (p, m) == (parity, method)}
    return dict(sorted(found.items()))


def _mean_sd(values: list[float]) -> dict[str, float | None]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None}


def _cells(row: dict[str, Any], columns: Sequence[str] = COLUMNS, *, spread: bool = True) -> list[str]:
    """Write a row; one split has no spread, and a narrow terminal no room for it."""
    spread = spread and row[columns[0]]["sd"] is not None
    numbers = [
        f"{row[name]['mean']:.3f}" + (f" ± {row[name]['sd']:.3f}" if spread else "") for name in columns
    ]
    return [row["method"], f"{row['eta']:g}", *numbers]


def _notes(summary: dict[str, Any], parity: str) -> list[str]:
    """What stands below a table."""
    gap = summary["noise_floor"][parity]["max_gap"]
    notes = [f"Chance alone, with race permuted: max gap {gap['mean']:.3f} (95 % point {gap['p95']:.3f})."]
    notes.append(ETA_NOTE)
    notes += [
        f"{row['method']}: {kind} in {count} of {summary['settings']['splits']} splits."
        for row in summary["tables"][parity]
        for kind, count in row["warnings"].items()
    ]
    return notes


def to_markdown(summary: dict[str, Any]) -> str:
    """Write both tables as Markdown."""
    header = ["method", "η", *HEADINGS.values()]
    parts = []
    for parity, rows in summary["tables"].items():
        lines = [header, ["---"] * len(header), *map(_cells, rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"## {TITLES[parity]}\n\n{table}\n\n" + "  \n".join(_notes(summary, parity)) + "\n")
    return "\n".join(parts)


def to_csv(summary: dict[str, Any]) -> str:
    """Write both tables as one CSV, with full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f"{name}_{part}" for name in COLUMNS for part in ("mean", "sd")]
    writer.writerow(["parity", "method", "eta", *names])
    for parity, rows in summary["tables"].items():
        for row in rows:
            numbers = [row[name][part] for name in COLUMNS for part in ("mean", "sd")]
            writer.writerow([parity, row["method"], row["eta"], *numbers])
    return out.getvalue()


def to_json(summary: dict[str, Any]) -> str:
    """Write the summary as JSON."""
    return json.dumps(summary, indent=2) + "\n"


def print_tables(summary: dict[str, Any]) -> None:
    """Print both tables; on a narrow terminal the main columns, on a very narrow one without spreads."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    columns = COLUMNS if console.width >= 145 else MAIN_COLUMNS
    spread = console.width >= 95
    for parity, rows in summary["tables"].items():
        table = Table("method", "η", *(HEADINGS[name] for name in columns), box=SIMPLE_HEAD, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
            column.no_wrap = True
        for row in rows:
            table.add_row(*_cells(row, columns, spread=spread))
        console.print(f"{TITLES[parity]}, mean{' ± sd' if spread else ''} over splits", style="bold")
        console.print(table)
        console.print("\n".join(_notes(summary, parity)) + "\n", highlight=False)
