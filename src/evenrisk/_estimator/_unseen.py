"""Scores of training rows from models that have not seen them: what a calibration is fitted to.

A map fitted to scores of rows that the model was trained on is overconfident. With a hundred columns and
about a thousand rows it made the log loss of unseen people worse than no calibration, and a kernel machine
may memorise its rows.

For a linear model one step of Newton's method approximates the score of every row (`left_out_scores`).
Leaving out row i removes x_i·slope_i from the gradient, and the step is::

    g_i + q_i·slope_i / (1 − q_i·ℓ''_i/W),   q_i = x_iᵀH⁻¹x_i

where slope_i is the objective's derivative in g_i for one row, H its curvature, W the total weight, and ℓ''
the curvature of the loss of one row. Other models are fitted five more times, each time without a fifth of
the rows (`cross_fitted_scores`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from evenrisk._xp import as_array, blocks, to_numpy
from evenrisk.objective import LinearObjective

if TYPE_CHECKING:
    from evenrisk._estimator._contract import TrainingData

MAX_FEATURES = 1000  # H is (d, d), and every row needs a product with it
MAX_LEVERAGE = 0.9  # largest q·ℓ''/W used; a row that is alone in its column has 1
COLLINEAR = 1e-10  # on unit scales: less curvature than this is rounding, and no row leans on it
FOLDS = 5


def left_out_scores(
    objective: LinearObjective, theta: np.ndarray, row_counts: np.ndarray | None = None
) -> np.ndarray:
    """Return g (n,) at the minimum θ, each row's as if left out; g itself for a hinge or many features.

    `row_counts` (n,) says how many original rows each row stands for; None means its weight in the loss. The
    two differ with class weights.
    """
    scores = objective.scores
    counts = to_numpy(scores.weight) if row_counts is None else row_counts
    raw = objective.raw_scores(theta)
    g = np.array(to_numpy(raw), dtype=np.float64)
    if scores.loss.kinked or objective.n_features > MAX_FEATURES:
        return g  # a hinge has no curvature, and many features cost too much
    slope = np.asarray(to_numpy(scores(raw)[1]), dtype=np.float64)
    inverse = _pseudo_inverse(objective.curvature(theta))
    for block in blocks(g):
        X = objective.rows_of(block)
        q = to_numpy(((X @ as_array(inverse, X)) * X).sum(axis=1))
        people = np.where(counts[block] > 0, counts[block], 1.0)
        curvature = scores.loss.rows(block).curvature(to_numpy(scores.y[block]), g[block])
        leverage = q * curvature * (to_numpy(scores.weight[block]) / people) / scores.total
        g[block] += q * (slope[block] / people) / (1 - np.minimum(leverage, MAX_LEVERAGE))
    return g


def _pseudo_inverse(H: np.ndarray) -> np.ndarray:
    """Return H⁻¹ without the directions in which H is 0 except for rounding, such as of collinear columns."""
    root = np.sqrt(np.where(H.diagonal() > 0, H.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(H / np.outer(root, root))
    some = values > COLLINEAR * max(values[-1], 0.0)
    vectors = (vectors / root[:, None])[:, some]
    return np.asarray(vectors / values[some] @ vectors.T)


def cross_fitted_scores(
    data: TrainingData,
    g: np.ndarray,
    fold: np.ndarray,
    refit: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return raw scores (n,), each row's from a model fitted without the rows of its fold (0 … FOLDS − 1).

    `refit(train, test)` fits the rows `train` and returns the scores of the rows `test`, both indices. Rows
    whose fold cannot be left out, because a label or a cell would be empty, keep their scores g.
    """
    out = np.array(g, dtype=np.float64)
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if len(test) and data.is_complete(train):
            out[test] = refit(train, test)
    return out
