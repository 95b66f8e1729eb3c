"""One round of fair boosting: a tree is a linear model of its leaves, and takes a Newton step in them.

A tree's library sees one number of curvature per row, and no such diagonal serves the penalty: rows of one
group that move together change the gap far more than each alone, and rows of both groups that move together
not at all. So the library finds the leaves, from gradient and curvature of the loss, and their values come
from all leaves at once::

    v = −(diag(Σ ℓ'' + λ) + ν·2η·JᵀJ)⁻¹ Σ gradient          (sums over the rows of each leaf)

with J the derivative of the penalty's residuals in the values, and ν the learning rate. The step is ν·v. With
ν before JᵀJ the stiff directions, those of the penalty, are taken in full and only the others shrunk; a
quadratic penalty falls by at least half of what its slope promises. Should the objective rise nevertheless,
the step is halved until it does not.

Conventions
-----------
F = Σ w ℓ/Σw + η·E_f is the objective. Derivatives are those of Σw·F, which is the scale that libraries'
own settings, such as the least curvature of a leaf, are meant for. leaf (n,) in 0 … m−1.
"""

from __future__ import annotations

import numpy as np

from evenrisk.objective import Penalty, ScoreObjective

HALVINGS = 12
CURVATURE_ROWS = 16_384  # that JᵀJ is taken from: it says how far to go, and the objective has the last word
LEAST_ROWS = 500  # of each cell among them
RIDGE = 1e-3  # of curvature added to a leaf: rows of which the model is certain leave it none


class Descent:
    """Scores of the training rows on their way down the objective."""

    def __init__(self, objective: ScoreObjective, g: np.ndarray, rate: float, ridge: float) -> None:
        assert objective.penalty is not None
        self.objective, self.g, self.rate, self.ridge = objective, g, rate, ridge
        self.value, self.gradient = objective(g)
        self.curve = [self.value]
        self.some, self.penalty = sampled(objective.penalty)

    def derivatives(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient of Σw·F and curvature of Σ w ℓ in the scores (n,), (n,)."""
        scores = self.objective
        bend = scores.loss.curvature(scores.y, self.g)
        return self.gradient * scores.total, scores.weight * bend

    def solve(self, leaf: np.ndarray, n_leaves: int, bend: np.ndarray) -> np.ndarray:
        """Give ν·v (m,), the step in the leaves' values."""
        slope, bends, stiff = self._model(leaf, n_leaves, bend)
        return -self.rate * np.linalg.solve(np.diag(bends) + self.rate * stiff, slope)

    def scaled(self, leaf: np.ndarray, values: np.ndarray, bend: np.ndarray) -> np.ndarray:
        """Give the library's own values, or what part of them the curvature along them says."""
        slope, bends, stiff = self._model(leaf, len(values), bend)
        along = float(values @ (bends * values + stiff @ values))
        return values * min(1.0, max(0.0, -float(slope @ values)) / along) if along > 0 else values

    def _model(
        self, leaf: np.ndarray, n_leaves: int, bend: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slope (m,), curvature of the loss (m,) and of the penalty (m, m) in the leaves' values."""
        scores = self.objective
        slope = np.bincount(leaf, weights=self.gradient, minlength=n_leaves) * scores.total
        bends = np.bincount(leaf, weights=bend, minlength=n_leaves) + self.ridge + RIDGE
        g, part = (self.g, leaf) if self.some is None else (self.g[self.some], leaf[self.some])
        gram = self.penalty.curvature_of_parts(g, part, n_leaves)
        return slope, bends, 2 * scores.eta * scores.total * gram

    def take(self, leaf: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Move every row by its leaf's value, or a part of it: give the values taken, 0 where none helps."""
        for _ in range(HALVINGS):
            g = self.g + values[leaf]
            value, gradient = self.objective(g)
            if value <= self.value:
                self.g, self.value, self.gradient = g, value, gradient
                break
            values = 0.5 * values
        else:
            values = 0 * values
        self.curve.append(self.value)
        return values


def sampled(penalty: Penalty) -> tuple[np.ndarray | None, Penalty]:
    """Give rows at random, each cell's share of them, and the penalty of these rows alone; None is all."""
    cells = penalty.cells
    n = len(cells.code)
    if n <= CURVATURE_ROWS:
        return None, penalty
    order = np.random.default_rng(0).permutation(n)
    some, weight = [], []
    for cell in range(cells.n_cells):
        rows = order[cells.code[order] == cell]
        rows = rows[: max(LEAST_ROWS, round(len(rows) * CURVATURE_ROWS / n))]
        some.append(rows)
        weight.append(cells.weight[rows] * (penalty.cell_weights[0][cell] / cells.weight[rows].sum()))
    index = np.concatenate(some)
    fewer = cells._replace(code=cells.code[index], weight=np.concatenate(weight))
    return index, Penalty(penalty.distance, fewer)
