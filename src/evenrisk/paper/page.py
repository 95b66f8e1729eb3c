"""The results as one page: both tables, what survives of the claim, the figures."""

from __future__ import annotations

from typing import Any

from evenrisk.paper.protocol import PARITIES
from evenrisk.paper.tables import (
    CLAIM_NOTE,
    TITLES,
    body,
    claim_body,
    claim_header,
    first_of_ours,
    header,
    notes,
)

FIGURES = {
    "parity_curves": "The gap against the threshold, mean over splits; bands: ± sd; hatched: by chance.",
    "tradeoff": "Accuracy against the gap at 0.5 along η, mean ± sd over splits.",
    "risk_distributions": "Risk distributions of logistic regression on the test parts, mean over splits.",
}
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


def to_html(summary: dict[str, Any]) -> str:
    """Write the page; it needs nothing but the files beside it."""
    from jinja2 import Environment, StrictUndefined

    parts = [
        {
            "title": TITLES[parity],
            "header": header(),
            "body": body(summary, parity),
            "rules": {first_of_ours(summary, parity), len(summary["tables"][parity])},
            "notes": notes(summary, parity),
            "claims": claim_body(summary, parity),
            "words": [claim["words"] for claim in summary["claims"][parity]],
        }
        for parity in PARITIES
    ]
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_TEMPLATE)
    return template.render(
        parts=parts,
        claim_header=claim_header(),
        claim_note=CLAIM_NOTE,
        figures=FIGURES,
        splits=summary["settings"]["splits"],
        seed=summary["settings"]["seed"],
    )
