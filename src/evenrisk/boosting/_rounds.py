"""Fair boosting, round by round: a library grows a tree, and we solve for the values of its leaves.

A tree is a linear model of its leaves, and takes a Newton step in them. A library sees one number of
curvature per row, and no such diagonal serves the penalty: rows of one group that move together change the
gap far more than each alone, and rows of both groups that move together not at all. So the library finds the
leaves, from gradient and curvature of the loss, and their values come from all leaves at once::

    v = −(diag(Σ ℓ'' + λ) + ν·2η·JᵀJ)⁻¹ Σ gradient          (sums over the rows of each leaf)

with J the derivative of the penalty's residuals in the values, and ν the learning rate. The step is ν·v. With
ν before JᵀJ the stiff directions, those of the penalty, are taken in full and only the others shrunk; a
quadratic penalty falls by at least half of what its slope promises. Should the objective rise nevertheless,
the step is halved until it does not.

`boost` runs the rounds: grow a tree, solve its leaves, measure the evaluation sets, stop in time. What
differs between libraries is behind `Trees`.

Conventions
-----------
F = Σ w ℓ/Σw + η·E_f is the objective. Derivatives are those of Σw·F, which is the scale that libraries'
own settings, such as the least curvature of a leaf, are meant for. leaf (n,) in 0 … m−1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from evenrisk import _kernels
from evenrisk.objective import Penalty, ScoreObjective, sample_rows

HALVINGS = 12
CURVATURE_ROWS = 20_000  # that JᵀJ is taken from: it says how far to go, and the objective decides
LEAST_ROWS_OF_CELL = 500  # among them
RIDGE = 1e-3  # of curvature added to a leaf: rows of which the model is certain leave it none
IDLE_ROUNDS = 5  # rounds in a row without a step that lowers the objective, after which there is none
MEASURES = ("objective", "log_loss", "penalty")


class Descent:
    """Scores of the training rows on their way down the objective."""

    def __init__(self, objective: ScoreObjective, g: np.ndarray, rate: float, ridge: float) -> None:
        assert objective.penalty is not None
        self.objective, self.rate, self.ridge = objective, rate, ridge
        self.at = objective.terms(lambda rows: g[rows])
        self.curve = [self.at.value]
        self.sample, self.penalty = sampled(objective.penalty)  # the rows that JᵀJ is taken from

    def solve(self, leaf: np.ndarray, n_leaves: int) -> np.ndarray:
        """Return ν·v (m,), the step in the leaves' values."""
        slope, loss_curvature, penalty_curvature = self._model(leaf, n_leaves)
        return -self.rate * np.linalg.solve(np.diag(loss_curvature) + self.rate * penalty_curvature, slope)

    def shortened(self, leaf: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the library's own values, shortened where the curvature along them says so."""
        slope, loss_curvature, penalty_curvature = self._model(leaf, len(values))
        along = float(values @ (loss_curvature * values + penalty_curvature @ values))
        return values * min(1.0, max(0.0, -float(slope @ values)) / along) if along > 0 else values

    def _model(self, leaf: np.ndarray, n_leaves: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slope (m,), curvature of the loss (m,) and of the penalty (m, m) in the leaves' values."""
        objective, g, part = self.objective, self.at.g, leaf
        slope, loss_curvature = sums_by_leaf(leaf, self.at.slope, self.at.bend, n_leaves)
        if self.sample is not None:
            g, part = g[self.sample], leaf[self.sample]
        gram = self.penalty.curvature_of_parts(g, part, n_leaves)
        return slope, loss_curvature + self.ridge + RIDGE, 2 * objective.eta * objective.total * gram

    def move(self, leaf: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Move every row by its leaf's value, or a part of it; return the values taken, 0 if none helps."""
        for _ in range(HALVINGS):
            there = self.objective.terms(moved(self.at.g, leaf, values))
            if there.value <= self.at.value:
                self.at = there
                break
            values = 0.5 * values
        else:
            values = 0 * values
        self.curve.append(self.at.value)
        return values


def moved(g: np.ndarray, leaf: np.ndarray, values: np.ndarray) -> Callable[[slice], np.ndarray]:
    """Return the function that computes some rows' scores, moved by the values of their leaves."""
    loops = _kernels.loops(g, leaf)
    if loops is None:
        return lambda rows: g[rows] + values[leaf[rows]]

    def scores(rows: slice) -> np.ndarray:
        out = np.empty(rows.stop - rows.start)
        loops.moved(rows.start, rows.stop, g, leaf, values, out)
        return out

    return scores


def sums_by_leaf(
    leaf: np.ndarray, slope: np.ndarray, bend: np.ndarray, n_leaves: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of slopes and of bends over each leaf (m,), (m,)."""
    loops = _kernels.loops(leaf, slope, bend)
    if loops is None:
        return np.bincount(leaf, slope, n_leaves), np.bincount(leaf, bend, n_leaves)

    def part(rows: slice) -> np.ndarray:
        table = np.zeros((n_leaves, 2))
        loops.add_by_leaf(rows.start, rows.stop, leaf, slope, bend, table)
        return table

    total = np.sum(_kernels.run(part, _kernels.parts(len(leaf), _kernels.SCORES_PART)), axis=0)
    return total[:, 0], total[:, 1]


def sampled(penalty: Penalty) -> tuple[np.ndarray | None, Penalty]:
    """Return rows drawn at random from every cell, and the penalty of these rows alone; None is all."""
    cells = penalty.cells
    if len(cells.code) <= CURVATURE_ROWS:
        return None, penalty
    least = LEAST_ROWS_OF_CELL if cells.unions is None else max(LEAST_ROWS_OF_CELL // cells.n_cells, 10)
    single = cells.code.ndim == 1  # else a row stands for several cells at once

    def kind(rows: Any) -> np.ndarray:
        return cells.code[rows].astype(np.intp) + 1 if single else np.zeros(len(cells.weight[rows]), np.intp)

    index, factor = sample_rows(kind, cells.n_cells + 1, cells.weight, CURVATURE_ROWS, least)
    if single:
        compared = cells.code[index] >= 0
        index, factor = index[compared], factor[compared]
    few = penalty.take(index, factor)
    return (index, few) if (cells.unite(few.cell_weights[0]) > 0).all() else (None, penalty)


class NewTree(NamedTuple):
    """A new tree: the leaf of each training row, and the values of the leaves in its library."""

    leaf: np.ndarray  # (n,) in 0 … m−1
    values: np.ndarray  # (m,) learning rate included; all 0 where they are not used


class Trees(Protocol):
    """What a library does for us: it holds a model and adds trees to it. Each library implements these."""

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> NewTree | None:
        """Add a tree; None where no split is worth it."""

    def write(self, values: np.ndarray) -> None:
        """Set the values of the last tree's leaves."""

    def leaves(self, place: int) -> np.ndarray:
        """Return the leaf of each row of an evaluation set in the last tree; −1 where no training row was."""

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return values as the library keeps them."""

    def finish(self, n_trees: int) -> Any:
        """Return the library's model of the first trees."""


@dataclass
class EvaluationScores:
    """The rows of an evaluation set, and what was measured of them after each round."""

    objective: ScoreObjective
    g: np.ndarray
    results: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def move(self, step: np.ndarray) -> None:
        """Move the scores by the new tree, and measure."""
        self.g = self.g + step
        penalty = 0.0 if self.objective.penalty is None else self.objective.penalty.value(self.g)
        loss = self.objective.with_eta(0.0)(self.g)[0]
        found = {"objective": loss + self.objective.eta * penalty, "log_loss": loss, "penalty": penalty}
        for name, values in self.results.items():
            values.append(found[name])

    @property
    def best(self) -> int:
        """The number of trees with which the objective was lowest."""
        return 1 + int(np.argmin(self.results["objective"]))


@dataclass(frozen=True)
class StoppingRule:
    """When to stop, and how often to print."""

    rounds: int
    patience: int | None  # rounds without a better value of the last evaluation set's objective
    verbose: int


def boost(
    trees: Trees,
    descent: Descent,
    evaluations: list[EvaluationScores],
    stopping: StoppingRule,
    *,
    own_values: bool,
) -> int:
    """Grow trees until the rounds are over or nothing helps any more; return how many to keep.

    With `own_values` the leaves keep their library's values except for a common factor: constraints on them
    stay in force.
    """
    idle = useless = grown = 0
    while grown < stopping.rounds and idle < IDLE_ROUNDS:
        new = trees.grow(descent.at.slope, descent.at.bend)
        if new is None:  # the next draw of rows and columns may have a split
            idle += 1
            continue
        grown += 1
        if own_values:
            step = descent.shortened(new.leaf, new.values)
        else:
            step = descent.solve(new.leaf, len(new.values))
        values = descent.move(new.leaf, trees.rounded(step))
        moved = bool(values.any())
        idle, useless = (0, 0) if moved else (idle + 1, useless + 1)
        trees.write(values)
        for place, evaluation in enumerate(evaluations):
            evaluation.move(np.append(values, 0.0)[trees.leaves(place)])
        if stopping.verbose and grown % stopping.verbose == 0:
            print(_progress_line(grown, descent.at.value, evaluations), file=sys.stderr)
        if stopping.patience and grown - evaluations[-1].best >= stopping.patience:
            break
    return evaluations[-1].best if stopping.patience and grown else grown - useless


def _progress_line(grown: int, value: float, evaluations: list[EvaluationScores]) -> str:
    parts = [f"[{grown}] objective {value:.6f}"]
    parts += [f"valid_{i} {each.results['objective'][-1]:.6f}" for i, each in enumerate(evaluations)]
    return "  ".join(parts)
