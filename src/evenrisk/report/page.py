"""The audit as one HTML page: every number from the summary's dict, every name escaped.

Python draws the plots and fills the tables at the threshold that was asked for; the script only moves it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any

from evenrisk.metrics import STRATA
from evenrisk.report import drawings, numerals, words

DISTRIBUTIONS = tuple(stratum.rate for stratum in STRATA.values())  # of whom the histograms are, in order
MOST_PAIRS = 15  # twelve groups make 66 of them
COUNTS = ("selected", "true_positives")
WEIGHTS = ("selected_weight", "true_positives_weight")
TOTALS = ("rows", "positives", "weight", "positives_weight")


def to_html(summary: dict[str, Any]) -> str:
    """Write the whole page, which needs nothing else; the summary is as in the README of this folder."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    summary = words.shown_names(summary)
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
        verb=words.chosen(summary["settings"]["favourable"]),
        level=numerals.per_cent(summary["settings"]["level"]),
        cells=_cells_table(summary),
        facts=_facts(summary),
        expected=any(each["kind"] == "probabilities" for each in summary["attributes"]),
        plain=words.is_plain(summary),
        comparison=_comparison(summary) if len(sections) > 1 else None,
        sections=sections,
        number=numerals,
        most_pairs=MOST_PAIRS,
        css=Markup(_read("style.css")),
        script=Markup(_read("page.js")),
        data=Markup(_script_data(summary, sections)),
    )


def to_fragment(summary: dict[str, Any]) -> str:
    """Write the page for a notebook: in an ``<iframe>``, so that its styles stay inside."""
    return (
        f'<iframe title="{escape(summary["title"])}" sandbox="allow-scripts" width="100%" height="800"'
        f' style="border: 1px solid #8886" srcdoc="{escape(to_html(summary))}"></iframe>'
    )


def _read(name: str) -> str:
    """Return the text of a file of the templates folder."""
    return (files("evenrisk.report") / "templates" / name).read_text(encoding="utf-8")


def _section(summary: dict[str, Any], index: int) -> dict[str, Any]:
    """Return what the template writes about one score column."""
    score = summary["scores"][index]
    axis = drawings.Axis.of(score)
    return {
        "id": f"score-{index}",
        "score": score,
        "axis": axis,
        "labels": score["steps"]["written"],
        "start": score["start"],
        "buttons": _buttons(score),
        "columns": _rate_columns(summary),
        "rows": _group_rows(summary, score),
        "spreads": _spreads(summary, score),
        "gaps": _gaps(score),
        "plots": _plots(summary, score, axis),
        "measures": _measures(score),
        "attributes": _attributes_tables(score),
        "certificates": _certificates(score),
        "ranking": _ranking(score),
        "abroca": _abroca(score),
    }


def _nearest(thresholds: list[float], value: float) -> int:
    """Return the threshold closest to a value (its index)."""
    right = min(bisect_left(thresholds, value), len(thresholds) - 1)
    left = max(right - 1, 0)
    return left if value - thresholds[left] < thresholds[right] - value else right


def _buttons(score: dict[str, Any]) -> list[dict[str, Any]]:
    """Return buttons for the threshold that was asked for and every parity's worst one."""
    steps = score["steps"]["thresholds"]
    buttons = [{"words": "Start", "step": score["start"], "at": score["at_threshold"]["at"]}]
    for parity in score["parities"]:
        worst, name = parity["worst"], f"Worst for {parity['words']}"
        buttons.append({"words": name, "step": _nearest(steps, worst["threshold"]), "at": worst["at"]})
    return buttons


def _plots(summary: dict[str, Any], score: dict[str, Any], axis: drawings.Axis) -> list[drawings.Plot]:
    """Draw every stratum's gap, and beside it the scores of the same people."""
    top, level = drawings.highest(summary), numerals.per_cent(summary["settings"]["level"])
    left = {
        rate: _distributions(summary, shown, rate, axis)
        for rate, shown in zip(DISTRIBUTIONS, score["distributions"], strict=False)
    }
    plots = []
    for parity in score["parities"]:
        curve = parity["curve"]
        for stratum in curve["strata"]:
            plots.append(drawings.gap_plot(stratum, curve, axis, top, level))
            plots += left.pop(words.rate_of(stratum), [])
        plots += _plots_of_attributes(parity, axis, top)
    return [*plots, *(plot for beside in left.values() for plot in beside)]


def _distributions(
    summary: dict[str, Any], measured: dict[str, Any], rate: str, axis: drawings.Axis
) -> list[drawings.Plot]:
    """Draw the scores of some people, by the groups of every attribute."""
    several = len(summary["attributes"]) > 1
    compared = set(summary["compared"][rate]["groups"])
    return [
        drawings.distribution_plot(
            measured, summary["groups"], some, axis, f", by {each['name']}" if several else ""
        )
        for each in summary["attributes"]
        if (some := [j for j in each["groups"] if j in compared])
    ]


