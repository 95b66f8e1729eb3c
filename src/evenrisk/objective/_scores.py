"""The objective as a function of raw scores g (n,)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evenrisk._types import Array, Cells, Sums
from evenrisk._xp import blocks, namespace, to_numpy
from evenrisk.distances import Distance, cell_weights, penalty


class Penalty:
    """E_f(g) = Σ_pairs pair_weight · d(cell a, cell b), and its gradient in g, block by block."""

    def __init__(self, distance: Distance, cells: Cells) -> None:
        self.distance, self.cells = distance, cells
        self.cell_weights = cell_weights(cells)
        self._latest: tuple[Array, Array] | None = None  # scores, and their sums of ψ

    def value(self, g: Array) -> float:
        """E_f(g)."""
        return float(self._derivative(g)[1])

    def add_gradient(self, g: Array, eta: float, gradient: Array) -> float:
        """Add η·∂E_f/∂g to `gradient` in place, and give η·E_f."""
        shift, value, D = self._derivative(g)
        for block in blocks(g):
            gradient[block] += self.distance.pull(g[block] - shift, self.cells.rows(block), eta * D)
        return eta * float(value)

    def curvature(self, g: Array, rows: Callable[[slice], Array]) -> np.ndarray:
        """JᵀJ (m, m), J = ∂r/∂θ for g = Xθ and all pairs' residuals r, so that E_f = ‖r‖².

        `rows` gives the rows of X in a block.
        """
        shift = self.distance.shift(g, self.cells)
        psi: Array = 0
        slopes: Array = 0
        for block in blocks(g):
            cells = self.cells.rows(block)
            psi = psi + self.distance.psi_sums(g[block] - shift, cells)
            slopes = slopes + self.distance.rows(g[block] - shift, cells, rows(block))
        w = self.cell_weights[0][:, None]
        return self.gram(psi / w, slopes / w[..., None])

    def curvature_of_parts(self, g: Array, part: Array, n_parts: int) -> np.ndarray:
        """JᵀJ (m, m) for g = θ[part]: `curvature` where X is the one-hot form of `part` (n,), 0 … m − 1.

        Each cell is split by part, so that a row costs the same however many parts there are.
        """
        cells = self.cells
        inside = cells.code >= 0
        fine = cells._replace(
            code=namespace(g).where(inside, cells.code * n_parts + part, 0 * part - 1),
            n_cells=cells.n_cells * n_parts,
        )
        shift = self.distance.shift(g, cells)
        slopes: Array = 0
        for block in blocks(g):
            one = 1 + 0 * g[block][:, None]
            slopes = slopes + self.distance.rows(g[block] - shift, fine.rows(block), one)
        w = self.cell_weights[0][:, None]
        by_part = np.swapaxes(slopes.reshape(cells.n_cells, n_parts, -1), 1, 2)  # (c, p, m)
        return self.gram(self._sums(g, shift) / w, by_part / w[..., None])

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

    def _derivative(self, g: Array) -> tuple[Array | float, Array, Array]:
        """Give the shift of the scores, E_f, and its derivative in the sums."""
        shift = self.distance.shift(g, self.cells)
        sums = Sums(self._sums(g, shift), *self.cell_weights)
        return shift, *penalty(self.distance, sums, self.cells)

    def _sums(self, g: Array, shift: Array | float) -> Array:
        """Σ w ψ over each cell (c, p); those of the scores seen last are kept."""
        if self._latest is None or self._latest[0] is not g:
            psi = sum(self.distance.psi_sums(g[block] - shift, self.cells.rows(block)) for block in blocks(g))
            self._latest = g, psi
        return self._latest[1]


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
