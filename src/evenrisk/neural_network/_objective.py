"""The objective of all rows as a function of θ: torch takes a gradient in the scores to the weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from evenrisk._estimator import TrainingData
from evenrisk._types import Cells
from evenrisk._xp import is_sparse
from evenrisk.losses import LOGISTIC
from evenrisk.neural_network._network import Layers, import_torch, raw_scores, to_tensors, torch_scores
from evenrisk.objective import Penalty, ScoreObjective


class NetworkObjective:
    """F(θ) = mean log loss + alpha/2·Σ‖W‖² + η·E_f, and its gradient, in float64."""

    def __init__(
        self,
        scores: ScoreObjective,
        data: TrainingData,
        sizes: tuple[int, ...],
        activation: str,
        alpha: float,
    ) -> None:
        self.scores, self.data, self.sizes = scores, data, sizes
        self.activation, self.alpha = activation, alpha
        self.mask = Layers.unflat(np.zeros(n_weights(sizes)), sizes).weight_mask()

    def raw_scores(self, theta: np.ndarray) -> np.ndarray:
        """g (n,)."""
        return raw_scores(self.data.X, Layers.unflat(theta, self.sizes), self.activation)

    def value(self, theta: np.ndarray, eta: float) -> float:
        """F(θ)."""
        ridge = self.alpha / 2 * float(self.mask @ theta**2)
        return self.scores.with_eta(eta)(self.raw_scores(theta))[0] + ridge

    def on(self, device: Any) -> _OnDevice:
        """Give the function that a solver minimises, its rows on a device."""
        return _OnDevice(self, device)


class _OnDevice:
    """F and ∂F/∂θ at a given η."""

    def __init__(self, objective: NetworkObjective, device: Any) -> None:
        torch = import_torch()
        self.objective, self.device = objective, device
        X = objective.data.X
        X = X.toarray() if is_sparse(X) else X
        self.X = torch.tensor(X, dtype=torch.float64, device=device)
        self.scores = objective.scores if device.type == "cpu" else _moved(objective.scores, device)
        self.values: list[float] = []

    def at(self, eta: float) -> Any:
        """θ ↦ F(θ), ∂F/∂θ."""
        scores = self.scores.with_eta(eta)
        torch, objective = import_torch(), self.objective
        self.values = []

        def fun(theta: np.ndarray) -> tuple[float, np.ndarray]:
            tensors = to_tensors(Layers.unflat(theta, objective.sizes), torch.float64, self.device)
            g = torch_scores(self.X, tensors, objective.activation)
            raw = g.detach()
            value, slope = scores(raw.numpy() if self.device.type == "cpu" else raw)
            slope = torch.as_tensor(slope, dtype=torch.float64, device=self.device)
            parts = torch.autograd.grad(g, tensors, slope)
            gradient = np.concatenate([part.cpu().numpy().ravel() for part in parts])
            value += objective.alpha / 2 * float(objective.mask @ theta**2)
            self.values.append(value)
            return value, gradient + objective.alpha * objective.mask * theta

        return fun


def n_weights(sizes: tuple[int, ...]) -> int:
    """Length of θ."""
    return sum(a * b + b for a, b in pairwise(sizes))


def score_objective(data: TrainingData, distance: Any) -> ScoreObjective:
    """Mean log loss + η·E_f in the scores, in float64; η is 0 until it is set."""
    weight = data.weight.astype(np.float64)
    cells = None if data.cells is None else data.cells._replace(weight=weight)
    return ScoreObjective(LOGISTIC, data.y, weight, None if cells is None else Penalty(distance, cells))


def _moved(scores: ScoreObjective, device: Any) -> ScoreObjective:
    """The same objective with its arrays on a device."""
    torch = import_torch()

    def move(array: np.ndarray, dtype: Any) -> Any:
        return torch.tensor(np.asarray(array), dtype=dtype, device=device)

    weight = move(scores.weight, torch.float64)
    penalty = None
    if scores.penalty is not None:
        old: Cells = scores.penalty.cells
        cells = Cells(
            code=move(old.code, torch.int64),
            weight=weight,
            n_cells=old.n_cells,
            pairs=move(old.pairs, torch.int64),
            pair_weight=move(old.pair_weight, torch.float64),
        )
        penalty = Penalty(scores.penalty.distance, cells)
    return ScoreObjective(scores.loss, move(scores.y, torch.float64), weight, penalty)
