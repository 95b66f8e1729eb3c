"""Measure everything a report shows, as one plain dict (its keys are in README.md).

One score column after the other: the profile under every rule with its band, test, intervals and
certificates; AUC and ABROCA; histograms; and what every stop of the page's slider decides. A page shows a few
hundred of the thresholds, and of every curve the maximum is among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk import __version__
from evenrisk._validation import group_name, shown
from evenrisk.metrics import (
    STRATA,
    Decisions,
    Inference,
    Interval,
    NoiseFloor,
    ScoredRows,
    ThresholdProfile,
    count_decisions,
    distribution_of,
    profile_of,
    score_range,
)
from evenrisk.report import words
from evenrisk.report.inputs import AuditData, RuleRows, rates_compared
from evenrisk.report.numerals import round_step, threshold_writer

if TYPE_CHECKING:
    from evenrisk.parity import Stratum

DEFAULT_LIMITS = (0.05, 0.10)
HALF = 0.5
GOOD_PART = 0.2  # of [0, 1]
LARGEST = float(np.finfo(float).max)
ONE_SIDE = 0.01  # share of people; a cut-off with fewer on one side was not meant for this scale
FEW_SCORES = 50  # distinct scores; up to here a score is taken for a scale of so many steps
N_BINS = 40
ROUNDING = 1e-9  # of the range of scores
BUCKETS = 240  # along the threshold and again along the share selected; a plot is some 600 pixels wide
MOST_COUNTS = 80_000  # counts on one page, all groups and columns together
MOST_STEPS = 1000


@dataclass(frozen=True)
class AuditSettings:
    """All that was asked for beside the rules."""

    threshold: float | None
    level: float
    favourable: str
    random_state: int
    limits: tuple[float, ...]
    n_resamples: int
    n_permutations: int


def summarise(
    data: AuditData, rules: Sequence[RuleRows], settings: AuditSettings, warnings: list[str]
) -> dict[str, Any]:
    """Measure every score column."""
    rows = data.rows
    summary: dict[str, Any] = {
        "title": f"Audit of {_listed([shown(name) for name in data.columns])} by {shown(data.group_name)}",
        "made_by": f"evenrisk {__version__}",
        "settings": {
            "level": settings.level,
            "threshold": settings.threshold,
            "favourable": settings.favourable,
            "parities": [each.rule.name for each in rules],
            "comparison": _comparison(data),
            "n_resamples": settings.n_resamples,
            "n_permutations": settings.n_permutations,
            "weighted": rows.weighted,
            "random_state": settings.random_state,
        },
        "rows": len(rows.score),
        "group_name": data.group_name,
        "attributes": data.attributes,
        "groups": list(rows.groups),
        "label": data.label,
        "cells": data.cells,
        "compared": rates_compared(data, rules),
        "warnings": list(warnings),
    }
    n_columns = len(data.columns)
    n_lists = n_columns * len(rows.groups) * (2 if data.label else 1) * (2 if rows.weighted else 1)
    most_steps = int(np.clip(MOST_COUNTS // max(n_lists, 1), 60, MOST_STEPS))
    buckets = int(np.clip(4 * BUCKETS // n_columns, 40, BUCKETS))
    summary["scores"] = [
        _score(name, each, data, rules, settings, summary, most_steps, buckets)
        for name, each in data.columns.items()
    ]
    outside = [score["at_threshold"]["outside"] for score in summary["scores"]]
    summary["warnings"] += [sentence for sentence in outside if sentence is not None]
    summary["verdict"] = _verdict(summary)
    summary["notes"] = words.notes(summary, [each.rule for each in rules])
    return summary


def _comparison(data: AuditData) -> dict[str, Any]:
    """Return who was asked to be compared with whom, and how many rows that takes."""
    asked = asdict(data.comparison) | {"min_rows": data.fewest, "left_out": list(data.comparison.left_out)}
    reference = asked["reference"]
    if reference is not None:
        asked["reference"] = (
            [{"attribute": str(name), "group": group_name(group)} for name, group in reference.items()]
            if isinstance(reference, Mapping)
            else group_name(reference)
        )
    asked["ordered"] = [each["name"] for each in data.attributes if each["kind"] == "ordered"]
    return asked


def _are_soft(rows: ScoredRows) -> bool:
    return rows.compared is not None and rows.compared.share is not None


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _verdict(summary: dict[str, Any]) -> list[str]:
    """Return the paragraphs to begin with: the column's own, or of several a sentence on each."""
    scores = summary["scores"]
    if len(scores) == 1:
        return list(scores[0]["verdict"])
    return [
        f"{shown(score['name'])}: {words.headline(parity, summary)}"
        for score in scores
        for parity in score["parities"]
    ]


