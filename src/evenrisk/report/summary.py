"""Measure everything a report shows, as one plain dict (its keys are in README.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenrisk import __version__
from evenrisk._validation import shown
from evenrisk.metrics import ThresholdProfile
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.metrics._results import Band, Interval
from evenrisk.metrics.decisions import count
from evenrisk.metrics.distribution import score_range
from evenrisk.metrics.inference import certify, intervals
from evenrisk.metrics.profile import profile_of
from evenrisk.report import thinning, words
from evenrisk.report.cells import Compared, cells, compared, rates_compared
from evenrisk.report.notes import notes
from evenrisk.report.numerals import threshold_writer
from evenrisk.report.plotted import at_threshold, counts, distributions

DEFAULT_LIMITS = (0.05, 0.10)
HALF = 0.5
GOOD_PART = 0.2  # of [0, 1]
LARGEST = float(np.finfo(float).max)
ONE_SIDE = 0.01  # share of people; a cut-off with fewer on one side was not meant for this scale


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    parities: tuple[Any, ...]  # names or rules
    threshold: float | None  # as it was asked for
    level: float
    favourable: str
    random_state: int
    limits: tuple[float, ...]
    n_resamples: int
    n_permutations: int
    buckets: int = thinning.BUCKETS

    def under(self, parities: tuple[Any, ...], n_columns: int) -> Settings:
        """The same by these rules, for so many score columns."""
        return replace(self, parities=parities, buckets=thinning.buckets(n_columns))


def summarise(
    columns: dict[str, ScoredRows],
    settings: Settings,
    group_name: str,
    label: dict[str, str] | None,
    warnings: list[str],
) -> dict[str, Any]:
    """Measure every score column; all of them hold the same rows in the same groups."""
    rows = next(iter(columns.values()))
    summary: dict[str, Any] = {
        "title": f"Audit of {_listed([shown(name) for name in columns])} by {shown(group_name)}",
        "made_by": f"evenrisk {__version__}",
        "settings": {
            "level": settings.level,
            "threshold": settings.threshold,
            "favourable": settings.favourable,
            "parities": [rows.rule(parity).name for parity in settings.parities],
            "n_resamples": settings.n_resamples,
            "n_permutations": settings.n_permutations,
            "weighted": rows.weighted,
            "random_state": settings.random_state,
        },
        "rows": len(rows.score),
        "group_name": group_name,
        "groups": list(rows.groups),
        "label": label,
        "cells": cells(rows),
        "compared": rates_compared(rows, settings.parities),
        "warnings": list(warnings),
    }
    n_lists = len(columns) * len(rows.groups) * (2 if label else 1) * (2 if rows.weighted else 1)
    most = thinning.most_steps(n_lists)
    summary["scores"] = [_score(name, each, settings, summary, most) for name, each in columns.items()]
    outside = [score["at_threshold"]["outside"] for score in summary["scores"]]
    summary["warnings"] += [sentence for sentence in outside if sentence is not None]
    summary["verdict"] = _verdict(summary)
    summary["notes"] = notes(summary)
    return summary


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _score(
    name: str, rows: ScoredRows, settings: Settings, summary: dict[str, Any], most: int
) -> dict[str, Any]:
    """Measure one score column."""
    # every part below sorts the rows, which takes no time where they are in order
    rows = rows.take(np.argsort(rows.score, kind="stable"))
    threshold = _start(rows.score, settings.threshold)
    distinct = np.unique(rows.score)
    low, high = _axis(distinct)
    write = threshold_writer([low, high], distinct, settings.threshold)
    measured = [
        _parity(rows, compared(rows, parity), settings, threshold, summary) for parity in settings.parities
    ]
    for parity in measured:
        parity["worst"]["at"] = write(parity["worst"]["threshold"])
        parity["curve"]["written"] = [write(t) for t in parity["curve"]["thresholds"]]
    always = [threshold, *(parity["worst"]["threshold"] for parity in measured)]
    stops = thinning.steps(distinct, low, high, most, always)
    start = int(np.searchsorted(stops, threshold))
    decided = count(rows, stops)
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
        "auc": _auc(rows, settings),
        "distributions": distributions(rows, distinct, low, high, summary["label"]),
        "steps": {
            **counts(decided, weighted=rows.weighted),
            "written": [write(t) for t in decided.thresholds.tolist()],
        },
        "start": start,
        "at_threshold": {
            "at": write(threshold),
            "outside": outside,
            **at_threshold(decided, start, settings.favourable, summary["compared"]["selection_rate"]),
        },
    }


def _start(score: np.ndarray, threshold: float | None) -> float:
    """The threshold asked for; else 0.5 for probabilities, and the median where 0.5 means nothing."""
    if threshold is not None:
        return threshold
    hardly = not ONE_SIDE < float(np.mean(score > HALF)) < 1 - ONE_SIDE
    squeezed = _range(score) != (0.0, 1.0)
    is_probability = score_range(score) == (0.0, 1.0) and not (squeezed and hardly)
    return HALF if is_probability else 2 * float(np.median(score / 2))  # the sum of two scores may overflow


def _range(score: np.ndarray) -> tuple[float, float]:
    """[0, 1] where the scores fill a good part of it, else from the lowest to the highest."""
    low, high = score_range(score)
    if np.ptp(score) < GOOD_PART:  # chances of rare events, or squeezed scores
        low, high = float(score.min()), float(score.max())
    if low < high:
        return low, high
    half = max(0.5, 1e-9 * abs(low))  # wide enough for bins that differ
    return max(low - half, -LARGEST), min(high + half, LARGEST)


def _axis(distinct: np.ndarray) -> tuple[float, float]:
    """The range, with one notch below the lowest of a coarse scale."""
    low, high = _range(distinct)
    if low == distinct[0] and 1 < len(distinct) <= thinning.FEW:
        low -= float(np.diff(distinct).min())
    return low, high


def _parity(
    rows: ScoredRows, kept: Compared, settings: Settings, threshold: float, summary: dict[str, Any]
) -> dict[str, Any]:
    """Measure one score column under one rule, in the groups that it can compare."""
    profile = profile_of(kept.rows)
    # every part starts from the same seed: asking for one more never changes another
    seed = settings.random_state
    band = profile.band(settings.level, "bootstrap", settings.n_resamples, seed)
    test = profile.test(settings.n_permutations, seed)
    within = intervals(profile, band, threshold, settings.n_resamples, seed)
    name = profile.parity.name
    return {
        "parity": name,
        "words": words.rule(name),
        "left_out": _left_out(rows.under(profile.parity), kept.left_out, threshold),
        "max_gap": _interval(within.max_gap),
        "mean_gap": _interval(within.mean_gap),
        "rank_gap": _interval(within.rank_gap),
        "gap_at_threshold": None if within.gap_at is None else _interval(within.gap_at),
        "worst": _worst(profile, summary["label"]),
        "noise_floor": {"mean": test.noise_floor.mean, "p95": test.noise_floor.p95},
        "p_value": test.p_value,
        "exact": test.exact,
        "certificates": _certificates(profile, band, settings),
        "half_widths": [
            {"stratum": stratum, "pair": list(pair), "half_width": float(band.half_width[i, j])}
            for i, stratum in enumerate(profile.parity.strata)
            for j, pair in enumerate(band.pairs)
        ],
        "curve": _curve(profile, band, test.noise_floor_by_stratum, summary["label"], settings.buckets),
    }


def _left_out(rows: ScoredRows, left_out: list[dict[str, Any]], threshold: float) -> list[dict[str, Any]]:
    """Add the rate of every cell at the threshold."""
    out, asked = [], rows.cut_offs(np.asarray(threshold))
    for entry in left_out:
        first = rows.groups.index(entry["group"])
        mine = [rows.take(rows.code == first + i * len(rows.groups)) for i in range(len(entry["cells"]))]
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


def _worst(profile: ThresholdProfile, label: dict[str, str] | None) -> dict[str, Any]:
    """Where the max gap is, and between whom."""
    t = profile.worst_threshold
    i = profile.parity.strata.index(profile.worst_stratum)
    rates = profile.rates_at(t)[i]
    high, low = int(rates.argmax()), int(rates.argmin())
    at = int(np.searchsorted(profile.thresholds, t))
    return {
        "threshold": t,
        "stratum": profile.worst_stratum,
        "words": words.among(profile.worst_stratum, label),
        "higher": profile.groups[high],
        "lower": profile.groups[low],
        "higher_rate": float(rates[high]),
        "lower_rate": float(rates[low]),
        "selection_rate": float(profile.selection_rate[at]),
    }


def _certificates(profile: ThresholdProfile, band: Band, settings: Settings) -> list[dict[str, Any]]:
    """What can be said of each limit, by the inequality that assumes nothing first."""
    bands = [band]
    if not profile._rows.weighted:
        bands.insert(0, profile.band(settings.level, "dkw"))
    where = "in every group" + (" and outcome" if profile.parity.needs_label else "")
    out = []
    for limit in settings.limits:
        for each in bands:
            made = certify(profile, limit, each)
            said = words.certificate(made.verdict, limit, made.rows_needed, made.level, made.method, where)
            out.append(
                {
                    "limit": limit,
                    "verdict": made.verdict,
                    "rows_needed": made.rows_needed,
                    "method": made.method,
                    "level": made.level,
                    "where": where,
                    "words": said,
                }
            )
    return out


def _curve(
    profile: ThresholdProfile, band: Band, floors: Any, label: dict[str, str] | None, buckets: int
) -> dict[str, Any]:
    """The gap with its band, thinned."""
    kept = thinning.thinned(profile.thresholds, profile.selection_rate, profile.gap_by_stratum, buckets)
    low, high = band.gap_by_stratum
    strata = [
        {
            "name": stratum,
            "words": words.among(stratum, label),
            "gap": profile.gap_by_stratum[i, kept].tolist(),
            "low": low[i, kept].tolist(),
            "high": high[i, kept].tolist(),
            "noise_floor": {"mean": floors[i].mean, "p95": floors[i].p95},
        }
        for i, stratum in enumerate(profile.parity.strata)
    ]
    return {
        "thresholds": profile.thresholds[kept].astype(float).tolist(),
        "selection_rate": profile.selection_rate[kept].tolist(),
        "strata": strata,
    }


def _auc(rows: ScoredRows, settings: Settings) -> dict[str, Any] | None:
    if rows.label is None or rows.label.min() == rows.label.max():
        return None
    measured = profile_of(rows).discrimination(settings.level, settings.n_resamples, settings.random_state)
    # a ROC curve is made of both outcomes: who has too few of one is listed, and not held against others
    few = {entry["group"] for entry in compared(rows, "equalized_odds").left_out}
    return {
        "overall": _interval(measured.overall),
        "groups": [{"group": group, **_interval(each)} for group, each in measured.auc.items()],
        "abroca": [
            {"pair": list(pair), **_interval(each)}
            for pair, each in measured.abroca.items()
            if not few.intersection(pair)
        ],
        "left_out": sorted(few),
    }


def _verdict(summary: dict[str, Any]) -> list[str]:
    """The paragraphs to begin with: the column's own, or a sentence on each where there are several."""
    scores = summary["scores"]
    if len(scores) == 1:
        return list(scores[0]["verdict"])
    return [
        f"{shown(score['name'])}: {words.headline(parity, summary)}"
        for score in scores
        for parity in score["parities"]
    ]
