"""The objective as a function of raw scores g (n,)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenrisk._types import Array, Cells, Sums
from evenrisk._xp import blocks, namespace, to_numpy
from evenrisk.distances import Distance, cell_weights, penalty

Placed = Any  # what a distance makes of scores


KEPT_ROWS = 2_000_000  # up to which the places of the latest scores are kept, 24 bytes a row


@dataclass
class Latest:
    """What is known of the scores seen last."""

    g: Array
    shift: Array | float
    placed: dict[int, Placed] = field(default_factory=dict)  # by block
    psi: Array | None = None  # (c, p) their sums


class Penalty:
    """E_f(g) = Σ_pairs pair_weight · d(cell a, cell b), and its gradient in g, block by block."""

    def __init__(self, distance: Distance, cells: Cells) -> None:
        self.distance, self.cells = distance, cells
        self.cell_weights = cell_weights(cells)
        self._latest: Latest | None = None

    def value(self, g: Array) -> float:
        """E_f(g)."""
        return float(self._derivative(g)[0])

    def add_gradient(self, g: Array, eta: float, gradient: Array) -> float:
        """Add η·∂E_f/∂g to `gradient` in place, and give η·E_f."""
        value, D = self._derivative(g)
        for block, cells, placed in self._rows(g):
            gradient[block] += self.distance.pull(placed, cells, eta * D)
        return eta * float(value)

    def curvature(self, g: Array, rows: Callable[[slice], Array]) -> np.ndarray:
        """JᵀJ (m, m), J = ∂r/∂θ for g = Xθ and all pairs' residuals r, so that E_f = ‖r‖².

        `rows` gives the rows of X in a block.
        """
        slopes: Array = 0
        for block, cells, placed in self._rows(g):
            slopes = slopes + self.distance.rows(placed, cells, rows(block))
        return self._gram(g, slopes)

    def curvature_of_parts(self, g: Array, part: Array, n_parts: int) -> np.ndarray:
        """JᵀJ (m, m) for g = θ[part]: `curvature` where X is the one-hot form of `part` (n,), 0 … m − 1.

        Each cell is split by part, so that a row costs the same however many parts there are.
        """
        slopes: Array = 0
        n_fine = self.cells.n_cells * n_parts
        for block, cells, placed in self._rows(g):
            fine = namespace(g).where(
                cells.code >= 0, cells.code * n_parts + part[block], 0 * part[block] - 1
            )
            one = 1 + 0 * g[block][:, None]
            slopes = slopes + self.distance.rows(placed, cells._replace(code=fine, n_cells=n_fine), one)
        return self._gram(g, np.swapaxes(slopes.reshape(self.cells.n_cells, n_parts, -1), 1, 2))

    def _gram(self, g: Array, slopes: Array) -> np.ndarray:
        """JᵀJ from the derivatives of the sums (c, p, m)."""
        w = self.cell_weights[0][:, None]
        means = 0 * slopes[..., 0] if self.distance.linear else self._sums(g) / w
        return self.gram(means, slopes / w[..., None])

    def gram(self, means: Array, slopes: Array) -> np.ndarray:
        """JᵀJ from the cells' means of ψ (c, p) and their derivatives in θ (c, p, m)."""
        total = np.zeros((slopes.shape[2], slopes.shape[2]))
        pairs = zip(to_numpy(self.cells.pairs), to_numpy(self.cells.pair_weight), strict=True)
        for (i, j), share in pairs:
            J = to_numpy(self.distance.residual_rows(means[i], means[j], slopes[i], slopes[j]))
            total += share * (J.T @ J)
        return total

    def of_means(self, means: Array) -> tuple[float, Array]:
        """E_f and its derivative in the cells' means of ψ (c, p)."""
        w = self.cell_weights[0][:, None]
        value, D = penalty(self.distance, Sums(means * w, *self.cell_weights), self.cells)
        return float(value), D * w

    def _derivative(self, g: Array) -> tuple[Array, Array]:
        """Give E_f, and its derivative in the sums."""
        return penalty(self.distance, Sums(self._sums(g), *self.cell_weights), self.cells)

    def _sums(self, g: Array) -> Array:
        """Σ w ψ over each cell (c, p)."""
        latest = self._look(g)
        if latest.psi is None:
            latest.psi = sum(self.distance.psi_sums(placed, cells) for _, cells, placed in self._rows(g))
        return latest.psi

    def _rows(self, g: Array) -> Iterator[tuple[slice, Cells, Placed]]:
        """Rows, cells and places of every block; what was placed last is not placed again."""
        latest, few = self._look(g), g.shape[0] <= KEPT_ROWS
        for i, block in enumerate(blocks(g)):
            placed = latest.placed.get(i)
            if placed is None:
                placed = self.distance.placed(g[block] - latest.shift)
            if few:
                latest.placed[i] = placed
            yield block, self.cells.rows(block), placed

    def _look(self, g: Array) -> Latest:
        """What is known of these scores, which nobody changes in place."""
        if self._latest is None or self._latest.g is not g:
            self._latest = Latest(g, self.distance.shift(g, self.cells))
        return self._latest


class ScoreObjective:
    """F(g) = Σ wᵢ ℓ(yᵢ, gᵢ)/Σw + η·E_f(g), and its gradient in g.

    `loss` is any object with ``rows(block)``, ``value_gradient(y, g)`` and ``curvature(y, g)``.
    """

    def __init__(
        self, loss: Any, y: Array, weight: Array, penalty: Penalty | None = None, eta: float = 0.0
    ) -> None:
        self.loss, self.y, self.weight = loss, y, weight
        self.penalty, self.eta = penalty, eta
        self.total = float(weight.sum())

    def with_eta(self, eta: float) -> ScoreObjective:
        """Give the same objective with another η; nothing is copied."""
        return ScoreObjective(self.loss, self.y, self.weight, self.penalty, eta)

    def with_loss(self, loss: Any) -> ScoreObjective:
        """Give the same objective with another loss; nothing is copied."""
        return ScoreObjective(loss, self.y, self.weight, self.penalty, self.eta)

    def __call__(self, g: Array) -> tuple[float, Array]:
        """Give F(g) and ∂F/∂g (n,)."""
        xp = namespace(g)
        gradient = xp.empty_like(g)
        loss = 0.0
        for block in blocks(g):
            value, slope = self.loss.rows(block).value_gradient(self.y[block], g[block])
            weight = self.weight[block]
            loss += float(xp.sum(weight * value, dtype=xp.float64))
            gradient[block] = slope * (weight / self.total)
        value = loss / self.total
        if self.penalty is not None and self.eta > 0:
            value += self.penalty.add_gradient(g, self.eta, gradient)
        return value, gradient
