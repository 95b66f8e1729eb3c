"""The rounds of a fit: grow a tree, solve its leaves, look at the evaluation sets, stop in time.

What differs between libraries is behind `Trees`; everything here is ours and the same for both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from evenrisk.boosting._rounds import Descent
from evenrisk.objective import ScoreObjective

IDLE = 5  # rounds in a row without a step that lowers the objective, after which there is none
MEASURES = ("objective", "log_loss", "penalty")


class Grown(NamedTuple):
    """A new tree: the leaf of each training row, and the values its library would give the leaves."""

    leaf: np.ndarray  # (n,) in 0 … m−1
    values: np.ndarray  # (m,) learning rate included; all 0 where nobody asks for them


class Trees(Protocol):
    """What a library does for us."""

    def grow(self, gradient: np.ndarray, curvature: np.ndarray) -> Grown | None:
        """Add a tree; None where no split is worth it."""

    def write(self, values: np.ndarray) -> None:
        """Give the leaves of the last tree their values."""

    def leaves(self, place: int) -> np.ndarray:
        """Give the leaf of each row of an evaluation set in the last tree; −1 where no training row was."""

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as the library keeps them."""


@dataclass
class Evaluation:
    """The rows of an evaluation set, and what was measured of them after each round."""

    objective: ScoreObjective
    g: np.ndarray
    results: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})

    def move(self, step: np.ndarray) -> None:
        """Follow the new tree, and measure."""
        self.g = self.g + step
        penalty = self.objective.penalty
        apart = 0.0 if penalty is None else penalty.value(self.g)
        loss = self.objective.with_eta(0.0)(self.g)[0]
        found = {"objective": loss + self.objective.eta * apart, "log_loss": loss, "penalty": apart}
        for name, values in self.results.items():
            values.append(found[name])

    @property
    def best(self) -> int:
        """Trees with which the objective was lowest."""
        return 1 + int(np.argmin(self.results["objective"]))


@dataclass(frozen=True)
class Stopping:
    """When to end."""

    rounds: int
    patience: int | None  # rounds without a better value of the last evaluation set's objective
    verbose: int


def boost(
    trees: Trees, descent: Descent, evaluations: list[Evaluation], stopping: Stopping, *, own_values: bool
) -> int:
    """Grow trees until the rounds are over, nothing helps or the evaluation says stop: give how many to keep.

    With `own_values` the leaves keep their library's values but for a common factor: constraints on them
    stay in force.
    """
    idle = useless = grown = 0
    while grown < stopping.rounds and idle < IDLE:
        gradient, bend = descent.derivatives()
        new = trees.grow(gradient, bend)
        if new is None:  # the next draw of rows and columns may have a split
            idle += 1
            continue
        grown += 1
        if own_values:
            step = descent.scaled(new.leaf, new.values, bend)
        else:
            step = descent.solve(new.leaf, len(new.values), bend)
        values = descent.take(new.leaf, trees.rounded(step))
        moved = bool(values.any())
        idle, useless = (0, 0) if moved else (idle + 1, useless + 1)
        trees.write(values)
        for place, evaluation in enumerate(evaluations):
            evaluation.move(np.append(values, 0.0)[trees.leaves(place)])
        if stopping.verbose and grown % stopping.verbose == 0:
            print(_line(grown, descent.value, evaluations), file=sys.stderr)
        if stopping.patience and grown - evaluations[-1].best >= stopping.patience:
            break
    return evaluations[-1].best if stopping.patience and grown else grown - useless


def _line(grown: int, value: float, evaluations: list[Evaluation]) -> str:
    """One line of progress."""
    parts = [f"[{grown}] objective {value:.6f}"]
    parts += [f"valid_{i} {each.results['objective'][-1]:.6f}" for i, each in enumerate(evaluations)]
    return "  ".join(parts)