def _score(
    name: str,
    rows: ScoredRows,
    data: AuditData,
    rules: Sequence[RuleRows],
    settings: AuditSettings,
    summary: dict[str, Any],
    most_steps: int,
    buckets: int,
) -> dict[str, Any]:
    """Measure one score column."""
    # every part below sorts the rows, which takes no time where they are in order
    rows = rows.take(np.argsort(rows.score, kind="stable"))
    threshold = _start(rows.score, settings.threshold)
    distinct = np.unique(rows.score)
    low, high = _axis(distinct)
    write = threshold_writer([low, high], distinct, settings.threshold)
    measured = [_parity(rows, each, settings, threshold, summary["label"], buckets) for each in rules]
    for parity in measured:
        for worst in [parity["worst"], *(each["worst"] for each in parity["attributes"])]:
            worst["at"] = write(worst["threshold"])
        parity["curve"]["written"] = [write(t) for t in parity["curve"]["thresholds"]]
    always = [threshold, *(parity["worst"]["threshold"] for parity in measured)]
    stops = slider_stops(distinct, low, high, most_steps, always)
    start = int(np.searchsorted(stops, threshold))
    decided = count_decisions(rows, stops)
    ends = write(float(distinct[0])), write(float(distinct[-1]))
    outside = None  # of the scores, a cut-off decides alike for everybody
    asked = float(rows.cut_offs(np.asarray(threshold)))
    if settings.threshold is not None and not distinct[0] <= asked < distinct[-1]:
        verb, below = words.chosen(settings.favourable), bool(asked < distinct[0])
        outside = words.outside(name, write(threshold), ends, verb, below=below)
    return {
        "name": name,
        "range": [low, high],
        "ends": list(ends),
        "distinct": len(distinct),
        "verdict": [words.paragraph(parity, summary) for parity in measured],
        "parities": measured,
        "auc": _auc(rows, data, settings),
        "distributions": _distributions(rows, distinct, low, high, summary["label"]),
        "steps": {
            **_counts(decided, weighted=rows.weighted or _are_soft(rows)),
            "written": [write(t) for t in decided.thresholds.tolist()],
        },
        "start": start,
        "at_threshold": {
            "at": write(threshold),
            "outside": outside,
            **_at_threshold(decided, start, settings.favourable, summary["compared"]),
        },
    }


def _start(score: np.ndarray, threshold: float | None) -> float:
    """Return the threshold asked for; else 0.5 for probabilities, and the median where 0.5 means nothing."""
    if threshold is not None:
        return threshold
    hardly = not ONE_SIDE < float(np.mean(score > HALF)) < 1 - ONE_SIDE
    squeezed = _range(score) != (0.0, 1.0)
    is_probability = score_range(score) == (0.0, 1.0) and not (squeezed and hardly)
    return HALF if is_probability else 2 * float(np.median(score / 2))  # the sum of two scores may overflow


def _range(score: np.ndarray) -> tuple[float, float]:
    """Return [0, 1] where the scores fill a good part of it, else from the lowest to the highest."""
    low, high = score_range(score)
    if np.ptp(score) < GOOD_PART:  # chances of rare events, or squeezed scores
        low, high = float(score.min()), float(score.max())
    if low < high:
        return low, high
    half = max(0.5, 1e-9 * abs(low))  # wide enough for bins that differ
    return max(low - half, -LARGEST), min(high + half, LARGEST)


def _axis(distinct: np.ndarray) -> tuple[float, float]:
    """Return the range, with one step of the scale below the lowest, where it is coarse."""
    low, high = _range(distinct)
    if low == distinct[0] and 1 < len(distinct) <= FEW_SCORES:
        low -= float(np.diff(distinct).min())
    return low, high


