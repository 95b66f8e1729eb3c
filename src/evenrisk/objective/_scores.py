"""The objective as a function of raw scores g (n,), in two rounds over the rows.

The derivative of the penalty needs the sums of *all* rows, so an evaluation reads the rows twice:

* round 1 adds sums over rows: the loss, and Σ w ψ(g) of every cell;
* between the rounds the sums, which are tiny, become the value and the derivative D of E_f in the sums;
* round 2 adds over rows again, now that D is known: the gradient, or the curvature.

Sums add over any parts of the rows. Whoever holds the rows (NumPy in blocks that stay in cache, a GPU tensor,
the partitions of a cluster) runs both rounds on its own rows and passes sums on. The docstrings below say
which round a method belongs to. Nothing here depends on NumPy: results are arrays of the input's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evenrisk._xp import Array, Cells, Sums, blocks, namespace, swap_last_axes, to_numpy
from evenrisk.distances import Distance, cell_weights, penalty

KEPT_ROWS = 2_000_000  # up to which `Distance.prepare` is kept for round 2, 24 bytes a row


class RowLoss(Protocol):
    """ℓ(y, g) row by row, as in `evenrisk.losses`."""

    @property
    def kinked(self) -> bool:
        """Whether its slope jumps, so that it has no curvature and gradient methods stall."""

    def rows(self, block: slice) -> RowLoss:
        """Return the loss of some rows."""

    def value_gradient(self, y: Array, g: Array) -> tuple[Array, Array]:
        """Return ℓ and ∂ℓ/∂g."""

    def curvature(self, y: Array, g: Array) -> Array:
        """Return ∂²ℓ/∂g²."""


@dataclass(frozen=True)
class SummedScores:
    """The results of round 1 of the penalty, which round 2 needs."""

    g: Array  # (n,)
    shift: Array | float
    psi: Array  # (c, p) Σ w ψ
    prepared: list[Any]  # `Distance.prepare` of every block; empty where there are too many rows


class Penalty:
    """E_f(g) = Σ_pairs pair_weight · d(cell a, cell b), its gradient in g and its Gauss–Newton matrix."""

    def __init__(self, distance: Distance, cells: Cells) -> None:
        self.distance, self.cells = distance, cells
        self.cell_weights = cell_weights(cells)

    def value(self, g: Array) -> float:
        """Return E_f(g)."""
        return float(self.derivative(self.sums(g))[0])

    def sums(self, g: Array) -> SummedScores:
        """Round 1: prepare the scores and return the sums of every cell."""
        shift, keep = self.distance.shift(g, self.cells), g.shape[0] <= KEPT_ROWS
        psi: Array = 0
        kept = []
        for block in blocks(g):
            prepared = self.distance.prepare(g[block] - shift)
            psi = psi + self.distance.psi_sums(prepared, self.cells.rows(block))
            if keep:
                kept.append(prepared)
        return SummedScores(g, shift, psi, kept)

    def derivative(self, summed: SummedScores) -> tuple[Array, Array]:
        """Between the rounds: return E_f and its derivative D in the sums (c, p)."""
        return penalty(self.distance, Sums(summed.psi, *self.cell_weights), self.cells)

    def add_gradient(self, summed: SummedScores, D: Array, gradient: Array) -> None:
        """Round 2: add Σ_j D[cell, j]·∂ψ_j/∂g to `gradient` (n,), in place."""
        for block, cells, prepared in self._prepared(summed):
            gradient[block] += self.distance.gradient(prepared, cells, D)

    def curvature(self, summed: SummedScores, rows: Callable[[slice], Array]) -> np.ndarray:
        """Round 2: return JᵀJ (m, m), J = ∂r/∂θ for g = Xθ and all pairs' residuals r, so that E_f = ‖r‖².

        `rows` returns the rows of X in a block.
        """
        slopes: Array = 0
        for block, cells, prepared in self._prepared(summed):
            slopes = slopes + self.distance.jacobian(prepared, cells, rows(block))
        return self._gram(summed, slopes)

    def curvature_of_parts(self, summed: SummedScores, part: Array, n_parts: int) -> np.ndarray:
        """Round 2: return JᵀJ (m, m) for g = θ[part], part (n,) in 0 … m − 1.

        This is `curvature` with the one-hot form of `part` as X. Each cell is split by part, so that the cost
        of a row does not depend on the number of parts.
        """
        slopes: Array = 0
        n_fine = self.cells.n_cells * n_parts
        for block, cells, prepared in self._prepared(summed):
            fine = namespace(summed.g).where(
                cells.code >= 0, cells.code * n_parts + part[block], 0 * part[block] - 1
            )
            one = 1 + 0 * summed.g[block][:, None]
            slopes = slopes + self.distance.jacobian(prepared, cells._replace(code=fine, n_cells=n_fine), one)
        return self._gram(summed, swap_last_axes(slopes.reshape((self.cells.n_cells, n_parts, -1))))

    def gram(self, means: Array, slopes: Array) -> np.ndarray:
        """Return JᵀJ from the cells' means of ψ (c, p) and their derivatives in θ (c, p, m)."""
        total = np.zeros((slopes.shape[2], slopes.shape[2]))
        pairs = zip(to_numpy(self.cells.pairs), to_numpy(self.cells.pair_weight), strict=True)
        for (i, j), share in pairs:
            J = to_numpy(self.distance.residual_jacobian(means[i], means[j], slopes[i], slopes[j]))
            total += share * (J.T @ J)
        return total

    def of_means(self, means: Array) -> tuple[float, Array]:
        """Return E_f and its derivative in the cells' means of ψ (c, p)."""
        w = self.cell_weights[0][:, None]
        value, D = penalty(self.distance, Sums(means * w, *self.cell_weights), self.cells)
        return float(value), D * w

    def _gram(self, summed: SummedScores, slopes: Array) -> np.ndarray:
        w = self.cell_weights[0][:, None]
        means = 0 * slopes[..., 0] if self.distance.traits.linear else summed.psi / w
        return self.gram(means, slopes / w[..., None])

    def _prepared(self, summed: SummedScores) -> Iterator[tuple[slice, Cells, Any]]:
        """Yield the rows, the cells and the prepared scores of every block."""
        g = summed.g
        for i, block in enumerate(blocks(g)):
            prepared = (
                summed.prepared[i] if summed.prepared else self.distance.prepare(g[block] - summed.shift)
            )
            yield block, self.cells.rows(block), prepared


