"""The way to the wanted η: all rows at once by L-BFGS, or mini-batches by Adam.

Conventions
-----------
Points come in order of η, each from where the last one ended. `started` says that the first θ is a fitted
network already, and not one that was drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk.neural_network._batches import Rows
from evenrisk.neural_network._network import Layers
from evenrisk.neural_network._objective import NetworkObjective
from evenrisk.neural_network._training import Settings, Trainer
from evenrisk.solvers import Solution, ladder, lbfgs

ON_THE_WAY = 20  # iterations of L-BFGS at points that nobody asked for: enough to stay in the basin
LATER = 1 / 3  # of the epochs: what a point of a path needs that begins at its neighbour


@dataclass(frozen=True)
class Reached:
    """A point of the path: η, its solution, the iterations or epochs spent since the point before."""

    eta: float
    solution: Solution
    n_iter: int
    curve: list[float]
    best: float | None = None
    plain: np.ndarray | None = None  # not kept: a network has no one fit at η = 0


def by_lbfgs(
    objective: NetworkObjective,
    theta: np.ndarray,
    etas: list[float],
    *,
    started: bool,
    tol: float,
    max_iter: int,
    device: Any,
    verbose: int,
) -> Iterator[Reached]:
    """Minimise at each η, walking up from the unpenalised fit: all distances are blind where scores tie."""
    function = objective.on(device)
    wanted = set(etas)
    steps = wanted if started else wanted | {0.0} | set(ladder(max(wanted)))
    n_iter = 0
    for eta in sorted(steps):
        if verbose:
            print(f"eta {eta:g}", file=sys.stderr)
        most = max_iter if eta in wanted or eta == 0 else min(ON_THE_WAY, max_iter)
        solution = lbfgs(function.at(eta), theta, tol=tol, max_iter=most, verbose=verbose)
        theta, n_iter = solution.theta, n_iter + solution.n_iter
        if eta in wanted:
            yield Reached(eta, solution, n_iter, function.values)
            n_iter = 0


def by_adam(
    objective: NetworkObjective,
    theta: np.ndarray,
    etas: list[float],
    *,
    started: bool,
    settings: Settings,
    rows: Rows,
    parity_loss: Any,
    held_out: Callable[[Layers, float], float] | None,
) -> Iterator[Reached]:
    """Train at each η; the first one with its penalty eased in, unless it is 0 or the network is trained."""
    layers = Layers.unflat(theta, objective.sizes)
    for eta in sorted(set(etas)):
        trainer = Trainer(layers, parity_loss, settings, rows.device, rows.dtype)
        trained = trainer.train(rows, eta, ramp=not started, held_out=held_out)
        ended = len(trained.curve) < settings.n_epochs
        if not started:
            settings = settings.shorter(LATER)
        layers, started = trained.layers, True
        theta = layers.flat()
        n_iter = len(trained.curve)
        solution = Solution(theta, objective.value(theta, eta), np.nan, n_iter, ended)
        yield Reached(eta, solution, n_iter, trained.curve, trained.best)
