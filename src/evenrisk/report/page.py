"""The audit as one HTML page: every number from the summary's dict, every name escaped.

Python draws and fills everything at the threshold that was asked for; the script only moves it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any

from evenrisk.report import drawings, numerals, tables
from evenrisk.report.names import shown_names
from evenrisk.report.words import chosen, percent

DISTRIBUTION_OF = {"everybody": 0, "negatives": 1, "positives": 2}
RATE_OF_DISTRIBUTION = tuple(tables.RATE_OF[stratum] for stratum in DISTRIBUTION_OF)
COUNTS = ("selected", "true_positives")
WEIGHTS = ("selected_weight", "true_positives_weight")
TOTALS = ("rows", "positives", "weight", "positives_weight")


def to_html(summary: dict[str, Any]) -> str:
    """Write the whole page; it needs nothing beside it.

    Parameters
    ----------
    summary : dict
        As in the README of this folder.

    Returns
    -------
    str
        HTML.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    summary = shown_names(summary)
    sections = [_section(summary, index) for index in range(len(summary["scores"]))]
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_read),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        summary=summary,
        verb=chosen(summary["settings"]["favourable"]),
        level=percent(summary["settings"]["level"]),
        cells=tables.cells(summary),
        comparison=_comparison(summary) if len(sections) > 1 else None,
        sections=sections,
        number=numerals,
        most_pairs=tables.MOST_PAIRS,
        css=Markup(_read("style.css")),
        script=Markup(_read("page.js")),
        data=Markup(_script_data(summary, sections)),
    )


def to_fragment(summary: dict[str, Any]) -> str:
    """Write the page for a notebook: in a frame, so that its styles stay inside.

    Parameters
    ----------
    summary : dict
        As in the README of this folder.

    Returns
    -------
    str
        An ``<iframe>``.
    """
    return (
        f'<iframe title="{escape(summary["title"])}" sandbox="allow-scripts" width="100%" height="800"'
        f' style="border: 1px solid #8886" srcdoc="{escape(to_html(summary))}"></iframe>'
    )


def _read(name: str) -> str:
    """Read a file of the templates folder."""
    return (files("evenrisk.report") / "templates" / name).read_text(encoding="utf-8")


def _section(summary: dict[str, Any], index: int) -> dict[str, Any]:
    """Prepare what the template writes about one score column."""
    score = summary["scores"][index]
    axis = drawings.Axis.of(score)
    steps = score["steps"]["thresholds"]
    return {
        "id": f"score-{index}",
        "score": score,
        "axis": axis,
        "labels": score["steps"]["written"],
        "start": score["start"],
        "buttons": _buttons(score, steps),
        "columns": tables.rate_columns(summary),
        "rows": tables.group_rows(summary, score),
        "spreads": tables.spreads(summary, score),
        "gaps": tables.gaps(summary, score),
        "plots": _plots(summary, score, axis),
        "measures": tables.measures(score),
        "certificates": tables.certificates(score),
        "ranking": tables.ranking(score),
        "abroca": tables.abroca(score),
    }


def _nearest(thresholds: list[float], value: float) -> int:
    """Find the threshold closest to a value."""
    right = min(bisect_left(thresholds, value), len(thresholds) - 1)
    left = max(right - 1, 0)
    return left if value - thresholds[left] < thresholds[right] - value else right


def _buttons(score: dict[str, Any], steps: list[float]) -> list[dict[str, Any]]:
    """Offer the threshold that was asked for and every parity's worst one."""
    buttons = [{"words": "Start", "step": score["start"], "at": score["at_threshold"]["at"]}]
    for parity in score["parities"]:
        if parity["worst"] and parity["worst"]["threshold"] is not None:
            at = parity["worst"]["threshold"]
            words = f"Worst for {parity['words']}"
            buttons.append({"words": words, "step": _nearest(steps, at), "at": parity["worst"]["at"]})
    return buttons


def _plots(summary: dict[str, Any], score: dict[str, Any], axis: drawings.Axis) -> list[drawings.Plot]:
    """Draw every stratum's gap, and beside it the scores of the same people."""
    top, level = drawings.highest(summary), percent(summary["settings"]["level"])
    compared_in = [summary["compared"][rate] for rate in RATE_OF_DISTRIBUTION[: len(score["distributions"])]]
    left = {
        i: drawings.distribution_plot(shown, summary["groups"], compared, axis)
        for i, (shown, compared) in enumerate(zip(score["distributions"], compared_in, strict=True))
    }
    plots = []
    for parity in score["parities"]:
        curve = parity["curve"]
        for stratum in curve["strata"]:
            plots.append(drawings.gap_plot(stratum, curve, axis, top, level))
            beside = left.pop(DISTRIBUTION_OF.get(stratum["name"], -1), None)
            if beside:
                plots.append(beside)
    return [*plots, *left.values()]


def _comparison(summary: dict[str, Any]) -> dict[str, Any]:
    """Set the score columns side by side: a table, and one plot per parity."""
    names = [score["name"] for score in summary["scores"]]
    top = drawings.highest(summary, ("gap",))
    by_parity: dict[str, list[dict[str, Any]]] = {}
    for score in summary["scores"]:
        for parity in score["parities"]:
            by_parity.setdefault(parity["words"], []).append(parity["curve"])
    plots = [drawings.overlay_plot(words, curves, names, top) for words, curves in by_parity.items()]
    return {"rows": tables.comparison(summary), "plots": plots}


def _script_data(summary: dict[str, Any], sections: list[dict[str, Any]]) -> str:
    """Write what the script needs: counts at every step. No letter of it can end the script element."""
    data = {
        "favourable": summary["settings"]["favourable"],
        "compared": summary["compared"],
        "scores": [_script_score(section) for section in sections],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script_score(section: dict[str, Any]) -> dict[str, Any]:
    """Give the script the axis, and the counts at every step."""
    steps, along = section["score"]["steps"], section["axis"].along
    counts = {key: [_changes(row) for row in steps[key]] for key in COUNTS if key in steps}
    weights = {key: [_rounded(row) for row in steps[key]] for key in WEIGHTS if key in steps}
    totals = {key: _rounded(steps[key]) for key in TOTALS if key in steps}
    ends = {"low": along.low, "high": along.high, "labels": section["labels"]}
    # as they are written: they decide as the thresholds do, and what the page shows can be typed again
    thresholds = [numerals.read(text) for text in steps["written"]]
    return {"thresholds": thresholds, **ends, **counts, **weights, **totals}


def _changes(counts: list[int]) -> list[int]:
    """Write the first count, then what each step takes away: a third of the digits."""
    return [counts[0], *(before - after for before, after in pairwise(counts))]


def _rounded(values: list[Any]) -> list[Any]:
    """Keep eight digits of a float, far more than the page shows."""
    return [float(f"{value:.8g}") if isinstance(value, float) else value for value in values]