class ScoreObjective:
    """F(g) = Σ wᵢ ℓ(yᵢ, gᵢ)/Σw + η·E_f(g), and its gradient in g."""

    def __init__(
        self, loss: RowLoss, y: Array, weight: Array, penalty: Penalty | None = None, eta: float = 0.0
    ) -> None:
        self.loss, self.y, self.weight = loss, y, weight
        self.penalty, self.eta = penalty, eta
        self.total = float(weight.sum())

    def with_eta(self, eta: float) -> ScoreObjective:
        """Return the same objective with another η; nothing is copied."""
        return ScoreObjective(self.loss, self.y, self.weight, self.penalty, eta)

    def with_loss(self, loss: RowLoss) -> ScoreObjective:
        """Return the same objective with another loss; nothing is copied."""
        return ScoreObjective(loss, self.y, self.weight, self.penalty, self.eta)

    def __call__(self, g: Array) -> tuple[float, Array]:
        """Return F(g) and ∂F/∂g (n,)."""
        return self.evaluate(g)[:2]

    def evaluate(self, g: Array) -> tuple[float, Array, SummedScores | None]:
        """Return F(g), ∂F/∂g (n,) and the results of round 1, which the curvature at g needs too."""
        xp = namespace(g)
        gradient = xp.empty_like(g)
        loss = 0.0
        for block in blocks(g):  # both rounds of the loss, whose value and gradient come from one call
            value, slope = self.loss.rows(block).value_gradient(self.y[block], g[block])
            weight = self.weight[block]
            loss += float(xp.sum(weight * value, dtype=xp.float64))
            gradient[block] = slope * (weight / self.total)
        value, summed = loss / self.total, None
        if self.penalty is not None and self.eta > 0:
            summed = self.penalty.sums(g)
            distance, D = self.penalty.derivative(summed)
            self.penalty.add_gradient(summed, self.eta * D, gradient)
            value += self.eta * float(distance)
        return value, gradient, summed

    def loss_curvature(self, g: Array, block: slice) -> Array:
        """Return share·ℓ'' of the rows of a block: the loss's part of the curvature."""
        curvature = self.loss.rows(block).curvature(self.y[block], g[block])
        return curvature * (self.weight[block] / self.total)
