"""What a linear model would have scored a training row had it not seen that row, for its calibration.

A map fitted to scores of rows that the model has learned is too sure: with a hundred columns and some
thousand rows calibration made unseen people's log loss worse than none. To leave out row i takes
x_i·slope_i away from the gradient, and one step of Newton answers that::

    g_i + q_i·slope_i / (1 − q_i·ℓ''_i/W),   q_i = x_iᵀH⁻¹x_i

slope_i the objective's derivative in g_i for one row, H its curvature, W the total weight;
ℓ'' is that of one row too.
"""

from __future__ import annotations

import numpy as np

from evenrisk._xp import blocks, to_numpy
from evenrisk.losses import HINGE
from evenrisk.objective import LinearObjective
from evenrisk.solvers import ridged_inverse

MOST_FEATURES = 1000  # H is (d, d), and every row asks for a product with it
MOST_OWN = 0.9  # share of its own score that a row may have: one that is alone in its column has all of it
RIDGE = 1e-10


def unseen_scores(
    objective: LinearObjective, theta: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """Give g (n,) at the minimum θ, each row's without itself; g itself where that is out of reach.

    `rows` (n,) says how many rows each one stands for; None is its weight in the loss. With class weights a
    row has more or less than a unit of the loss.
    """
    scores = objective.scores
    rows = scores.weight if rows is None else rows
    raw = objective.raw_scores(theta)
    g = np.array(to_numpy(raw), dtype=np.float64)
    if scores.loss is HINGE or objective.n_features > MOST_FEATURES:
        return g  # a hinge bends nowhere
    slope = np.asarray(to_numpy(scores(raw)[1]), dtype=np.float64)
    M = ridged_inverse(objective.curvature(theta), RIDGE)
    for block in blocks(g):
        X, people = objective.rows_of(block), np.where(rows[block] > 0, rows[block], 1.0)
        q = ((X @ M) * X).sum(axis=1)
        bend = scores.loss.rows(block).curvature(scores.y[block], g[block])
        own = q * bend * (scores.weight[block] / people) / scores.total
        one = slope[block] / people
        g[block] += q * one / (1 - np.minimum(own, MOST_OWN))
    return g
