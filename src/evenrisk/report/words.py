"""The report's sentences, in the user's own names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from evenrisk._validation import SMALL_CELL, shown

STRATUM_LABEL = {"negatives": "negative", "positives": "positive"}
MOST_NAMED = 4  # groups left out that a sentence names; the tables list all


def points(share: float) -> str:
    """A share as percentage points, without the word: 27, 4.3; 0 where it is 0 alone."""
    value = 100 * share
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    if value and not float(text):
        return f"{Decimal(f'{value:.1g}'):f}"
    return text.removesuffix(".0")


def span(low: float, high: float) -> str:
    """Two shares as points: 4 to 7; equally many digits in both, so many that they differ."""
    first, second = _apart(low, high, 0 if 100 * high >= 9.95 else 1)
    return points(high) if first == second else f"{first} to {second}"


def _apart(one: float, other: float, digits: int) -> tuple[str, str]:
    """Two shares in per cent, with more digits where they would else look equal."""
    for more in range(digits, digits + 3):
        texts = f"{100 * one:.{more}f}", f"{100 * other:.{more}f}"
        if texts[0] != texts[1]:
            break
    return texts


def limit_points(limit: float) -> str:
    """A limit as points, with all its digits: 5, 12.5."""
    return f"{100 * limit:.10g}"


def percent(level: float) -> str:
    """95 %"""
    return f"{100 * level:g} %"


def probability(p: float) -> str:
    """p = 0.03"""
    return f"p = {p:.2g}" if p >= 0.0095 else f"p = {p:.1g}"


def group(name: str) -> str:
    """'group Caucasian': a group's name in a sentence, whatever the language."""
    return f"group {shown(name)}"


def quoted_group(name: str) -> str:
    """'group 'Caucasian'': where a name may end with a space, or be none."""
    return f"group {shown(repr(name))}"


def among(stratum: str, label: dict[str, str] | None) -> str:
    """Whom a stratum holds: 'everybody', 'people with two_year_recid = 0'."""
    if label is not None and stratum in STRATUM_LABEL:
        return f"people with {shown(label['name'])} = {shown(label[STRATUM_LABEL[stratum]])}"
    return shown(stratum)


def rule(name: str) -> str:
    """A rule's name in words."""
    return shown(name.replace("_", " "))


def chosen(favourable: str) -> str:
    """What happens to people above the cut-off."""
    return "selected" if favourable == "high" else "flagged"


