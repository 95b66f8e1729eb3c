"""Maps from raw score to calibrated raw score: strictly increasing and the same for everybody.

Conventions
-----------
g (n,) raw scores; y (n,) in {0, 1}; weight (n,), a row of weight 2 counting like two rows, one of weight 0
not at all; t (n,) Platt's targets, the labels moved a little away from 0 and 1. A map takes raw scores to raw
scores: s = sigmoid(map(g)) is the risk, above ½ where map(g) > 0. Being strictly increasing and the same for
everybody it leaves order and ties alone, and with them `max_gap` and `rank_gap`: only thresholds move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import logit

from evenrisk._xp import sigmoid

FLATTEST = 0.01  # least slope per standard deviation of g, used where the ranking is no better than chance
# Held-out log loss of the isotonic map against the line's, mean of 34 penalised fits on COMPAS and Adult:
# 0.0022 less at any blend from 0.01 to 0.2; without the two rows added to each block, 0.0017 more.
BLEND = 0.05  # share of the line in the isotonic map
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of the largest g: a smaller spread is no spread
EXACT = 1e-12  # relative length of the last step, and the largest rise of the loss by rounding
MOST_TIMES = 10  # largest average of weights that count rows, in units of the smallest weight
SINGLE = 1e-6  # relative error of a quotient of weights that were given in single precision
MAX_ITER = 50  # five to ten are usual


@dataclass(frozen=True)
class Line:
    """g ↦ slope·g + intercept, slope > 0."""

    slope: float
    intercept: float

    def __call__(self, g: np.ndarray) -> np.ndarray:
        return self.slope * g + self.intercept

    def fold(self, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        """Return the (w, b) whose scores are the map of those of (w, b)."""
        return self.slope * w, self.slope * b + self.intercept

    def unfold(self, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
        """Undo `fold`."""
        return w / self.slope, (b - self.intercept) / self.slope


IDENTITY = Line(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Steps:
    """Straight pieces through the knots (at, value), both ascending; beyond them the slope is `slope`.

    In floating point it never decreases, and scores further apart than rounding stay apart.
    """

    at: np.ndarray  # (k,) raw scores
    value: np.ndarray  # (k,) calibrated raw scores
    slope: float

    def __call__(self, g: np.ndarray) -> np.ndarray:
        # float64 whatever g is: a float32 result would tie scores that were apart
        g = np.asarray(g, dtype=np.float64)
        slopes = np.concatenate([[self.slope], np.diff(self.value) / np.diff(self.at), [self.slope]])
        piece = np.searchsorted(self.at, g, side="right")
        knot = np.maximum(piece - 1, 0)
        end = np.append(self.value, np.inf)[piece]
        # by rounding, a piece may end slightly above the start of the next one
        return np.minimum(self.value[knot] + slopes[piece] * (g - self.at[knot]), end)


def sigmoid_map(g: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Line:
    """Minimise Σ weight·(log(1 + e^h) − t·h)/Σ weight over h = slope·g + intercept: Platt's scaling.

    The slope is at least 0.01 per standard deviation of g. That bound is active where the scores rank people
    no better than chance: the best line would be flat or falling, but a map must not reverse the ranking.
    Constant scores are mapped to the prevalence, with slope 1.
    """
    g, y, weight = _present(g, y, weight)
    t, share = _targets(y, weight), weight / weight.sum()
    z, center, spread = _standardised(g, share)
    if spread == 0:
        return Line(1.0, float(logit(share @ t)) - center)
    one = np.ones_like(z)
    a, b = _minimum(np.column_stack([z, one]), 0 * z, t, share)
    if a < FLATTEST:
        a = FLATTEST
        (b,) = _minimum(one[:, None], a * z, t, share)
    return Line(float(a / spread), float(b - a * center / spread))


def isotonic_map(g: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Steps:
    """Return straight pieces, in raw scores, between the centres of the blocks of isotonic regression.

    A block with k positives among n rows has level = (k + 1)/(n + 2), so that three rows cannot give a risk
    of 0; the levels are made isotonic again. The knots are value = 0.95·logit(level) + 0.05·line at the
    blocks' mean scores, line being `sigmoid_map`. Isotonic regression itself is flat inside a block and ties
    people whose scores differed, which changes the gaps; here every slope is at least 0.05 times the line's.
    """
    line = sigmoid_map(g, y, weight)
    at, level, size = _blocks(*_present(g, y, weight))
    at, level, _ = _blocks(at, (size * level + 1) / (size + 2), size + 2)
    return Steps(at, (1 - BLEND) * logit(level) + BLEND * line(at), line.slope)


def weight_of_one_row(weight: np.ndarray) -> float:
    """Return how much weight counts as one row, for maps that depend on the number of rows behind a risk.

    Weights that are all whole multiples of the smallest one (1, 2, 3, …), and on average at most ten times as
    large, say how often a row was seen: one row is the smallest weight. Other weights, of surveys or of
    classes, say how many people a row represents. Their unit is arbitrary, so a row counts as one on average.
    In both cases multiplying all weights by a factor changes nothing.

    No rule can do more. If weights of 2 everywhere were the same as every row twice, *and* the same as
    weights of 1, then a thousand rows would count no more than ten.
    """
    present = weight[weight > 0]
    mean, times = float(present.mean(dtype=np.float64)), present.astype(np.float64) / float(present.min())
    off, rounding = np.abs(times - np.round(times)), SINGLE * times
    whole = bool(((off == 0) | ((off <= rounding) & (rounding < 0.01))).all())
    return float(present.min()) if whole and mean <= MOST_TIMES * float(present.min()) else mean


CALIBRATIONS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Line | Steps]] = {
    "sigmoid": sigmoid_map,
    "isotonic": isotonic_map,
}


def _present(g: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of positive weight, in float64."""
    kept = weight > 0
    return g[kept].astype(np.float64), y[kept].astype(np.float64), weight[kept].astype(np.float64)


