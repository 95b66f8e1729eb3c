"""How the report measures, and what cannot be concluded from it."""

from __future__ import annotations

from typing import Any

from evenrisk._validation import shown
from evenrisk.report.words import percent

GAP = """A person is {above} if the score is above the cut-off. The gap is the largest minus the
smallest share of people so decided, over the groups; it was measured at every score that occurs, so
no cut-off is missed. The worst gap does not change when scores are rescaled; the mean gap is in
units of the score; the rank gap is the average over people's own scores as cut-offs."""
ODDS = """The gap is measured among people of each outcome apart: among those with {name} =
{positive} it is the gap in true-positive rates, among those with {name} = {negative} in
false-positive rates. The worst gap is that of the worse outcome; the gap at one cut-off, the mean gap and
the rank gap are averages of the two."""
BAND = """Rows were resampled {n_resamples:,} times within every group{within}. The shaded band
holds the true curve at all cut-offs at once with a probability of about {level}; the interval of
the worst gap is read off it. The interval comes from a band that covers all
cut-offs and is cautious; the test can find a gap where the interval still contains 0. A group of fewer
than 30 rows is resampled from all distinct scores with equal probability, because its own rows say too
little. Each other interval holds on its own, not all of them together."""
CHANCE = """The groups were permuted {n_permutations:,} times{within}: the grey strip runs from the
mean to the 95 % point of the worst gap of a score that has nothing to do with the groups.{inexact}"""
INEXACT = """ This holds approximately where weights vary within a group, and above 100,000 rows,
where the permutations are drawn from their normal limit."""
CERTIFICATE = """A limit is certified or exceeded by the inequality of Dvoretzky, Kiefer, Wolfowitz
and Massart, which holds at any sample size and for any score."""
CERTIFICATE_WEIGHTED = """Rows have weights: limits are judged by resampling, which holds
approximately."""
CONCLUDED = """The rows are taken for independent draws of the people that the score is meant for;
nothing is said of other people. A gap is not its cause: where outcomes differ between groups, a
score that predicts them well shows a gap. A small gap is no proof of fairness either: it says
nothing of how outcomes were recorded, of people within a group, or of what the decision does to
them. Of many scores, groups and rules, some will show a large gap by chance."""


def notes(summary: dict[str, Any]) -> list[dict[str, str]]:
    """Choose the notes that apply."""
    settings, label = summary["settings"], summary["label"]
    low = "flagged (a low score is the favourable one)"
    words = {
        **settings,
        **{key: shown(name) for key, name in (label or {}).items()},
        "level": percent(settings["level"]),
        "above": "selected" if settings["favourable"] == "high" else low,
        "inexact": "" if _exact(summary) else INEXACT,
        "within": ", and within each outcome where the rule looks at it" if label else "",
    }
    texts = {"The gap": GAP}
    if "equalized_odds" in settings["parities"]:
        texts["Equalized odds"] = ODDS
    texts |= {
        "The band": BAND,
        "Chance": CHANCE,
        "Certificates": CERTIFICATE_WEIGHTED if settings["weighted"] else CERTIFICATE,
        "What cannot be concluded": CONCLUDED,
    }
    return [{"title": title, "text": _filled(text, words)} for title, text in texts.items()]


def _exact(summary: dict[str, Any]) -> bool:
    return all(parity["exact"] for score in summary["scores"] for parity in score["parities"])


def _filled(text: str, words: dict[str, Any]) -> str:
    return " ".join(text.split()).format(**words)