def paragraph(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """The verdict on one score column under one rule: how large, whether by chance, whether under a limit."""
    parts = [headline(parity, summary), _chance(parity, summary["settings"]["level"])]
    parts += [*_limits(parity["certificates"]), *_not_compared(parity, summary["label"])]
    return " ".join(part for part in parts if part)


def headline(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """How large the worst gap is, where and between whom."""
    worst, gap, settings = parity["worst"], parity["max_gap"], summary["settings"]
    floor = parity["noise_floor"]
    verb, level = chosen(settings["favourable"]), percent(settings["level"])
    if gap["value"] == 0:
        return f"{_opening(parity, 'At every cut-off')} all groups are {verb} equally often."
    higher, lower = (group(worst[side]) + _few(worst, side, summary) for side in ("higher", "lower"))
    rates = "{} % against {} %".format(*_apart(worst["higher_rate"], worst["lower_rate"], 0))
    return (
        f"{_opening(parity, 'At the worst cut-off, ' + worst['at'] + ',')} "
        f"{higher} is {verb} {points(gap['value'])} points more often than {lower} "
        f"({rates}; {level} interval of the worst gap: {span(gap['low'], gap['high'])} points); "
        f"chance alone would give {_by_chance(floor['mean'], floor['p95'])}."
    )


def _by_chance(mean: float, p95: float) -> str:
    """Mean and 95 % point of the gaps that chance gives: 4 points on average, and rarely more than 7."""
    ends = span(mean, p95).split(" to ")
    return f"{ends[0]} points" + (f" on average, and rarely more than {ends[1]}" if ends[1:] else "")


def _few(worst: dict[str, Any], side: str, summary: dict[str, Any]) -> str:
    """Say so where a side of the worst gap is a handful of rows."""
    (cell,) = [cell for cell in summary["cells"] if cell["group"] == worst[side]]
    n = cell.get(worst["stratum"]) or cell["rows"]
    return f" ({_rows(n)} only)" if n < SMALL_CELL else ""


def _opening(parity: dict[str, Any], where: str) -> str:
    if parity["worst"]["words"] == "everybody":
        return where
    among_whom = f"among {parity['worst']['words']}, {where[0].lower()}{where[1:]}"
    return f"{parity['words'][:1].upper()}{parity['words'][1:]}: {among_whom}"


def _chance(parity: dict[str, Any], level: float) -> str:
    p, high = probability(parity["p_value"]), points(parity["max_gap"]["high"])
    if parity["max_gap"]["value"] == 0:  # nothing was found that chance could explain
        return f"The true gap may be up to {high} points." if parity["max_gap"]["high"] else ""
    if parity["p_value"] <= min(1 - level, 0.05):
        return f"This is more than chance ({p})."
    return f"It is not shown to be more than chance ({p}); the true gap may be up to {high} points."


def held(parity: dict[str, Any], limit: float, rows: int, *, above: bool, strict: bool) -> str:
    """The measured gap against the limit that was asked for, and what can be said beyond the sample.

    It ends with how many groups, and how many of all `rows`, were left out.
    """
    ((made, sentence),) = [each for each in limits(parity["certificates"]) if each[0]["limit"] == limit]
    gap = parity["max_gap"]["value"]
    digits = 3
    while digits < 15 and (round(gap, digits) > limit) is not above:  # 0.3004 exceeds 0.3, 0.300 does not
        digits += 1
    verb = "exceeds" if above else "is within"
    if strict and not above and made["verdict"] != "certified":
        verb = "is not certified to be within"
    found = f"max gap {gap:.{digits}f} {verb} {limit:g}. {sentence}"
    gone = parity["left_out"]
    if not gone:
        return found
    which = f"{len(gone)} {'group' if len(gone) == 1 else 'groups'}"
    return f"{found} Left out: {which} ({sum(each['rows'] for each in gone):,} of {_rows(rows)})."


def _limits(certificates: list[dict[str, Any]]) -> list[str]:
    """The strictest limit that is certified, the loosest that is exceeded, and all that are open."""
    by_verdict: dict[str, list[str]] = {"certified": [], "violated": [], "not decidable": []}
    for made, sentence in sorted(limits(certificates), key=lambda each: each[0]["limit"]):
        by_verdict[made["verdict"]].append(sentence)
    return by_verdict["violated"][-1:] + by_verdict["not decidable"] + by_verdict["certified"][:1]


def limits(certificates: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """One sentence on each limit, with the certificate that decides: the band that assumes nothing is first.

    Where it leaves open what resampling decides, the sentence says what resampling finds and how many rows
    the other band would need: two sentences would contradict each other.
    """
    by_limit: dict[float, list[dict[str, Any]]] = {}
    for made in certificates:
        by_limit.setdefault(made["limit"], []).append(made)
    return [(made[0], _by_resampling(*made)) for made in by_limit.values()]


def _by_resampling(made: dict[str, Any], *others: dict[str, Any]) -> str:
    """What the first certificate says, or what resampling says of a limit that it leaves open."""
    decided = [other for other in others if other["verdict"] != "not decidable"]
    if made["verdict"] != "not decidable" or not decided:
        return str(made["words"])
    most, sure = f"{limit_points(made['limit'])} points", f"{percent(made['level'])} sure"
    finding = f"a limit of {most} is exceeded"
    if decided[0]["verdict"] == "certified":
        finding = f"the gap is at most {most} at every cut-off"
    more = f"an answer that assumes nothing takes {_rows_needed(made['rows_needed'], made['where'])}"
    return f"By resampling, which holds approximately, {finding} ({sure}); {more}."


def _rows_needed(rows: int, where: str) -> str:
    return f"about {rows:,} rows {where}, if the measured gap stays"


def certificate(verdict: str, limit: float, rows: int | None, level: float, method: str, where: str) -> str:
    """What can be said of a limit."""
    most = f"{limit_points(limit)} points"
    sure = f"{percent(level)} sure{'' if method == 'dkw' else ', by resampling'}"
    if verdict == "certified":
        return f"The gap is certified to be at most {most} at every cut-off ({sure})."
    if verdict == "violated":
        return f"A limit of {most} is exceeded ({sure})."
    more = "the measured gap equals the limit, so that no number of rows would decide it"
    if rows is not None:
        more = f"it would take {_rows_needed(rows, where)}"
    question = f"Whether the true gap keeps a limit of {most}"
    return f"{question} cannot be decided with this sample (not {sure}): {more}."


def left_out(rule_name: str, groups: list[dict[str, Any]], label: dict[str, str] | None, needed: str) -> str:
    """Name the groups that a rule leaves out, with what they lack."""
    named = too_few(groups, label)
    return f"Left out of {rule(rule_name)}, which compares groups of {needed}: {named}."


def too_few(groups: list[dict[str, Any]], label: dict[str, str] | None) -> str:
    """Name groups that have too few rows to be compared; of many, the first few."""
    named = [_with_rows(quoted_group(entry["group"]), entry, label) for entry in groups[:MOST_NAMED]]
    more = len(groups) - len(named)
    return "; ".join(named) + (f"; and {more} more {'group' if more == 1 else 'groups'}" if more else "")


def _not_compared(parity: dict[str, Any], label: dict[str, str] | None) -> list[str]:
    """The same at the end of a verdict."""
    if len(parity["left_out"]) > MOST_NAMED:
        return [f"Left out: {len(parity['left_out'])} groups with too few rows."]
    named = [_with_rows(group(entry["group"]), entry, label) for entry in parity["left_out"]]
    return [f"Left out: {'; '.join(named)}."] if named else []


def mark(name: str, score: dict[str, Any]) -> str:
    """What follows a group's name in the table of rates, where some rule leaves it out."""
    gone = [parity["words"] for parity in score["parities"] if name in _names(parity["left_out"])]
    if not gone:
        return ""
    return " (left out)" if len(gone) == len(score["parities"]) else f" (left out of {', '.join(gone)})"


def _names(groups: list[dict[str, Any]]) -> list[str]:
    return [entry["group"] for entry in groups]


def _with_rows(name: str, entry: dict[str, Any], label: dict[str, str] | None) -> str:
    """'group c, 40 rows (0 among people with late = yes)': its rows, and those of the outcomes it lacks."""
    found = f"{name}, {_rows(entry['rows'])}"
    lacking = [cell for cell in entry["cells"] if cell["too_few"] and cell["rows"] < entry["rows"]]
    few = ", ".join(f"{cell['rows']} among {among(cell['stratum'], label)}" for cell in lacking)
    return f"{found} ({few})" if few else found


def outside(name: str, at: str, ends: tuple[str, str], verb: str, *, below: bool) -> str:
    """Say that a cut-off that was asked for decides alike for everybody."""
    where, who = ("below all scores", "everybody") if below else ("at or above all scores", "nobody")
    run = f"{ends[0]} to {ends[1]}"
    return f"The cut-off {at} is {where} of {shown(name)}, which run from {run}: {who} is {verb}."


def _rows(n: int) -> str:
    return f"{n:,} {'row' if n == 1 else 'rows'}"


def small_cells(cells: list[tuple[str, int]], least: int) -> list[str]:
    """Name every cell that is too small to say much of."""
    few = f"fewer than {least}: what is measured there is mostly noise."
    return [f"Only {_rows(n)} in {name}, {few}" if n else f"No row in {name}." for name, n in cells]