def _targets(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(N₊ + 1)/(N₊ + 2) for positives and 1/(N₋ + 2) for negatives, N the weight of each: Platt's."""
    positive = float(weight @ y)
    negative = float(weight @ (1 - y))
    return np.where(y == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))


def _standardised(g: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return z = (g − center)/spread, center and spread; z = 0 and a spread of 0 for constant scores."""
    center = float(share @ g)
    spread = float(np.sqrt(share @ (g - center) ** 2))
    if spread <= ROUNDING * np.abs(g).max():
        return np.zeros_like(g), center, 0.0
    return (g - center) / spread, center, spread


def _minimum(Z: np.ndarray, offset: np.ndarray, t: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Minimise Σ share·(log(1 + e^h) − t·h), h = Zβ + offset, over β by Newton's method.

    It is convex, and its minimum finite because no target is 0 or 1. A step that is too long, far from the
    minimum, is halved until the loss does not rise.
    """

    def loss(beta: np.ndarray) -> float:
        h = Z @ beta + offset
        return float(share @ (np.logaddexp(0, h) - t * h))

    beta = np.zeros(Z.shape[1])
    for _ in range(MAX_ITER):
        s = sigmoid(Z @ beta + offset)
        hessian = (Z.T * (share * s * (1 - s))) @ Z
        step = np.linalg.solve(hessian, Z.T @ (share * (s - t)))
        highest = loss(beta) + EXACT
        while loss(beta - step) > highest:
            step /= 2
        beta -= step
        if np.abs(step).max() <= EXACT * (1 + np.abs(beta).max()):
            break
    return beta


def _blocks(g: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean score, level and weight of each block of the isotonic regression of y on g, in order.

    Scores that differ by rounding alone count as one.
    """
    order = np.argsort(g, kind="stable")
    g, y, weight = g[order], y[order], weight[order]
    apart = np.diff(g) > ROUNDING * np.abs(g).max()
    runs = np.flatnonzero(np.append(True, apart))
    total = np.add.reduceat(weight, runs)
    fit = isotonic_regression(np.add.reduceat(weight * y, runs) / total, weights=total)
    rises = np.diff(fit.x[fit.blocks[:-1]]) > ROUNDING  # equal shares of positives may differ by rounding
    first = runs[fit.blocks[:-1]][np.append(True, rises)]
    last = np.append(first[1:], len(g)) - 1
    size = np.add.reduceat(weight, first)
    mean, level = (np.add.reduceat(weight * each, first) / size for each in (g, y))
    # by rounding a mean could leave its block and reach that of its neighbour
    return np.clip(mean, g[first], g[last]), level, size