def _parity(
    rows: ScoredRows,
    compared: RuleRows,
    settings: AuditSettings,
    threshold: float,
    label: dict[str, str] | None,
    buckets: int,
) -> dict[str, Any]:
    """Measure one score column under one rule, in the groups that it can compare."""
    kept = compared.take(rows)
    profile = profile_of(kept)
    # every part starts from the same seed: asking for one more never changes another
    inference = Inference(profile, settings.level, settings.n_resamples, settings.random_state)
    within = inference.intervals(threshold)
    band = inference.band("bootstrap")
    test = profile.test(settings.n_permutations, settings.random_state)
    return {
        "parity": compared.rule.name,
        "words": compared.rule.words,
        "by_probabilities": _are_soft(kept),
        "left_out": _left_out(rows.under(compared.rule), compared.left_out, threshold),
        "max_gap": _interval(within.max_gap),
        "mean_gap": _interval(within.mean_gap),
        "rank_gap": _interval(within.rank_gap),
        "gap_at_threshold": _interval(within.gap_at),
        "worst": _worst(profile, compared.strata, label),
        "attributes": _attributes(inference, compared.strata, label),
        "noise_floor": {"mean": test.noise_floor.mean, "p95": test.noise_floor.p95},
        "p_value": test.p_value,
        "exact": test.exact,
        "certificates": _certificates(inference, settings.limits, resampled=kept.weighted or _are_soft(kept)),
        "half_widths": [
            {"stratum": stratum, "pair": list(pair), "half_width": float(band.half_width[i, j])}
            for i, stratum in enumerate(profile.parity.strata)
            for j, pair in enumerate(band.pairs)
        ],
        "curve": _curve(inference, compared.strata, test.noise_floor_by_stratum, label, buckets),
    }


def _left_out(rows: ScoredRows, left_out: list[dict[str, Any]], threshold: float) -> list[dict[str, Any]]:
    """Add the rate of every cell at the threshold."""
    out, asked = [], rows.cut_offs(np.asarray(threshold))
    for entry in left_out:
        everybody = rows.of_name(entry["group"])
        mine = [everybody.take(everybody.stratum == i) for i in range(len(entry["cells"]))]
        rates = [
            float(np.average(cell.score > asked, weights=cell.weight)) if len(cell.score) else None
            for cell in mine
        ]
        cells = [cell | {"rate": rate} for cell, rate in zip(entry["cells"], rates, strict=True)]
        out.append(entry | {"cells": cells})
    return out


