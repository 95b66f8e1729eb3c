"""The report in words: its sentences and notes, and the summary as Markdown and as tables for a terminal.

Names are data. Sentences are written with names as they are shown; the name fields of the summary hold them
as they came, and `shown_names` returns a summary in which these too can be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from evenrisk._validation import ALL_BUT, SMALL_CELL, shown
from evenrisk.metrics import STRATA
from evenrisk.report import numerals

if TYPE_CHECKING:
    from evenrisk.parity import Parity

# the rates at one cut-off, and the people whom each describes, as a key of the summary's cells
RATES = {
    "selection_rate": "rows",
    "tpr": "positives",
    "fpr": "negatives",
    "ppv": "rows",
    "accuracy": "rows",
}
MOST_NAMED = 4  # groups left out that a sentence names; the tables list all
ATTRIBUTE_HEADER = ("attribute", "max gap", "at", "higher rate", "lower rate")
SUMMARY_HEADER = ("score", "rule", "max gap", "at", "by chance", "p", "mean gap", "rank gap")
GROUP_HEADER = ("group", "{chosen}", "rate", "TPR", "FPR", "PPV", "accuracy", "AUC")


def group(name: str) -> str:
    """Return 'group Caucasian': a group's name in a sentence, whatever the language."""
    return f"group {shown(name)}"


def quoted_group(name: str) -> str:
    """Return 'group 'Caucasian'': where a name may end with a space, or be none."""
    return f"group {shown(repr(name))}"


def person(name: str, summary: dict[str, Any]) -> str:
    """Return 'group Caucasian' where there is one attribute; names of several say which: 'race Caucasian'."""
    (first, *others) = summary["attributes"]
    if name in summary["groups"] and not others and first["kind"] != "ordered":
        return group(name)
    against = summary["settings"]["comparison"]["against"]
    if name not in summary["groups"] and against == "rest" and name.startswith(ALL_BUT):
        return "everybody else"
    if any(each["cuts"] and name.startswith(f"{each['name']} ") for each in summary["attributes"]):
        return f"people with {shown(name)}"
    return f"people {shown(name)}" if first["kind"] == "ordered" and not others else shown(name)


def _is(subject: str) -> str:
    return "are" if subject.startswith("people ") else "is"


def is_plain(summary: dict[str, Any]) -> bool:
    """Whether every group is compared with every other."""
    return summary["compared"]["selection_rate"]["pairs"] is None


def among(stratum: str, label: dict[str, str] | None) -> str:
    """Return whom a stratum of this name holds; one of a user's own is called by its name."""
    return STRATA[stratum].words(label) if stratum in STRATA else shown(stratum)


def rate_of(stratum: dict[str, Any]) -> str:
    """Return the rate whose gap a stratum of a curve shows: "selection_rate", "fpr" or "tpr"."""
    return str(stratum.get("rate") or STRATA[stratum["name"]].rate)


def chosen(favourable: str) -> str:
    """Return what happens to people above the cut-off."""
    return "selected" if favourable == "high" else "flagged"


