"""The report's sentences, in the user's own names."""

from __future__ import annotations

from typing import Any

from evenrisk._validation import SMALL_CELL

STRATUM_LABEL = {"negatives": "negative", "positives": "positive"}


def points(share: float) -> str:
    """A share as percentage points, without the word: 27, 4.3."""
    value = 100 * share
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return text.removesuffix(".0")


def span(low: float, high: float) -> str:
    """Two shares as points: 4 to 7; equally many digits in both."""
    digits = 0 if 100 * high >= 9.95 else 1
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def limit_points(limit: float) -> str:
    """A limit as points, with all its digits: 5, 12.5."""
    return f"{100 * limit:.10g}"


def percent(level: float) -> str:
    """95 %"""
    return f"{100 * level:g} %"


def probability(p: float) -> str:
    """p = 0.03"""
    return f"p = {p:.2g}" if p >= 0.0095 else f"p = {p:.1g}"


def people(name: str, summary: dict[str, Any]) -> str:
    """'Caucasian people', or 'people with age 25-45' where some name is no adjective."""
    if all(_adjective(group) for group in summary["groups"]):
        return f"{name} people"
    return f"people with {summary['group_name']} {name}"


def _adjective(name: str) -> bool:
    """Whether a name can stand before 'people', as far as its letters tell."""
    letters = all(letter.isalpha() or letter in " -×'" for letter in name)
    return len(name) > 2 and letters and name.casefold() not in {"yes", "true", "false", "none", "unknown"}


def among(stratum: str, label: dict[str, str] | None) -> str:
    """Whom a stratum holds: 'everybody', 'people with two_year_recid = 0'."""
    if label is not None and stratum in STRATUM_LABEL:
        return f"people with {label['name']} = {label[STRATUM_LABEL[stratum]]}"
    return stratum


def chosen(favourable: str) -> str:
    """What happens to people above the cut-off."""
    return "selected" if favourable == "high" else "flagged"


def paragraph(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """The verdict on one score column under one rule: how large, whether by chance, whether under a limit."""
    parts = [headline(parity, summary), _chance(parity, summary["settings"]["level"])]
    return " ".join([*parts, *_limits(parity["certificates"])])


def headline(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """How large the worst gap is, where and between whom."""
    worst, gap, settings = parity["worst"], parity["max_gap"], summary["settings"]
    floor = parity["noise_floor"]
    verb, level = chosen(settings["favourable"]), percent(settings["level"])
    if gap["value"] == 0:
        return f"{_opening(parity, 'At every cut-off')} all groups are {verb} equally often."
    higher, lower = (
        people(worst[side], summary) + _few(worst, side, summary) for side in ("higher", "lower")
    )
    rates = f"{100 * worst['higher_rate']:.0f} % against {100 * worst['lower_rate']:.0f} %"
    return (
        f"{_opening(parity, 'At the worst cut-off, ' + worst['at'] + ',')} "
        f"{higher} are {verb} {points(gap['value'])} points more often than {lower} "
        f"({rates}; {level} interval of the worst gap: {span(gap['low'], gap['high'])} points); "
        f"chance alone would give {span(floor['mean'], floor['p95'])} points."
    )


def _few(worst: dict[str, Any], side: str, summary: dict[str, Any]) -> str:
    """Say so where a side of the worst gap is a handful of rows."""
    (cell,) = [cell for cell in summary["cells"] if cell["group"] == worst[side]]
    n = cell.get(worst["stratum"]) or cell["rows"]
    return f" ({n} {'row' if n == 1 else 'rows'} only)" if n < SMALL_CELL else ""


def _opening(parity: dict[str, Any], where: str) -> str:
    if parity["worst"]["words"] == "everybody":
        return where
    among_whom = f"among {parity['worst']['words']}, {where[0].lower()}{where[1:]}"
    return f"{parity['words'].capitalize()}: {among_whom}"


def _chance(parity: dict[str, Any], level: float) -> str:
    p, high = probability(parity["p_value"]), points(parity["max_gap"]["high"])
    if parity["p_value"] <= min(1 - level, 0.05):
        return f"This is more than chance ({p})."
    return f"It is not shown to be more than chance ({p}); the true gap may be up to {high} points."


def _limits(certificates: list[dict[str, Any]]) -> list[str]:
    """The strictest limit that is certified, the loosest that is exceeded, and all that are open."""
    first: dict[float, dict[str, Any]] = {}  # the band that assumes nothing comes first
    for made in certificates:
        first.setdefault(made["limit"], made)
    by_verdict: dict[str, list[dict[str, Any]]] = {"certified": [], "violated": [], "not decidable": []}
    for limit in sorted(first):
        by_verdict[first[limit]["verdict"]].append(first[limit])
    told = by_verdict["violated"][-1:] + by_verdict["not decidable"] + by_verdict["certified"][:1]
    return [made["words"] + _otherwise(made, certificates) for made in told]


def _otherwise(made: dict[str, Any], certificates: list[dict[str, Any]]) -> str:
    """What resampling says of a limit that the stricter band leaves open."""
    if made["verdict"] != "not decidable":
        return ""
    others = [c["verdict"] for c in certificates if c["limit"] == made["limit"] and c is not made]
    decided = {"certified": "kept", "violated": "exceeded"}
    return "".join(
        f" By resampling, which holds approximately, it is {decided[verdict]}."
        for verdict in others
        if verdict in decided
    )


def certificate(verdict: str, limit: float, rows: int | None, level: float, method: str, cells: str) -> str:
    """What can be said of a limit."""
    most = f"{limit_points(limit)} points"
    sure = f"{percent(level)} sure{'' if method == 'dkw' else ', by resampling'}"
    if verdict == "certified":
        return f"The gap is certified to be at most {most} at every cut-off ({sure})."
    if verdict == "violated":
        return f"A limit of {most} is exceeded ({sure})."
    more = "the measured gap equals the limit, so that no number of rows would decide it"
    if rows is not None:
        more = f"about {rows:,} rows {cells} would decide it, if the measured gap stays"
    return f"Whether a limit of {most} is kept cannot be decided with this sample (not {sure}): {more}."


def small_cells(cells: list[tuple[str, int]], least: int) -> list[str]:
    """Name every cell that is too small to say much of."""
    few = f"fewer than {least}: what is measured there is mostly noise."
    return [
        f"Only {n} {'row' if n == 1 else 'rows'} in {name}, {few}" if n else f"No row in {name}."
        for name, n in cells
        if n < least
    ]