def _interval(interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {"value": None, "low": None, "high": None}
    return interval._asdict()


def _worst(
    profile: ThresholdProfile, strata: Sequence[Stratum], label: dict[str, str] | None
) -> dict[str, Any]:
    """Return where the max gap is, and between whom."""
    t = profile.worst_threshold
    i = profile.parity.strata.index(profile.worst_stratum)
    rates = profile.rates_at(t)[i]
    high, low = map(profile.groups.index, profile.worst_groups)
    rows = profile.rows_by_group[i]
    at = int(np.searchsorted(profile.thresholds, t))
    return {
        "threshold": t,
        "stratum": profile.worst_stratum,
        "words": strata[i].words(label),
        "higher": profile.groups[high],
        "lower": profile.groups[low],
        "higher_rate": float(rates[high]),
        "lower_rate": float(rates[low]),
        "higher_rows": round(float(rows[high])),
        "lower_rows": round(float(rows[low])),
        "selection_rate": float(profile.selection_rate[at]),
    }


def _attributes(
    inference: Inference, strata: Sequence[Stratum], label: dict[str, str] | None
) -> list[dict[str, Any]]:
    """Return what was found of each attribute by itself, where there are several or one has cuts.

    Intervals are read off the band of all together, so they hold together.
    """
    profile, band = inference.profile, inference.band("bootstrap")
    if len(profile.by_attribute) == 1 and not profile.gap_by_cut:
        return []
    of_pair, out = np.array(profile.attribute_of_pair), []
    for name, alone in profile.by_attribute.items():
        mine = of_pair == name
        gap = profile.gap_by_pair[:, mine]
        low, high = (float(end[:, mine].max()) for end in band.gap_by_pair)
        by_cut = zip(*profile.gap_by_cut.get(name, ((), ())), strict=True)
        out.append(
            {
                "attribute": name,
                "max_gap": _interval(Interval(float(gap.max()), low, high)),
                "worst": _worst(alone, strata, label),
                "cuts": [{"cut": float(cut), "gap": float(largest)} for cut, largest in by_cut],
            }
        )
    return out


def _certificates(inference: Inference, limits: Sequence[float], *, resampled: bool) -> list[dict[str, Any]]:
    """Return what can be said of each limit: by the inequality that assumes nothing, and by resampling."""
    plain = not inference.profile.gap_by_cut and len(inference.profile.by_attribute) == 1
    where = "in every group" if plain else "on each side of every comparison"
    if inference.profile.parity.needs_label:
        where += " and outcome" if plain else " in each outcome"
    made = [
        inference.certificate(limit, method)
        for limit in limits
        for method in (("bootstrap",) if resampled else ("dkw", "bootstrap"))
    ]
    return [
        {
            "limit": each.limit,
            "verdict": each.verdict,
            "rows_needed": each.rows_needed,
            "method": each.method,
            "level": each.level,
            "where": where,
            "words": words.certificate(
                each.verdict, each.limit, each.rows_needed, each.level, each.method, where
            ),
        }
        for each in made
    ]


def _curve(
    inference: Inference,
    strata: Sequence[Stratum],
    floors: Sequence[NoiseFloor],
    label: dict[str, str] | None,
    buckets: int,
) -> dict[str, Any]:
    """Return the gap with its band, thinned."""
    profile = inference.profile
    by_attribute = profile.gap_by_attribute if len(profile.by_attribute) > 1 else {}
    curves = np.vstack([profile.gap_by_stratum, *by_attribute.values()])
    kept = thinned(profile.thresholds, profile.selection_rate, curves, buckets)
    low, high = inference.band("bootstrap").gap_by_stratum
    return {
        "thresholds": profile.thresholds[kept].astype(float).tolist(),
        "selection_rate": profile.selection_rate[kept].tolist(),
        "strata": [
            {
                "name": stratum.name,
                "words": stratum.words(label),
                "gap": profile.gap_by_stratum[i, kept].tolist(),
                "low": low[i, kept].tolist(),
                "high": high[i, kept].tolist(),
                "noise_floor": {"mean": floors[i].mean, "p95": floors[i].p95},
                # the names of our own strata say which rate it is
                **({} if stratum.name in STRATA else {"rate": stratum.rate}),
            }
            for i, stratum in enumerate(strata)
        ],
        "attributes": [{"attribute": name, "gap": gap[kept].tolist()} for name, gap in by_attribute.items()],
    }


def thinned(
    thresholds: np.ndarray, share: np.ndarray, curves: np.ndarray, buckets: int = BUCKETS
) -> np.ndarray:
    """Return which thresholds to draw: in every bucket the last, and the highest of each curve (h, m)."""
    if len(thresholds) <= 2 * buckets:
        return np.arange(len(thresholds))
    kept = [np.array([0])]
    for along in (thresholds, 1 - share):
        span = along[-1] - along[0]
        bucket = np.floor((along - along[0]) / (span or 1.0) * (buckets - 1e-9)).astype(int)
        last = np.flatnonzero(np.diff(bucket, append=-1))
        first = np.concatenate([[0], last[:-1] + 1])
        kept.append(last)
        for curve in curves:
            highest = np.maximum.reduceat(curve, first)
            at = np.flatnonzero(curve == np.repeat(highest, last - first + 1))
            kept.append(at[np.diff(bucket[at], prepend=-1) > 0])  # one per bucket, the first of equals
    return np.unique(np.concatenate(kept))


def _auc(rows: ScoredRows, data: AuditData, settings: AuditSettings) -> dict[str, Any] | None:
    if not rows.has_both_labels:
        return None
    measured = profile_of(rows).discrimination(settings.level, settings.n_resamples, settings.random_state)
    # a ROC curve is made of both outcomes: who has too few of one is listed, and not compared with others
    odds = RuleRows.of(data, "equalized_odds")
    kept = odds.take(rows).contrasts if odds.possible else None
    pairs = set() if kept is None else {(kept.names[a], kept.names[b]) for a, b in kept.pairs.tolist()}
    return {
        "overall": _interval(measured.overall),
        "groups": [{"group": group, **_interval(each)} for group, each in measured.auc.items()],
        "abroca": [
            {"pair": list(pair), **_interval(each)} for pair, each in measured.abroca.items() if pair in pairs
        ],
        "left_out": sorted(odds.names_left_out),
    }


def _distributions(
    rows: ScoredRows, distinct: np.ndarray, low: float, high: float, label: dict[str, str] | None
) -> list[dict[str, Any]]:
    """Return histograms of everybody, then of each outcome."""
    edges, drawn = _bins(distinct, low, high)
    out = []
    for rule in ("demographic_parity", "equalized_odds")[: 2 if label else 1]:
        measured = distribution_of(rows.under(rule), edges)
        density = measured.density * np.diff(edges) / np.diff(drawn)
        out += [
            {"words": stratum.words(label), "edges": drawn.tolist(), "density": density[i].tolist()}
            for i, stratum in enumerate(measured.parity.describe())
        ]
    return out


def _bins(distinct: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return edges to count by, and to draw by.

    On a coarse scale every score has a bar of its own, which ends at the score: a cut-off there, with people
    above it selected, then lies between the bars. Scores that differ by rounding alone are no such scale:
    their bars would have no width to see, and a height beyond all others.
    """
    step = float(np.diff(distinct).min()) if 1 < len(distinct) <= FEW_SCORES else 0.0
    if step > ROUNDING * (distinct[-1] - distinct[0]):
        # a bin begins at its score; next to a large number, a step more may be no other number
        above = max(distinct[-1] + step, np.nextafter(distinct[-1], np.inf))
        below = min(low, distinct[0] - step, np.nextafter(distinct[0], -np.inf))
        return np.append(distinct, above), np.append(below, distinct)
    edges = np.linspace(low, high, N_BINS + 1)
    return edges, edges


def slider_stops(
    thresholds: np.ndarray, low: float, high: float, most: int, always: list[float]
) -> np.ndarray:
    """Return where a slider stops: at all distinct scores if few, else at round numbers and quantiles."""
    if len(thresholds) <= most:
        stops = [thresholds, [low]]
    else:
        quantiles = np.linspace(0, len(thresholds) - 1, most // 2).round().astype(int)
        stops = [round_numbers(low, high, most // 2), thresholds[quantiles]]
    return np.unique(np.concatenate([*stops, always]).astype(float))


def round_numbers(low: float, high: float, most: int) -> np.ndarray:
    """Return at most `most` multiples of 1, 2 or 5 times a power of ten that cover [low, high]."""
    step = round_step((high - low) / max(most - 3, 1))
    count = np.arange(np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9) + 1)
    digits = max(0, int(-np.floor(np.log10(step) + 1e-9)))
    return np.round(count * step, digits)


def _counts(decided: Decisions, *, weighted: bool) -> dict[str, Any]:
    """Return the counts at every stop of the slider; where groups are soft, rows are rounded."""
    names = ["selected", "true_positives"] if decided.true_positives is not None else ["selected"]
    totals = ["rows", "positives"][: len(names)]
    lists = {name: np.round(getattr(decided, name)).astype(int).tolist() for name in [*names, *totals]}
    if weighted:
        names = [f"{name}_weight" for name in names] + ["weight", "positives_weight"][: len(totals)]
        lists |= {name: getattr(decided, name).tolist() for name in names}
    return {"thresholds": decided.thresholds.tolist(), **lists}


def _at_threshold(
    decided: Decisions, start: int, favourable: str, compared: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return rates at a threshold, their gaps, and the impact ratio of the favourable decision."""
    labelled = decided.true_positives is not None
    measured = {
        name: getattr(decided, name)[:, start].tolist() if labelled or name == "selection_rate" else None
        for name in words.RATES
    }
    groups = [
        {
            "group": group,
            "selected": round(float(decided.selected[i, start])),
            "rows": round(float(decided.rows[i])),
            **{name: _plain(values[i]) if values else None for name, values in measured.items()},
        }
        for i, group in enumerate(decided.groups)
    ]
    pairs = {rate: _rates_of_pairs(decided, rate, start, which) for rate, which in compared.items()}
    selected = pairs["selection_rate"]
    good = selected if favourable == "high" else 1 - selected
    some = good[(good > 0).any(axis=1)]
    ratio = some.min(axis=1) / some.max(axis=1)
    return {
        "threshold": float(decided.thresholds[start]),
        "groups": groups,
        "gaps": {rate: _largest(np.abs(both[:, 0] - both[:, 1])) for rate, both in pairs.items()},
        "impact_ratio": float(ratio.min()) if len(ratio) else None,
    }


def _rates_of_pairs(decided: Decisions, rate: str, at: int, compared: dict[str, Any]) -> np.ndarray:
    """Return a rate on both sides of every comparison (q, 2) at one threshold, where both are defined.

    Of groups each compared with every other, that of the highest and the lowest.
    """
    if compared["pairs"] is None:
        known = getattr(decided, rate)[compared["groups"], at]
        known = known[~np.isnan(known)]
        return np.array([[known.max(), known.min()]]) if len(known) > 1 else np.empty((0, 2))
    both = [[_united_rate(decided, rate, at, side) for side in pair] for pair in compared["pairs"]]
    rates = np.array(both, dtype=np.float64).reshape(-1, 2)
    return rates[~np.isnan(rates).any(axis=1)]


def _united_rate(decided: Decisions, rate: str, at: int, groups: list[int]) -> float:
    """Return a rate of several groups together."""
    together: dict[str, Any] = {
        name: None if getattr(decided, name) is None else getattr(decided, name)[groups].sum(axis=0)[None]
        for name in ("weight", "positives_weight", "selected_weight", "true_positives_weight")
    }
    return float(getattr(replace(decided, **together), rate)[0, at])


def _largest(gaps: np.ndarray) -> float | None:
    return float(gaps.max()) if len(gaps) else None


def _plain(value: float) -> float | None:
    """Return None for NaN: JSON has no NaN."""
    return None if np.isnan(value) else value