def paragraph(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """Return the verdict on one score column under one rule: how large, by chance or not, under a limit?"""
    parts = [headline(parity, summary), _chance(parity, summary["settings"]["level"])]
    parts += [*_limits(parity["certificates"]), *_not_compared(parity, summary)]
    parts += [_between_groups(parity)]
    return " ".join(part for part in parts if part)


def headline(parity: dict[str, Any], summary: dict[str, Any]) -> str:
    """Say how large the worst gap is, where and between whom."""
    worst, gap, settings = parity["worst"], parity["max_gap"], summary["settings"]
    floor = parity["noise_floor"]
    verb, level = chosen(settings["favourable"]), numerals.per_cent(settings["level"])
    if gap["value"] == 0:
        return f"{_opening(parity, 'At every cut-off')} all groups are {verb} equally often."
    higher, lower = (person(worst[side], summary) + _few(worst, side) for side in ("higher", "lower"))
    rates = "{} % against {} %".format(*numerals.apart(worst["higher_rate"], worst["lower_rate"], 0))
    interval = numerals.short_span(gap["low"], gap["high"])
    by = "by probabilities, " if parity["by_probabilities"] else ""
    return (
        f"{_opening(parity, 'At the worst cut-off, ' + worst['at'] + ',')} "
        f"{by}{higher} {_is(higher)} {verb} {numerals.short_points(gap['value'])} points more often than "
        f"{lower} ({rates}; {level} interval of the worst gap: {interval} points); "
        f"chance alone would give {_by_chance(floor['mean'], floor['p95'])}."
    )


def _between_groups(parity: dict[str, Any]) -> str:
    """Say that a gap by probabilities is not the one between the groups."""
    return "The gap between the groups themselves may be another." if parity["by_probabilities"] else ""


def _by_chance(mean: float, p95: float) -> str:
    """Write mean and 95 % point of the gaps by chance: 4 points on average, and rarely more than 7."""
    ends = numerals.short_span(mean, p95).split(" to ")
    return f"{ends[0]} points" + (f" on average, and rarely more than {ends[1]}" if ends[1:] else "")


def _few(worst: dict[str, Any], side: str) -> str:
    """Say so where a side of the worst gap is a handful of rows."""
    n = worst[f"{side}_rows"]
    return f" ({_rows(n)} only)" if n < SMALL_CELL else ""


def _opening(parity: dict[str, Any], where: str) -> str:
    stratum = STRATA.get(parity["worst"]["stratum"])
    if stratum is not None and stratum.outcome is None:  # everybody
        return where
    among_whom = f"among {parity['worst']['words']}, {where[0].lower()}{where[1:]}"
    return f"{parity['words'][:1].upper()}{parity['words'][1:]}: {among_whom}"


def _chance(parity: dict[str, Any], level: float) -> str:
    p, high = numerals.probability(parity["p_value"]), numerals.short_points(parity["max_gap"]["high"])
    if parity["max_gap"]["value"] == 0:  # nothing was found that chance could explain
        return f"The true gap may be up to {high} points." if parity["max_gap"]["high"] else ""
    if parity["p_value"] <= min(1 - level, 0.05):
        return f"This is more than chance ({p})."
    return f"It is not shown to be more than chance ({p}); the true gap may be up to {high} points."


def limit_sentence(parity: dict[str, Any], limit: float, rows: int, *, above: bool, strict: bool) -> str:
    """Compare the measured gap with a limit, and say what can be said beyond the sample.

    It ends with how many groups, and how many of all `rows`, were left out.
    """
    sure = [each for each in limits(parity["certificates"]) if each[0]["limit"] == limit]
    gap = parity["max_gap"]["value"]
    digits = 3
    while digits < 15 and (round(gap, digits) > limit) is not above:  # 0.3004 exceeds 0.3, 0.300 does not
        digits += 1
    verb = "exceeds" if above else "is within"
    if strict and not above and all(made["verdict"] != "certified" for made, _ in sure):
        verb = "is not certified to be within"
    found = " ".join([f"max gap {gap:.{digits}f} {verb} {limit:g}.", *(sentence for _, sentence in sure)])
    found += f" {_between_groups(parity)}" if parity["by_probabilities"] else ""
    gone = parity["left_out"]
    if not gone:
        return found
    groups, cuts = ([each for each in gone if each["is_cut"] is is_cut] for is_cut in (False, True))
    which = []
    if groups:
        some = f"{sum(each['rows'] for each in groups):,} of {_rows(rows)}"
        which = [f"{len(groups)} {'group' if len(groups) == 1 else 'groups'} ({some})"]
    if cuts:
        which.append(f"{len(cuts)} {'cut' if len(cuts) == 1 else 'cuts'} with few rows on a side")
    return f"{found} Left out: {' and '.join(which)}."


def _limits(certificates: list[dict[str, Any]]) -> list[str]:
    """Return the strictest limit that is certified, the loosest that is exceeded, and all that are open."""
    by_verdict: dict[str, list[str]] = {"certified": [], "violated": [], "not decidable": []}
    for made, sentence in sorted(limits(certificates), key=lambda each: each[0]["limit"]):
        by_verdict[made["verdict"]].append(sentence)
    return by_verdict["violated"][-1:] + by_verdict["not decidable"] + by_verdict["certified"][:1]


def limits(certificates: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return the certificate that decides on each limit, and a sentence.

    Where it leaves open what resampling decides, the sentence says what resampling finds and how many rows
    the other band would need: two sentences would contradict each other.
    """
    by_limit: dict[float, dict[str, dict[str, Any]]] = {}
    for made in certificates:
        by_limit.setdefault(made["limit"], {})[made["method"]] = made
    # the band that assumes nothing decides, where there is one
    return [
        (made["dkw"], _by_resampling(made["dkw"], made.get("bootstrap")))
        if "dkw" in made
        else (made["bootstrap"], str(made["bootstrap"]["words"]))
        for made in by_limit.values()
    ]


def _by_resampling(made: dict[str, Any], resampled: dict[str, Any] | None) -> str:
    """Say what a certificate says, or what resampling says of a limit that it leaves open."""
    decided = resampled is not None and resampled["verdict"] != "not decidable"
    if made["verdict"] != "not decidable" or resampled is None or not decided:
        return str(made["words"])
    most, sure = f"{numerals.exact_points(made['limit'])} points", f"{numerals.per_cent(made['level'])} sure"
    finding = f"a limit of {most} is exceeded"
    if resampled["verdict"] == "certified":
        finding = f"the gap is at most {most} at every cut-off"
    more = f"an answer that assumes nothing takes {_rows_needed(made['rows_needed'], made['where'])}"
    return f"By resampling, which holds approximately, {finding} ({sure}); {more}."


def _rows_needed(rows: int, where: str) -> str:
    return f"about {rows:,} rows {where}, if the measured gap stays"


def certificate(verdict: str, limit: float, rows: int | None, level: float, method: str, where: str) -> str:
    """Say what can be said of a limit."""
    most = f"{numerals.exact_points(limit)} points"
    sure = f"{numerals.per_cent(level)} sure{'' if method == 'dkw' else ', by resampling'}"
    if verdict == "certified":
        return f"The gap is certified to be at most {most} at every cut-off ({sure})."
    if verdict == "violated":
        return f"A limit of {most} is exceeded ({sure})."
    more = "the measured gap equals the limit, so that no number of rows would decide it"
    if rows is not None:
        more = f"it would take {_rows_needed(rows, where)}"
    question = f"Whether the true gap keeps a limit of {most}"
    return f"{question} cannot be decided with this sample (not {sure}): {more}."


def left_out(rule: str, groups: list[dict[str, Any]], label: dict[str, str] | None, needed: str) -> str:
    """Name the groups that a rule leaves out, with what they lack."""
    named = too_few(groups, label)
    return f"Left out of {rule}, which compares groups of {needed}: {named}."


def too_few(groups: list[dict[str, Any]], label: dict[str, str] | None) -> str:
    """Name groups that have too few rows to be compared; of many, the first few."""
    named = [
        _with_rows(
            _cut(shown(repr(entry["group"]))) if entry["is_cut"] else quoted_group(entry["group"]),
            entry,
            label,
        )
        for entry in groups[:MOST_NAMED]
    ]
    more = len(groups) - len(named)
    return "; ".join(named) + (f"; and {more} more {'group' if more == 1 else 'groups'}" if more else "")


def _cut(side: str) -> str:
    """Return 'the cut with age up to 21': who is on one side is not left out, but on a side of other cuts."""
    return f"the cut with {side}"


def _not_compared(parity: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """Name groups that are left out at the end of a verdict."""
    if len(parity["left_out"]) > MOST_NAMED:
        return [f"Left out: {len(parity['left_out'])} groups or sides of cuts with too few rows."]
    named = [
        _with_rows(
            _cut(shown(entry["group"])) if entry["is_cut"] else person(entry["group"], summary),
            entry,
            summary["label"],
        )
        for entry in parity["left_out"]
    ]
    return [f"Left out: {'; '.join(named)}."] if named else []


def attribute_rows(parity: dict[str, Any]) -> list[list[str]]:
    """Return one row per attribute: its largest gap, where it is, and between whom."""
    return [
        [
            each["attribute"],
            numerals.decimal_interval(each["max_gap"]),
            each["worst"]["at"],
            each["worst"]["higher"],
            each["worst"]["lower"],
        ]
        for each in parity["attributes"]
    ]


def unknown_values(attributes: Iterable[dict[str, Any]], rows: int) -> list[str]:
    """Say how many rows are in no comparison because their value is not known."""
    return [
        f"{shown(each['name'])} is unknown in {each['unknown']:,} of {_rows(rows)}, which are in no "
        "comparison of it."
        for each in attributes
        if each["unknown"]
    ]


def not_measured(attribute: str, rule: str, needed: str, reference: str = "") -> str:
    """Say that a rule compares nothing of an attribute."""
    few = f"there are no 2 groups{reference} with {needed}"
    return f"{shown(attribute)} could not be measured under {rule}: {few}."


def left_out_mark(name: str, score: dict[str, Any]) -> str:
    """Return what follows a group's name in the table of rates, where some rule leaves it out."""
    gone = [
        parity["words"]
        for parity in score["parities"]
        if name in _names([entry for entry in parity["left_out"] if not entry["is_cut"]])
    ]
    if not gone:
        return ""
    return " (left out)" if len(gone) == len(score["parities"]) else f" (left out of {', '.join(gone)})"


def _names(groups: list[dict[str, Any]]) -> list[str]:
    return [entry["group"] for entry in groups]


def _with_rows(name: str, entry: dict[str, Any], label: dict[str, str] | None) -> str:
    """Return 'group c, 40 rows (0 among people with late = yes)': rows, and those of outcomes it lacks."""
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


PROBABLE = """Groups are probabilities: gaps are those between distributions weighted with them, and not the
gaps between the groups themselves."""
GAP = """A person is {above} if the score is above the cut-off. The gap is {difference};
it was measured at every score that occurs, so no cut-off is missed. The worst gap does not change when
scores are rescaled; the mean gap is in units of the score; the rank gap is the average over people's own
scores as cut-offs."""
DIFFERENCE = "the largest minus the smallest share of people so decided, over the groups"
DIFFERENCE_OF_PAIRS = "the largest difference of two shares of people so decided, over all that is compared"
OUTCOMES = """The gap is measured among people of each outcome apart: {apart}.
The worst gap is that of the worse outcome; the gap at one cut-off, the mean gap and
the rank gap are averages of the two."""
BAND = """{resampled}{within}. The shaded band
holds the true curve at all cut-offs at once with a probability of about {level}; the interval of
the worst gap is read off it. The interval comes from a band that covers all
cut-offs and is cautious; the test can find a gap where the interval still contains 0. A group of fewer
than 30 rows is resampled from all distinct scores with equal probability, because its own rows say too
little. Each other interval holds on its own, not all of them together."""
RESAMPLED = "Rows were resampled {n_resamples:,} times within every group"
RESAMPLED_WHOLE = "Rows were resampled {n_resamples:,} times, each with all of its attributes"
PERMUTED = "The groups were"
PERMUTED_WHOLE = "The rows of the attributes' table were"
CHANCE = """{permuted} permuted {n_permutations:,} times{within}: the grey strip runs from the
mean to the 95 % point of the worst gap of a score that has nothing to do with the groups.{inexact}"""
INEXACT = """ This holds approximately where weights vary within a group, where the people who are unknown
in one attribute are known in another, and above 100,000 rows, where the permutations are drawn from their
normal limit."""
CERTIFICATE = """A limit is certified or exceeded by the inequality of Dvoretzky, Kiefer, Wolfowitz
and Massart, which holds at any sample size and for any score."""
CERTIFICATE_RESAMPLED = """{why}: limits are judged by resampling, which holds
approximately."""
CONCLUDED = """The rows are taken for independent draws of the people that the score is meant for;
nothing is said of other people. A gap is not its cause: where outcomes differ between groups, a
score that predicts them well shows a gap. A small gap is no proof of fairness either: it says
nothing of how outcomes were recorded, of people within a group, or of what the decision does to
them. Of many scores, groups and rules, some will show a large gap by chance."""


def notes(summary: dict[str, Any], rules: Iterable[Parity]) -> list[dict[str, str]]:
    """Return how the report measures, and what cannot be concluded from it."""
    settings, label, plain = summary["settings"], summary["label"], is_plain(summary)
    low = "flagged (a low score is the favourable one)"
    words = {
        **settings,
        "level": numerals.per_cent(settings["level"]),
        "above": "selected" if settings["favourable"] == "high" else low,
        "difference": DIFFERENCE if plain else DIFFERENCE_OF_PAIRS,
        "resampled": (RESAMPLED if plain else RESAMPLED_WHOLE).format(**settings),
        "permuted": PERMUTED if plain else PERMUTED_WHOLE,
        "inexact": "" if _exact(summary) else INEXACT,
        "within": ", and within each outcome where the rule looks at it" if label else "",
    }
    by_outcome = [
        (rule.title, OUTCOMES, {"apart": _apart(rule, label)}) for rule in rules if len(rule.strata) > 1
    ]
    texts: list[tuple[str, str, dict[str, str]]] = [
        ("The gap", GAP, {}),
        *([] if plain else [("Who is compared", "{who}", {"who": _who(summary)})]),
        *by_outcome,
        ("The band", BAND, {}),
        ("Chance", CHANCE, {}),
        ("Certificates", *_certified_by(settings)),
        ("What cannot be concluded", CONCLUDED, {}),
    ]
    return [
        {"title": title, "text": " ".join(text.split()).format(**words, **own)} for title, text, own in texts
    ]


def _certified_by(settings: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return which band judges limits."""
    if settings["comparison"]["probabilities"]:
        return CERTIFICATE_RESAMPLED, {"why": "Groups are probabilities"}
    return (
        (CERTIFICATE_RESAMPLED, {"why": "Rows have weights"}) if settings["weighted"] else (CERTIFICATE, {})
    )


def _who(summary: dict[str, Any]) -> str:
    """Say who is compared with whom, attribute by attribute."""
    asked = summary["settings"]["comparison"]
    named = asked["reference"] if isinstance(asked["reference"], list) else []
    references = {each["attribute"]: each["group"] for each in named}
    parts = []
    for each in summary["attributes"]:
        reference = references.get(each["name"]) if named else asked["reference"]
        who = "every group with every other"
        if each["kind"] == "ordered":
            n = len(each["cuts"])
            who = f"people up to a value with people over it, at {n} {'value' if n == 1 else 'values'}"
        elif reference is not None:
            who = f"every group with {shown(reference)}"
        elif asked["against"] == "rest":
            who = "every group with all others together"
        parts.append(f"{shown(each['name'])}: {who}.")
    if asked["unknown"] == "group":
        parts.append("People of unknown value are a group of their own.")
    parts += [" ".join(PROBABLE.split())] if asked["probabilities"] else []
    return " ".join(parts)


def _apart(rule: Parity, label: dict[str, str] | None) -> str:
    """Say whose rates each stratum of a rule compares."""
    strata = [(each.words(label, "those"), f"{each.rate_words}s") for each in reversed(rule.describe())]
    (who, rates), *others = strata
    first = f"among {who} it is the gap in {rates}"
    return ", ".join([first, *(f"among {who} in {rates}" for who, rates in others)])


def _exact(summary: dict[str, Any]) -> bool:
    return all(parity["exact"] for score in summary["scores"] for parity in score["parities"])


# keys of the dict that hold a name, or a list of them; sentences are written with shown names already
NAMES = {
    "group",
    "groups",
    "group_name",
    "name",
    "negative",
    "positive",
    "pair",
    "higher",
    "lower",
    "left_out",
    "attribute",
}


def shown_names(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the summary with every name as it is shown."""
    shown_summary: dict[str, Any] = _shown(summary, is_name=False)
    return shown_summary


def _shown(part: Any, *, is_name: bool) -> Any:
    if isinstance(part, dict):
        return {key: _shown(value, is_name=key in NAMES) for key, value in part.items()}
    if isinstance(part, list):
        return [_shown(value, is_name=is_name) for value in part]
    return shown(part) if is_name and isinstance(part, str) else part


def to_markdown(summary: dict[str, Any]) -> str:
    """Write the verdict, the tables and the notes."""
    summary = shown_names(summary)
    lines = [f"# {_escaped(summary['title'])}", ""]
    lines += [f"{_escaped(sentence)}\n" for sentence in summary["verdict"]]
    lines += [f"> {_escaped(sentence)}\n" for sentence in summary["warnings"]]
    lines += [_table_md(SUMMARY_HEADER, summary_rows(summary)), ""]
    for title, rows in attribute_tables(summary):
        lines += [f"{_escaped(title)}:\n", _table_md(ATTRIBUTE_HEADER, rows), ""]
    for score in summary["scores"]:
        title = f"{score['name']}: cut-off {score['at_threshold']['at']}"
        lines += [f"## {_escaped(title)}", "", _table_md(*group_table(score, summary)), ""]
        if len(summary["scores"]) > 1:
            lines += [f"{_escaped(paragraph)}\n" for paragraph in score["verdict"]]
    lines += [f"**{_escaped(note['title'])}.** {_escaped(note['text'])}\n" for note in summary["notes"]]
    lines.append(f"Made by {summary['made_by']}.")
    return "\n".join(lines) + "\n"


def to_terminal(summary: dict[str, Any]) -> str:
    """Write compact tables, aligned by spaces alone."""
    summary = shown_names(summary)
    weighted = ", weighted" if summary["settings"]["weighted"] else ""
    parts = [summary["title"], f"{summary['rows']:,} rows{weighted}; " + _counts(summary), ""]
    parts += [aligned(SUMMARY_HEADER, summary_rows(summary)), ""]
    for title, rows in attribute_tables(summary):
        parts += [title, aligned(ATTRIBUTE_HEADER, rows), ""]
    for score in summary["scores"]:
        parts += [
            f"{score['name']} at cut-off {score['at_threshold']['at']}",
            aligned(*group_table(score, summary)),
            "",
        ]
    return "\n".join(parts)


def _counts(summary: dict[str, Any]) -> str:
    return "; ".join(f"{each['name']}: {_counts_of(each, summary)}" for each in summary["attributes"])


def _counts_of(attribute: dict[str, Any], summary: dict[str, Any]) -> str:
    """Write the rows of an attribute's groups, or where an ordered one is cut."""
    if attribute["kind"] == "ordered":
        cuts = attribute["cuts"]
        return f"{len(cuts)} {'cut' if len(cuts) == 1 else 'cuts'}, {numerals.listed_cuts(cuts)}"
    cells = [summary["cells"][j] for j in attribute["groups"]]
    prefix = f"{attribute['name']} "  # said already
    shown = [f"{cell['group'].removeprefix(prefix)} {cell['rows']:,}" for cell in cells[:8]]
    more = len(cells) - len(shown)
    return ", ".join(shown) + (f" and {more} more groups" if more > 0 else "")


def attribute_tables(summary: dict[str, Any]) -> list[tuple[str, list[list[str]]]]:
    """Return a title and the rows of each table of attributes: one per score column and rule that has one."""
    return [
        (f"{score['name']}, {parity['words']}, each attribute by itself", attribute_rows(parity))
        for score in summary["scores"]
        for parity in score["parities"]
        if parity["attributes"]
    ]


def summary_rows(summary: dict[str, Any]) -> list[list[str]]:
    """Return one row per score column and rule, every value with its interval."""
    rows = []
    for score in summary["scores"]:
        for parity in score["parities"]:
            floor = parity["noise_floor"]
            rows.append(
                [
                    score["name"],
                    parity["words"],
                    numerals.decimal_interval(parity["max_gap"]),
                    parity["worst"]["at"],
                    f"{floor['mean']:.3f}–{floor['p95']:.3f}",
                    f"{parity['p_value']:.2g}",
                    numerals.bracketed(numerals.score_interval(parity["mean_gap"])),
                    numerals.decimal_interval(parity["rank_gap"]),
                ]
            )
    return rows


def group_table(score: dict[str, Any], summary: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return each group at the cut-off in use: counts, rates, and its AUC."""
    labelled = summary["label"] is not None
    verb = chosen(summary["settings"]["favourable"])
    header = [name.format(chosen=verb) for name in GROUP_HEADER]
    rows = []
    for i, group in enumerate(score["at_threshold"]["groups"]):
        rates = [numerals.decimal(group[name]) for name in RATES]
        area = numerals.decimal_interval(score["auc"]["groups"][i]) if score["auc"] else numerals.UNKNOWN
        name = group["group"] + left_out_mark(group["group"], score)
        rows.append([name, f"{group['selected']:,} of {group['rows']:,}", *rates, area])
    return (header, rows) if labelled else (header[:3], [row[:3] for row in rows])


def aligned(header: Any, rows: list[list[str]]) -> str:
    """Return a table of text: the first columns to the left, numbers to the right."""
    table = [list(header), *rows]
    widths = [max(_width(row[i]) for row in table) for i in range(len(header))]
    left = [not any(ch.isdigit() for ch in row[0][:1]) for row in zip(*rows, strict=True)] if rows else []
    lines = []
    for row in table:
        cells = [
            cell + (width - _width(cell)) * " " if is_left else (width - _width(cell)) * " " + cell
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Return how many letters take space: isolates around a name take none."""
    return len(text) - text.count("\u2068") - text.count("\u2069")


def _table_md(header: Any, rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Return text of which nothing becomes Markdown or HTML: names are user data.

    A backslash before punctuation is shown as the punctuation alone. Lists are escaped where a line may
    begin, addresses where they would become links.
    """
    text = re.sub(r"[\\`*_{}\[\]<>#|~&!$^]", r"\\\g<0>", " ".join(text.split()))
    text = re.sub(r"^([-+=:])|^([0-9]+)([.)])", r"\2\\\1\3", text)
    return re.sub(r"(?<=:)//|(?<=\bwww)\.", r"\\\g<0>", text, flags=re.IGNORECASE)
