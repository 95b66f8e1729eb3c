"""What a score column's plots and slider show: histograms, and counts at every stop."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk.metrics._inputs import ScoredRows
from evenrisk.metrics.decisions import Decisions
from evenrisk.metrics.distribution import distribution_of
from evenrisk.report import thinning, words

N_BINS = 40
ROUNDING = 1e-9  # of the range of scores


def distributions(
    rows: ScoredRows, distinct: np.ndarray, low: float, high: float, label: dict[str, str] | None
) -> list[dict[str, Any]]:
    """Histograms of everybody, then of each outcome."""
    counted, shown = _bins(distinct, low, high)
    out = []
    rules = ["demographic_parity"]
    if label is not None:
        rules.append("equalized_odds")
    for rule in rules:
        measured = distribution_of(rows.under(rule), counted)
        density = measured.density * np.diff(counted) / np.diff(shown)
        out += [
            {"words": words.among(stratum, label), "edges": shown.tolist(), "density": density[i].tolist()}
            for i, stratum in enumerate(measured.parity.strata)
        ]
    return out


def _bins(distinct: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Edges to count by, and to draw by.

    On a coarse scale every score has a bar of its own, which ends at the score: a cut-off there, with people
    above it selected, then lies between the bars. Scores that differ by rounding alone are no such scale:
    their bars would have no width to see, and a height beyond all others.
    """
    notch = float(np.diff(distinct).min()) if 1 < len(distinct) <= thinning.FEW else 0.0
    if notch > ROUNDING * (distinct[-1] - distinct[0]):
        # a bin begins at its score; next to a large number, a notch more may be no other number
        above = max(distinct[-1] + notch, np.nextafter(distinct[-1], np.inf))
        below = min(low, distinct[0] - notch, np.nextafter(distinct[0], -np.inf))
        return np.append(distinct, above), np.append(below, distinct)
    edges = np.linspace(low, high, N_BINS + 1)
    return edges, edges


def counts(decided: Decisions, *, weighted: bool) -> dict[str, Any]:
    """Counts at every stop of the slider."""
    names = ["selected", "true_positives"] if decided.true_positives is not None else ["selected"]
    totals = ["rows", "positives"][: len(names)]
    if weighted:
        names += [f"{name}_weight" for name in names]
        totals += ["weight", "positives_weight"][: len(totals)]
    lists = {name: getattr(decided, name).tolist() for name in [*names, *totals]}
    return {"thresholds": decided.thresholds.tolist(), **lists}


def at_threshold(decided: Decisions, start: int, favourable: str, compared: list[int]) -> dict[str, Any]:
    """Each group's rates at a threshold; the impact ratio is of the favourable decision, of some groups."""
    labelled = decided.true_positives is not None
    rate = decided.selection_rate[compared, start]
    good = rate if favourable == "high" else 1 - rate
    names = ("selection_rate", "tpr", "fpr", "ppv", "accuracy")
    measured = {
        name: getattr(decided, name)[:, start].tolist() if labelled or name == "selection_rate" else None
        for name in names
    }
    groups = [
        {
            "group": group,
            "selected": int(decided.selected[i, start]),
            "rows": int(decided.rows[i]),
            **{name: _plain(values[i]) if values else None for name, values in measured.items()},
        }
        for i, group in enumerate(decided.groups)
    ]
    ratio = _plain(float(good.min() / good.max())) if good.max() > 0 else None
    return {"threshold": float(decided.thresholds[start]), "groups": groups, "impact_ratio": ratio}


def _plain(value: float) -> float | None:
    """NaN, which JSON has not, is None."""
    return None if np.isnan(value) else value
