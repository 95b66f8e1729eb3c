"""One number for the gap over all thresholds, in fairlearn's naming, ready for ``make_scorer``.

`evenrisk.metrics` has a function for every statistic and every rule in `PARITIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenrisk._validation import Comparison
from evenrisk.metrics.profile import threshold_profile
from evenrisk.parity import PARITIES, Parity

_WHAT = {
    "max": "Largest gap over all thresholds, in the worst stratum",
    "rank": "Average gap over the people's own scores as thresholds",
    "mean": "∫ gap dt over all thresholds, in units of the score",
}

_DOCSTRING = """{what}, under {parity}.

    The `{attribute}` of :func:`threshold_profile`; 0 is parity at every threshold.

    Parameters
    ----------
    y_true : array-like of shape (n,){or_none}
        Two labels of any kind.
    y_score : array-like of shape (n,)
        Scores, any finite numbers.
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row, in one column or several.
    comparison : str or Comparison, default="crossed"
        Which groups are compared, as in :func:`threshold_profile`.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    pos_label : label, default=None
        The positive label, which a high score means, as in :func:`threshold_profile`; ``make_scorer`` passes
        it on, and scores by the probability of that label.

    Returns
    -------
    float
        The gap.
    """


def _scorer(statistic: str, parity: Parity) -> Callable[..., float]:
    """Return the scorer of a statistic under a rule."""
    attribute = f"{statistic}_gap"

    def difference(
        y_true: Any,
        y_score: Any,
        *,
        sensitive_features: Any,
        comparison: str | Comparison = "crossed",
        sample_weight: Any = None,
        pos_label: Any = None,
    ) -> float:
        profile = threshold_profile(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            comparison=comparison,
            sample_weight=sample_weight,
            pos_label=pos_label,
        )
        return float(getattr(profile, attribute))

    difference.__name__ = difference.__qualname__ = f"{statistic}_{parity.name}_difference"
    difference.__module__ = "evenrisk.metrics"  # where it is public, and where pickle looks for it
    difference.__doc__ = _DOCSTRING.format(
        what=_WHAT[statistic],
        parity=parity.words,
        attribute=attribute,
        or_none="" if parity.needs_label else " or None",
    )
    return difference


SCORERS = {
    scorer.__name__: scorer
    for scorer in (_scorer(what, rule) for what in _WHAT for rule in PARITIES.values())
}
globals().update(SCORERS)  # where pickles made by earlier versions look for them