def _plots_of_attributes(parity: dict[str, Any], axis: drawings.Axis, top: float) -> list[drawings.Plot]:
    """Draw the gap of each of several attributes, and the largest gap by where an ordered one is cut."""
    plots, curve = [], parity["curve"]
    if curve["attributes"]:
        plots.append(drawings.attributes_plot(parity["words"], curve, axis, top))
    ordered = [each for each in parity["attributes"] if len(each["cuts"]) > 1]
    return plots + [drawings.cuts_plot(each, parity["words"], top) for each in ordered]


def _comparison(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the score columns side by side: a table, and one plot per parity."""
    names = [score["name"] for score in summary["scores"]]
    top = drawings.highest(summary, ("gap",))
    by_parity: dict[str, list[dict[str, Any]]] = {}
    for score in summary["scores"]:
        for parity in score["parities"]:
            by_parity.setdefault(parity["words"], []).append(parity["curve"])
    plots = [drawings.overlay_plot(rule, curves, names, top) for rule, curves in by_parity.items()]
    return {"rows": _comparison_table(summary), "plots": plots}


def _script_data(summary: dict[str, Any], sections: list[dict[str, Any]]) -> str:
    """Write what the script needs: counts at every step. No letter of it can end the script element."""
    data = {
        "favourable": summary["settings"]["favourable"],
        "compared": {rate: _places(which) for rate, which in summary["compared"].items()},
        "scores": [_script_score(section) for section in sections],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _places(compared: dict[str, Any]) -> dict[str, Any]:
    """Return the groups on every side that is compared, each side once, and which sides are compared."""
    if compared["pairs"] is None:
        return {"sides": [[j] for j in compared["groups"]], "pairs": None}
    sides = {tuple(side): None for pair in compared["pairs"] for side in pair}
    place = {side: i for i, side in enumerate(sides)}
    pairs = [[place[tuple(side)] for side in pair] for pair in compared["pairs"]]
    return {"sides": [list(side) for side in sides], "pairs": pairs}


def _script_score(section: dict[str, Any]) -> dict[str, Any]:
    """Return for the script the axis, and the counts at every step."""
    steps, along = section["score"]["steps"], section["axis"].along
    counts = {key: [_changes(row) for row in steps[key]] for key in COUNTS if key in steps}
    weights = {key: [_rounded(row) for row in steps[key]] for key in WEIGHTS if key in steps}
    totals = {key: _rounded(steps[key]) for key in TOTALS if key in steps}
    ends = {"low": along.low, "high": along.high, "labels": section["labels"]}
    # as they are written: they decide as the thresholds do, and what the page shows can be typed again
    thresholds = [numerals.parse(text) for text in steps["written"]]
    return {"thresholds": thresholds, **ends, **counts, **weights, **totals}


def _changes(counts: list[int]) -> list[int]:
    """Write the first count, then what each step takes away: a third of the digits."""
    return [counts[0], *(before - after for before, after in pairwise(counts))]


def _rounded(values: list[Any]) -> list[Any]:
    """Keep eight digits of a float, far more than the page shows."""
    return [float(f"{value:.8g}") if isinstance(value, float) else value for value in values]


# Tables: rows of text, from the numbers of the summary


def _facts(summary: dict[str, Any]) -> str:
    """Say which attributes there are: 2 groups by sex, 5 groups by race, 10 cuts in age."""
    parts = []
    for each in summary["attributes"]:
        n, what, word = len(each["groups"]), "group", "by"
        if each["kind"] == "ordered":
            n, what, word = len(each["cuts"]), "cut", "in"
        parts.append(
            f"{n} groups by probability"
            if each["kind"] == "probabilities"
            else f"{n} {what}{'' if n == 1 else 's'} {word} {each['name']}"
        )
    return ", ".join(parts)


def _cells_table(summary: dict[str, Any]) -> list[list[str]]:
    """Return the rows of every group, and of each outcome."""
    keys = ("rows", "negatives", "positives") if summary["label"] else ("rows",)
    return [[cell["group"], *(numerals.count(cell[key]) for key in keys)] for cell in summary["cells"]]


def _rate_columns(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Return the names of the rates of the groups; without outcomes there is one."""
    names = (words.chosen(summary["settings"]["favourable"]).capitalize(), "TPR", "FPR", "PPV", "Accuracy")
    columns = [{"key": key, "name": name} for key, name in zip(words.RATES, names, strict=True)]
    return columns if summary["label"] else columns[:1]


def _group_rows(summary: dict[str, Any], score: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each group's rates and counts at the threshold that was asked for."""
    keys = [column["key"] for column in _rate_columns(summary)]
    return [
        {
            "name": row["group"] + words.left_out_mark(row["group"], score),
            "rates": [(key, numerals.percent(row[key])) for key in keys],
            "bar": f"{100 * (row['selection_rate'] or 0):.1f}%",
            "count": f"{numerals.count(row['selected'])} of {numerals.count(row['rows'])}",
        }
        for row in score["at_threshold"]["groups"]
    ]


def _spreads(summary: dict[str, Any], score: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the largest gap of each rate."""
    keys = [column["key"] for column in _rate_columns(summary)]
    return [(key, numerals.points(score["at_threshold"]["gaps"][key])) for key in keys]


def _gaps(score: dict[str, Any]) -> list[dict[str, str]]:
    """Return the gap of every stratum at the threshold, each one once; a user's own follow ours."""
    strata = {
        stratum["name"]: stratum for parity in score["parities"] for stratum in parity["curve"]["strata"]
    }
    gaps = []
    for stratum in (strata[name] for name in STRATA | strata if name in strata):
        key = words.rate_of(stratum)
        gaps.append(
            {
                "key": key,
                "words": stratum["words"],
                "value": numerals.points(score["at_threshold"]["gaps"][key]),
            }
        )
    return gaps


def _measures(score: dict[str, Any]) -> list[list[str]]:
    """Return the summaries of a score column: one row per measure, one cell per parity."""
    asked = score["at_threshold"]["at"]
    parities = score["parities"]
    mean = ", mean of outcomes" if any(len(p["curve"]["strata"]) > 1 for p in parities) else ""
    rows = {
        "Largest gap, points": [numerals.interval(p["max_gap"], numerals.points) for p in parities],
        "… reached at cut-off": [f"{p['worst']['at']}, among {p['worst']['words']}" for p in parities],
        "By chance, points": [_chance(p) for p in parities],
        "p-value of the permutation test": [numerals.p_value(p["p_value"]) for p in parities],
        f"Gap at cut-off {asked}, points{mean}": [
            numerals.interval(p["gap_at_threshold"], numerals.points) for p in parities
        ],
        f"Rank gap, points{mean}": [numerals.interval(p["rank_gap"], numerals.points) for p in parities],
        f"Mean gap, in units of the score{mean}": [numerals.score_interval(p["mean_gap"]) for p in parities],
        "Half-width of the band, points": [_half_widths(p) for p in parities],
    }
    return [[name, *values] for name, values in rows.items()]


def _attributes_tables(score: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was found of each attribute under each rule: one row per attribute."""
    return [
        {
            "parity": parity["words"],
            "rows": [
                [
                    each["attribute"],
                    numerals.interval(each["max_gap"], numerals.points),
                    f"{each['worst']['at']}, among {each['worst']['words']}",
                    f"{each['worst']['higher']} ({numerals.percent(each['worst']['higher_rate'])})",
                    f"{each['worst']['lower']} ({numerals.percent(each['worst']['lower_rate'])})",
                ]
                for each in parity["attributes"]
            ],
        }
        for parity in score["parities"]
        if parity["attributes"]
    ]


def _certificates(score: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is certified under each rule: a sentence on each limit."""
    return [
        {
            "parity": parity["words"],
            "words": [sentence for _, sentence in words.limits(parity["certificates"])],
        }
        for parity in score["parities"]
        if parity["certificates"]
    ]


def _ranking(score: dict[str, Any]) -> list[list[str]]:
    """Return how well the score ranks: AUC of everybody and of each group."""
    if score["auc"] is None:
        return []
    rows = [["everybody", score["auc"]["overall"]], *([g["group"], g] for g in score["auc"]["groups"])]
    return [[name, numerals.interval(measured, numerals.area)] for name, measured in rows]


def _abroca(score: dict[str, Any]) -> list[list[str]]:
    """Return the area between the ROC curves of two groups, the largest first."""
    found = sorted((score["auc"] or {"abroca": []})["abroca"], key=lambda pair: -pair["value"])
    return [[" – ".join(pair["pair"]), numerals.interval(pair, numerals.area)] for pair in found[:MOST_PAIRS]]


def _comparison_table(summary: dict[str, Any]) -> list[list[str]]:
    """Return the score columns side by side: one row per column and parity."""
    return [
        [
            score["name"],
            parity["words"],
            numerals.interval(parity["max_gap"], numerals.points),
            _chance(parity),
            numerals.interval(parity["rank_gap"], numerals.points),
            numerals.score_interval(parity["mean_gap"]),
            _auc_range(score),
        ]
        for score in summary["scores"]
        for parity in score["parities"]
    ]


def _chance(parity: dict[str, Any]) -> str:
    """Write the mean and the 95 % point of the largest gap that chance gives."""
    return numerals.span(parity["noise_floor"]["mean"], parity["noise_floor"]["p95"])


def _half_widths(parity: dict[str, Any]) -> str:
    """Write the smallest and the largest half-width over strata and pairs of groups."""
    widths = [entry["half_width"] for entry in parity["half_widths"]]
    low, high = (numerals.points(end) if end < 1 else "over 100" for end in (min(widths), max(widths)))
    return low if low == high else f"{low} to {high}"


def _auc_range(score: dict[str, Any]) -> str:
    """Write the lowest and the highest AUC over groups that have enough rows of each outcome."""
    auc = score["auc"] or {"groups": [], "left_out": []}
    measured = [g["value"] for g in auc["groups"] if g["group"] not in auc["left_out"]]
    known = [value for value in measured if value is not None]
    return (
        f"{numerals.area(min(known))}\u00a0to\u00a0{numerals.area(max(known))}" if known else numerals.UNKNOWN
    )
