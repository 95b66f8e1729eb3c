"""Everything a run leaves behind: tables, page, figures, and the scores they can be recomputed from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import replacing, write_text
from evenrisk.paper import figures, tables
from evenrisk.paper.protocol import PARITIES
from evenrisk.paper.summary import Experiment

FIGURES = {
    "parity_curves": "The gap against the threshold, mean over splits; bands: ± sd; hatched: by chance.",
    "tradeoff": "Accuracy against the gap at 0.5 along η, mean ± sd over splits.",
    "risk_distributions": "Risk distributions of logistic regression on the test parts, mean over splits.",
}
FORMATS = ("csv", "png", "svg")  # of a figure
FILES = (
    "index.html",
    "results.json",
    "tables.csv",
    "tables.md",
    *(f"{name}.{kind}" for name in FIGURES for kind in FORMATS),
    "headline.png",
    "headline.svg",
)
FIRST_ARRAY = {"splits": b"settings.npy", "scores": b"rows.npy"}  # the first array in each folder's files


def write_results(experiment: Experiment, summary: dict[str, Any], folder: Path) -> None:
    """Write all files of a finished experiment."""
    write_text(folder / "tables.md", tables.to_markdown(summary))
    write_text(folder / "tables.csv", tables.to_csv(summary))
    write_text(folder / "results.json", tables.to_json(summary))
    _write_scores(experiment, folder / "scores")
    for draw in (figures.parity_curves, figures.tradeoff, figures.risk_distributions):
        draw(experiment, folder)
    write_text(folder / "index.html", to_html(summary))


def _write_scores(experiment: Experiment, folder: Path) -> None:
    """Write each split's test labels, groups, and the scores of every row of both tables."""
    folder.mkdir(exist_ok=True)
    chosen = {
        (parity, method): [s for _, s in experiment.scores(parity, method)]
        for parity in PARITIES
        for method in experiment.methods(parity)
    }
    for i, split in enumerate(experiment.splits):
        arrays = {"rows": split["rows"], "y": split["y"], "group": split["group"]}
        arrays |= {f"{parity}/{method}": scores[i] for (parity, method), scores in chosen.items()}
        with replacing(folder / f"split_{i:03d}.npz") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    for path, number in _numbered(folder):
        if number >= len(experiment.splits):
            path.unlink()  # of an earlier run with more splits: it does not belong to these tables


def foreign_files(folder: Path) -> list[Path]:
    """Return the paths that a run would write over, or could not write to, and that no run has made.

    Files of splits and scores are known by their first array. The others are taken for those of a run if
    there is one such file, or the run's ``results.json``.
    """
    found = []
    ours = _is_summary(folder / "results.json")
    for name, first in FIRST_ARRAY.items():
        below = folder / name
        if below.is_dir():
            known = {path: _begins_with(path, first) for path, _ in _numbered(below)}
            ours = ours or any(known.values())
            found += [path for path, right in known.items() if not right]
        elif below.exists():
            found.append(below)
    paths = [folder / name for name in FILES]
    found += [path for path in paths if path.is_dir() or (path.exists() and not ours)]
    return sorted(found)


def _numbered(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files named like a split's, with its number."""
    for path in sorted(folder.glob("split_*.npz")):
        if match := re.fullmatch(r"split_([0-9]{3,})\.npz", path.name):
            yield path, int(match[1])


def _begins_with(path: Path, array: bytes) -> bool:
    """Return whether an .npz file begins with this array; an empty file counts, since it holds nothing."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(30 + len(array))  # a zip archive has 30 bytes before the first name
    return not head or (head.startswith(b"PK") and head.endswith(array))


def _is_summary(path: Path) -> bool:
    try:
        summary = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and summary.keys() >= {"tables", "noise_floor", "claims", "settings"}


def to_html(summary: dict[str, Any]) -> str:
    """Return the page; it needs nothing but the files beside it."""
    from jinja2 import Environment, StrictUndefined

    parts = [
        {
            "title": tables.TITLES[parity],
            "header": tables.header(),
            "body": tables.body(summary, parity),
            "rules": {tables.first_of_ours(summary, parity), len(summary["tables"][parity])},
            "notes": tables.notes(summary, parity),
            "claims": tables.claim_body(summary, parity),
            "words": [claim["words"] for claim in summary["claims"][parity]],
        }
        for parity in PARITIES
    ]
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_TEMPLATE)
    return template.render(
        parts=parts,
        claim_header=tables.claim_header(),
        claim_note=tables.CLAIM_NOTE,
        figures=FIGURES,
        splits=summary["settings"]["splits"],
        seed=summary["settings"]["seed"],
    )


_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Threshold-invariant fair classification, reproduced</title>
<style>
:root { color-scheme: light dark; --rule: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 92rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; }
tr.rule td { border-top: 3px double var(--rule); }
ul { font-size: .9rem; }
figure { margin: 1.5rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; }
figcaption { font-size: .9rem; }
</style>
</head>
<body>
<h1>Threshold-invariant fair classification, reproduced</h1>
<p>The experiment of Chen and Wu (UAI 2020) on COMPAS, with {{ splits }} random 70/30 splits (seed {{ seed }})
where the paper has one. Race is used in training only.</p>
{% for part in parts %}
<h2>{{ part.title }}</h2>
<div class="wide"><table>
<thead><tr>{% for cell in part.header %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in part.body %}<tr{% if loop.index0 in part.rules %} class="rule"{% endif %}>
{%- for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
<ul>{% for note in part.notes %}<li>{{ note }}</li>{% endfor %}</ul>
<h3>Does the claim hold?</h3>
<p>{{ claim_note }}</p>
<div class="wide"><table>
<thead><tr>{% for cell in claim_header %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in part.claims %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
<ul>{% for words in part.words %}<li>{{ words }}</li>{% endfor %}</ul>
{% endfor %}
<h2>Figures</h2>
{% for name, caption in figures.items() %}
<figure><img src="{{ name }}.svg" alt="{{ caption }}"><figcaption>{{ caption }}
<a href="{{ name }}.png">PNG</a>, <a href="{{ name }}.csv">numbers</a></figcaption></figure>
{% endfor %}
<p>Numbers: <a href="results.json">results.json</a>, <a href="tables.csv">tables.csv</a>;
the test scores of every split are in <code>scores/</code>.</p>
</body>
</html>
"""
