"""What is said loudly after a fit in which the penalty has won."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk._estimator._data import TrainingData
from evenrisk._validation import CollapseWarning, MajorityRateWarning, ReversedRankingWarning, tell
from evenrisk._xp import sigmoid
from evenrisk.curves import auc

COLLAPSED = 0.01  # sd of the risk scores: all people within about one or two points
AUC_ROWS = 100_000  # the check for a reversed ranking looks at no more rows than this


def diagnose(g: np.ndarray, calibrated: np.ndarray, data: TrainingData, eta: float, plain: str = "") -> None:
    """Say loudly when the penalty has won: collapse, worse than a constant, reversed ranking.

    Calibration stretches collapsed scores and cannot tell more from them, so that is asked of g; where 0.5
    lies is asked of the calibrated scores. `plain` says why, where it is not the penalty that squeezes them.
    """
    y, weight = data.y, data.weight
    sd = spread(g, weight)
    if data.X.shape[1] == 0:
        tell(
            "all risk scores are the same: no column of X varies, so that nobody can be told apart",
            CollapseWarning,
        )
    elif sd < COLLAPSED:
        tell_of_collapse(sd, plain or f": a gap at 0.5 then says little. Lower eta (now {eta})")
    accuracy = float(np.average((calibrated > 0) == y, weights=weight))
    positive = float(np.average(y, weights=weight))
    if accuracy < max(positive, 1 - positive) - 1e-12:
        tell(
            f"training accuracy {accuracy:.3f} is under the majority rate "
            f"{max(positive, 1 - positive):.3f}: at 0.5 a constant answer does better. Lower eta (now "
            f"{eta}) or move the threshold",
            MajorityRateWarning,
        )
    some: Any = slice(None)
    if len(g) > AUC_ROWS:  # at random: a stride could meet one label only
        some = np.random.default_rng(0).integers(0, len(g), AUC_ROWS)
    area = auc(g[some], y[some], weight[some])
    if area < 0.5:
        tell(
            f"training AUC {area:.3f} is under 0.5: the scores rank people worse than chance. Lower eta "
            f"(now {eta})",
            ReversedRankingWarning,
        )


def tell_of_collapse(sd: float, why: str) -> None:
    """Say loudly that the scores are nearly the same, and why."""
    tell(
        f"all risk scores are squeezed together (standard deviation {sd:.1e}){why}",
        CollapseWarning,
    )


def without_penalty(class_weight: Any, *, constant: bool) -> str:
    """Say why scores are squeezed together at η = 0 already; `constant`: the hinge has one score for all."""
    why = "the hinge loss alone is least at a constant score" if constant else "all risks are alike"
    remedies = ["loss='squared_hinge'"] if constant else []
    remedies += [] if isinstance(class_weight, str) else ["class_weight='balanced'"]
    advice = f". Set {' or '.join(remedies)}" if remedies else ""
    return f", at eta=0 too: where one label is rare, alpha large or X says little, {why}{advice}"


def spread(g: np.ndarray, weight: np.ndarray) -> float:
    """Return the weighted standard deviation of s = sigmoid(g)."""
    s = sigmoid(g)
    mean = np.average(s, weights=weight)
    return float(np.sqrt(np.average((s - mean) ** 2, weights=weight)))
