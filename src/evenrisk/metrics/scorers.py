"""One number for the gap over all thresholds, in fairlearn's naming, ready for ``make_scorer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenrisk.metrics.profile import threshold_profile

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
        The group of each row; several columns are crossed.
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


def _scorer(statistic: str, parity: str) -> Callable[..., float]:
    attribute = f"{statistic}_gap"

    def difference(
        y_true: Any,
        y_score: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        pos_label: Any = None,
    ) -> float:
        profile = threshold_profile(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            sample_weight=sample_weight,
            pos_label=pos_label,
        )
        return float(getattr(profile, attribute))

    difference.__name__ = difference.__qualname__ = f"{statistic}_{parity}_difference"
    difference.__doc__ = _DOCSTRING.format(
        what=_WHAT[statistic],
        parity=parity.replace("_", " "),
        attribute=attribute,
        or_none=" or None" if parity == "demographic_parity" else "",
    )
    return difference


max_demographic_parity_difference = _scorer("max", "demographic_parity")
max_equalized_odds_difference = _scorer("max", "equalized_odds")
max_equal_opportunity_difference = _scorer("max", "equal_opportunity")
max_predictive_equality_difference = _scorer("max", "predictive_equality")
rank_demographic_parity_difference = _scorer("rank", "demographic_parity")
rank_equalized_odds_difference = _scorer("rank", "equalized_odds")
rank_equal_opportunity_difference = _scorer("rank", "equal_opportunity")
rank_predictive_equality_difference = _scorer("rank", "predictive_equality")
mean_demographic_parity_difference = _scorer("mean", "demographic_parity")
mean_equalized_odds_difference = _scorer("mean", "equalized_odds")
mean_equal_opportunity_difference = _scorer("mean", "equal_opportunity")
mean_predictive_equality_difference = _scorer("mean", "predictive_equality")
