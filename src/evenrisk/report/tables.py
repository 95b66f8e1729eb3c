"""The page's tables: rows of text, from the numbers of the summary's dict."""

from __future__ import annotations

from typing import Any

from evenrisk.report import numerals, words
from evenrisk.report.words import chosen

RATES = ("selection_rate", "tpr", "fpr", "ppv", "accuracy")
RATE_OF = {"everybody": "selection_rate", "negatives": "fpr", "positives": "tpr"}
MOST_PAIRS = 15  # twelve groups make 66 of them


def cells(summary: dict[str, Any]) -> list[list[str]]:
    """Count the rows of every group, and of each outcome."""
    keys = ("rows", "negatives", "positives") if summary["label"] else ("rows",)
    return [[cell["group"], *(numerals.count(cell[key]) for key in keys)] for cell in summary["cells"]]


def rate_columns(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Name the rates of the groups; without outcomes there is one."""
    names = (chosen(summary["settings"]["favourable"]).capitalize(), "TPR", "FPR", "PPV", "Accuracy")
    columns = [{"key": key, "name": name} for key, name in zip(RATES, names, strict=True)]
    return columns if summary["label"] else columns[:1]


def group_rows(summary: dict[str, Any], score: dict[str, Any]) -> list[dict[str, Any]]:
    """Give each group's rates and counts at the threshold that was asked for."""
    keys = [column["key"] for column in rate_columns(summary)]
    return [
        {
            "name": row["group"] + words.mark(row["group"], score),
            "rates": [(key, numerals.percent(row[key])) for key in keys],
            "bar": f"{100 * (row['selection_rate'] or 0):.1f}%",
            "count": f"{numerals.count(row['selected'])} of {numerals.count(row['rows'])}",
        }
        for row in score["at_threshold"]["groups"]
    ]


def spreads(summary: dict[str, Any], score: dict[str, Any]) -> list[tuple[str, str]]:
    """Take the highest minus the lowest of each rate over groups."""
    keys = [column["key"] for column in rate_columns(summary)]
    return [(key, numerals.points(_spread(summary, score, key))) for key in keys]


def gaps(summary: dict[str, Any], score: dict[str, Any]) -> list[dict[str, str]]:
    """Name the gap of every stratum at the threshold, each one once."""
    strata = {
        stratum["name"]: stratum["words"]
        for parity in score["parities"]
        for stratum in parity["curve"]["strata"]
        if stratum["name"] in RATE_OF
    }
    return [
        {"key": key, "words": strata[name], "value": numerals.points(_spread(summary, score, key))}
        for name, key in RATE_OF.items()
        if name in strata
    ]


def measures(score: dict[str, Any]) -> list[list[str]]:
    """Lay out the summaries of a score column: one row per measure, one cell per parity."""
    asked = score["at_threshold"]["at"]
    parities = score["parities"]
    mean = ", mean of outcomes" if any(len(p["curve"]["strata"]) > 1 for p in parities) else ""
    rows = {
        "Largest gap, points": [numerals.interval(p["max_gap"], numerals.points) for p in parities],
        "… reached at cut-off": [_place(p["worst"]) for p in parities],
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


def certificates(score: dict[str, Any]) -> list[dict[str, Any]]:
    """Say of each parity what is certified: a sentence on each limit."""
    return [
        {
            "parity": parity["words"],
            "words": [sentence for _, sentence in words.limits(parity["certificates"])],
        }
        for parity in score["parities"]
        if parity["certificates"]
    ]


def ranking(score: dict[str, Any]) -> list[list[str]]:
    """Lay out how well the score ranks: AUC of everybody and of each group."""
    if score["auc"] is None:
        return []
    rows = [["everybody", score["auc"]["overall"]], *([g["group"], g] for g in score["auc"]["groups"])]
    return [[name, numerals.interval(measured, numerals.area)] for name, measured in rows]


def abroca(score: dict[str, Any]) -> list[list[str]]:
    """Lay out the area between the ROC curves of two groups, the largest first."""
    found = sorted((score["auc"] or {"abroca": []})["abroca"], key=lambda pair: -(pair["value"] or 0))
    return [[" – ".join(pair["pair"]), numerals.interval(pair, numerals.area)] for pair in found[:MOST_PAIRS]]


def comparison(summary: dict[str, Any]) -> list[list[str]]:
    """Lay out the score columns side by side: one row per column and parity."""
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


def _spread(summary: dict[str, Any], score: dict[str, Any], key: str) -> float | None:
    """Take the highest minus the lowest rate over the groups that are compared and have one."""
    groups = score["at_threshold"]["groups"]
    known = [groups[j][key] for j in summary["compared"][key] if groups[j][key] is not None]
    return max(known) - min(known) if len(known) > 1 else None


def _place(worst: dict[str, Any] | None) -> str:
    """Say where the largest gap is."""
    if worst is None or worst["threshold"] is None:
        return numerals.UNKNOWN
    return f"{worst['at']}, among {worst['words']}"


def _chance(parity: dict[str, Any]) -> str:
    """Write the mean and the 95 % point of the largest gap that chance gives."""
    noise = parity["noise_floor"]
    if noise is None or noise["mean"] is None:
        return numerals.UNKNOWN
    return numerals.span(noise["mean"], noise["p95"])


def _half_widths(parity: dict[str, Any]) -> str:
    """Write the smallest and the largest half-width over strata and pairs of groups."""
    known = [entry["half_width"] for entry in parity["half_widths"] or [] if entry["half_width"] is not None]
    if not known:
        return numerals.UNKNOWN
    low, high = (numerals.points(end) if end < 1 else "over 100" for end in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def _auc_range(score: dict[str, Any]) -> str:
    """Write the lowest and the highest AUC over groups that have enough rows of each outcome."""
    auc = score["auc"] or {"groups": [], "left_out": []}
    measured = [g["value"] for g in auc["groups"] if g["group"] not in auc["left_out"]]
    known = [value for value in measured if value is not None]
    return (
        f"{numerals.area(min(known))}\u00a0to\u00a0{numerals.area(max(known))}" if known else numerals.UNKNOWN
    )
