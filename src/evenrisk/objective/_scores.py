"""The objective as a function of raw scores g (n,), in two rounds over the rows.

The derivative of the penalty needs the sums of *all* rows, so an evaluation reads the rows twice:

* round 1 adds sums over rows: the loss, and Σ w ψ(g) of every cell;
* between the rounds the sums, which are tiny, become the value and the derivative D of E_f in the sums;
* round 2 adds over rows again, now that D is known: the gradient, or the curvature.

Sums add over any parts of the rows. Whoever holds the rows (NumPy in blocks that stay in cache, a GPU tensor,
the partitions of a cluster) runs both rounds on its own rows and passes sums on. All parts must be given the
same `shift` of the scores and the `total` weight of all rows. The docstrings below say which round a method
belongs to. Nothing here depends on NumPy: results are arrays of the input's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from evenrisk import _kernels
from evenrisk._xp import (
    BLOCK_ROWS,
    Array,
    Cells,
    Sums,
    as_array,
    blocks,
    namespace,
    row_numbers,
    swap_last_axes,
    to_numpy,
)
from evenrisk.distances import Distance, cell_weights, penalty, psi_sums
from evenrisk.objective._fused import FusedCells, FusedProducts, FusedRounds

EVERY_ROW = slice(None)
KEPT_ROWS = 2_000_000  # up to which `Distance.prepare` is kept for round 2, 24 bytes a row


class RowLoss(Protocol):
    """ℓ(y, g) row by row, as in `evenrisk.losses`."""

    @property
    def kinked(self) -> bool:
        """Whether its slope jumps, so that it has no curvature and gradient methods stall."""

    def rows(self, block: Any) -> RowLoss:
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
    sums: Sums  # adds over parts of the rows that share a shift
    prepared: list[Any]  # `Distance.prepare` of every block; empty where there are too many rows


class Penalty:
    """E_f(g) = Σ_pairs pair_weight · d(cell a, cell b), its gradient in g and its Gauss–Newton matrix."""

    def __init__(self, distance: Distance, cells: Cells) -> None:
        self.distance, self.cells = distance, cells
        self.cell_weights = cell_weights(cells)
        self.fused = FusedCells.of(distance, cells)
        # Never read. Freed at once, its memory would go back to the system and come again page by page.
        self._last: SummedScores | None = None

    def take(self, rows: np.ndarray, factor: np.ndarray) -> Penalty:
        """Return the penalty of some rows, their weights multiplied by `factor`."""
        cells = self.cells.rows(row_numbers(rows, self.cells.weight))
        return Penalty(self.distance, cells._replace(weight=cells.weight * as_array(factor, cells.weight)))

    def value(self, g: Array) -> float:
        """Return E_f(g)."""
        return float(self.derivative(self.sums(g).sums)[0])

    def sums(self, g: Array, shift: Array | float | None = None) -> SummedScores:
        """Round 1: prepare the scores and return the sums of every cell.

        The sums of parts of the rows can be added if the parts share a `shift`: `Distance.shift` of all rows
        or, a little less accurate, of some.
        """
        shift = self.distance.shift(g, self.cells) if shift is None else shift
        if self.fused is not None:
            return SummedScores(g, shift, Sums(self.fused.sums(g, float(shift)), *self.cell_weights), [])
        keep = g.shape[0] <= KEPT_ROWS
        self._last = None
        psi: Array = 0
        kept = []
        for block in blocks(g):
            prepared = self.distance.prepare(g[block] - shift)
            psi = psi + psi_sums(self.distance, prepared, self.cells.rows(block))
            if keep:
                kept.append(prepared)
        self._last = SummedScores(g, shift, Sums(psi, *self.cell_weights), kept)
        return self._last

    def derivative(self, sums: Sums) -> tuple[Array, Array]:
        """Between the rounds: return E_f and its derivative D in the sums of all rows (c, p)."""
        return penalty(self.distance, sums, self.cells)

    def add_gradient(self, summed: SummedScores, D: Array, gradient: Array) -> None:
        """Round 2: add Σ_j D[cell, j]·∂ψ_j/∂g to `gradient` (n,), in place."""
        for block, cells, prepared in self._prepared(summed):
            for one in cells.memberships():
                gradient[block] += self.distance.gradient(prepared, one, D)

    def curvature(self, summed: SummedScores, rows: Callable[[slice], Array]) -> np.ndarray:
        """Round 2: return JᵀJ (m, m), J = ∂r/∂θ for g = Xθ and all pairs' residuals r, so that E_f = ‖r‖².

        `rows` returns the rows of X in a block.
        """
        return self.gram_of_sums(summed.sums, self.slope_sums(summed, rows))

    def slope_sums(self, summed: SummedScores, rows: Callable[[slice], Array]) -> Array:
        """Round 2: return the derivatives of the sums in θ (c, p, m); they add over parts of the rows."""
        slopes: Array = 0
        for block, cells, prepared in self._prepared(summed):
            X = rows(block)
            for one in cells.memberships():
                slopes = slopes + self.distance.jacobian(prepared, one, X)
        return slopes

    def curvature_of_parts(self, g: Array, part: Array, n_parts: int) -> np.ndarray:
        """Return JᵀJ (m, m) for g = θ[part], part (n,) in 0 … m − 1.

        This is `curvature` with the one-hot form of `part` as X. Each cell is split by part, so that the cost
        of a row does not depend on the number of parts.
        """
        if self.fused is not None and self.distance.traits.linear:  # the sums are not needed
            sums = Sums(np.zeros((self.cells.n_cells, 1)), *self.cell_weights)
            return self.gram_of_sums(sums, self.fused.slopes_by_part(g, 0.0, part, n_parts))
        summed = self.sums(g)
        if self.fused is not None:
            shift = float(summed.shift)
            return self.gram_of_sums(summed.sums, self.fused.slopes_by_part(g, shift, part, n_parts))
        slopes: Array = 0
        n_fine = self.cells.n_cells * n_parts
        xp = namespace(summed.g)
        for block, cells, prepared in self._prepared(summed):
            ones = 1 + 0 * summed.g[block][:, None]
            for one in cells.memberships():
                fine = xp.where(one.code >= 0, one.code * n_parts + part[block], 0 * part[block] - 1)
                slopes = slopes + self.distance.jacobian(
                    prepared, one._replace(code=fine, n_cells=n_fine), ones
                )
        slopes = swap_last_axes(slopes.reshape((self.cells.n_cells, n_parts, -1)))
        return self.gram_of_sums(summed.sums, slopes)

    def gram(self, means: Array, slopes: Array) -> np.ndarray:
        """Return JᵀJ from the cells' means of ψ (c, p) and their derivatives in θ (c, p, m)."""
        w = self.cell_weights[0][:, None]
        return self.gram_of_sums(Sums(means * w, *self.cell_weights), slopes * w[..., None])

    def of_means(self, means: Array) -> tuple[float, Array]:
        """Return E_f and its derivative in the cells' means of ψ (c, p)."""
        w = self.cell_weights[0][:, None]
        value, D = penalty(self.distance, Sums(means * w, *self.cell_weights), self.cells)
        return float(value), D * w

    def gram_of_sums(self, sums: Sums, slopes: Array) -> np.ndarray:
        """Return JᵀJ from the sums of all rows and their derivatives in θ (c, p, m)."""
        w = self.cells.unite(sums.w)[:, None]
        slopes = self.cells.unite(slopes) / w[..., None]
        means = 0 * slopes[..., 0] if self.distance.traits.linear else self.cells.unite(sums.psi) / w
        total = np.zeros((slopes.shape[2], slopes.shape[2]))
        pairs = zip(to_numpy(self.cells.pairs), to_numpy(self.cells.pair_weight), strict=True)
        for (i, j), share in pairs:
            J = to_numpy(self.distance.residual_jacobian(means[i], means[j], slopes[i], slopes[j]))
            total += share * (J.T @ J)
        return total

    def _prepared(self, summed: SummedScores) -> Iterator[tuple[slice, Cells, Any]]:
        """Yield the rows, the cells and the prepared scores of every block."""
        g = summed.g
        for i, block in enumerate(blocks(g)):
            prepared = (
                summed.prepared[i] if summed.prepared else self.distance.prepare(g[block] - summed.shift)
            )
            yield block, self.cells.rows(block), prepared


class FirstRound(NamedTuple):
    """What round 1 of an evaluation leaves; `loss` and the sums add over parts of the rows."""

    loss: float  # Σ wᵢ ℓ(yᵢ, gᵢ)/Σw
    g: Array  # (n,)
    gradient: Array | None  # (n,) of the loss, where round 1 has it at no cost
    summed: SummedScores | None  # None without a penalty


class Terms(NamedTuple):
    """What a boosting round needs."""

    value: float  # F
    g: Array  # (n,)
    slope: Array  # (n,) Σw·∂F/∂g
    bend: Array  # (n,) w·∂²ℓ/∂g²
    summed: SummedScores | None


Scores = Callable[[slice], Array]  # the raw scores of some rows
Collect = Callable[[slice, Array], Any]  # what is wanted of the gradient in the scores of some rows


class ScoreObjective:
    """F(g) = Σ wᵢ ℓ(yᵢ, gᵢ)/Σw + η·E_f(g), and its gradient in g.

    `total` is Σw: of all rows, where these are a part of them.
    """

    def __init__(
        self,
        loss: RowLoss,
        y: Array,
        weight: Array,
        penalty: Penalty | None = None,
        eta: float = 0.0,
        total: float | None = None,
    ) -> None:
        self.loss, self.y, self.weight = loss, y, weight
        self.penalty, self.eta = penalty, eta
        self.total = float(weight.sum()) if total is None else total
        self._fused = FusedRounds.of(loss, y, weight, penalty)

    def with_eta(self, eta: float) -> ScoreObjective:
        """Return the same objective with another η; nothing is copied."""
        other = copy(self)
        other.eta = eta
        return other

    def with_loss(self, loss: RowLoss) -> ScoreObjective:
        """Return the same objective with another loss; nothing is copied."""
        other = copy(self)
        other.loss = loss
        return other

    def take(self, rows: np.ndarray, factor: np.ndarray) -> ScoreObjective:
        """Return the objective of some rows, their weights multiplied by `factor`."""
        index = row_numbers(rows, self.weight)
        weight = self.weight[index] * as_array(factor, self.weight)
        penalty = None if self.penalty is None else self.penalty.take(rows, factor)
        return ScoreObjective(self.loss.rows(index), self.y[index], weight, penalty, self.eta)

    @property
    def in_parts(self) -> bool:
        """Whether the rows are worked on in parts, a thread for each."""
        return self._fused is not None

    def products(self, X: Any) -> FusedProducts | None:
        """Return the products with X part by part, where the rows are worked on in parts, else None."""
        return FusedProducts.of(self._fused, X)

    def __call__(self, g: Array) -> tuple[float, Array]:
        """Return F(g) and ∂F/∂g (n,)."""
        return self.evaluate(g)[:2]

    def evaluate(self, g: Array) -> tuple[float, Array, SummedScores | None]:
        """Return F(g), ∂F/∂g (n,) and the results of round 1, which the curvature at g needs too."""
        first = self.first_round(lambda rows: g[rows])
        value, D = self.between(first)
        if first.gradient is not None:
            (gradient,) = self.second_round(first, D, lambda rows, gradient: gradient)
            return value, gradient, first.summed
        gradient = np.empty_like(first.g)
        self.second_round(first, D, _into(gradient))
        return value, gradient, first.summed

    def between(self, first: FirstRound) -> tuple[float, Array | None]:
        """Return F and the derivative of η·E_f in the sums (c, p), from the sums of all rows."""
        if self.penalty is None or first.summed is None:
            return first.loss, None
        distance, D = self.penalty.derivative(first.summed.sums)
        return first.loss + self.eta * float(distance), self.eta * D

    def whole(self, scores: Scores) -> Array:
        """Return the raw scores of all rows (n,)."""
        return scores(EVERY_ROW) if self._fused is None else self._fused.whole(scores)

    def first_round(
        self,
        scores: Scores,
        shift: Array | float | None = None,
        *,
        scale: float | None = None,
        least: int = _kernels.LEAST_PART,
    ) -> FirstRound:
        """Round 1: return the loss and the penalty's sums; `shift` as in `Penalty.sums`.

        `scale` is what the gradient is divided by, None Σw; `least` the rows that a part has at least.
        """
        penalty = self.penalty if self.eta > 0 else None
        if self._fused is not None:
            if shift is None:
                shift = 0.0 if penalty is None else self._shift_of_first_rows(scores)
            loss, g, psi = self._fused.first(
                self.loss,
                scores,
                float(shift),
                penalised=penalty is not None,
                least=least,
            )
            summed = None if penalty is None else SummedScores(g, shift, Sums(psi, *penalty.cell_weights), [])
            return FirstRound(loss / self.total, g, None, summed)
        g = scores(EVERY_ROW)
        xp = namespace(g)
        gradient = xp.empty_like(g)
        loss, scale = 0.0, self.total if scale is None else scale
        for block in blocks(g):  # both rounds of the loss, whose value and gradient come from one call
            value, slope = self.loss.rows(block).value_gradient(self.y[block], g[block])
            weight = self.weight[block]
            loss += float(xp.sum(weight * value, dtype=xp.float64))
            gradient[block] = slope * (weight / scale)
        summed = None if penalty is None else penalty.sums(g, shift)
        return FirstRound(loss / self.total, g, gradient, summed)

    def terms(self, scores: Scores) -> Terms:
        """Return F and, of Σw·F, the gradient and the loss's curvature in each score."""
        # without a product with X there is so little to do that only large parts are worth a thread
        least = _kernels.SCORES_PART
        first = self.first_round(scores, scale=1.0, least=least)
        value, D = self.between(first)
        D = None if D is None else self.total * D
        if self._fused is None:
            (slope,) = self.second_round(first, D, lambda rows, gradient: gradient)
            bend = self.weight * self.loss.curvature(self.y, first.g)
            return Terms(value, first.g, slope, bend, first.summed)
        shift = 0.0 if first.summed is None else float(first.summed.shift)
        slope, bend = np.empty_like(first.g), np.empty_like(first.g)
        self._fused.second(self.loss, first.g, shift, D, 1.0, _into(slope), bend, least)
        return Terms(value, first.g, slope, bend, first.summed)

    def second_round(self, first: FirstRound, D: Array | None, collect: Collect) -> list[Any]:
        """Round 2: return what `collect` makes of ∂F/∂g of these rows, part by part.

        D is the derivative of η·E_f in the sums of all rows.
        """
        if self._fused is not None:
            shift = 0.0 if first.summed is None else float(first.summed.shift)
            return self._fused.second(self.loss, first.g, shift, D, self.total, collect)
        if self.penalty is not None and first.summed is not None:
            self.penalty.add_gradient(first.summed, D, first.gradient)
        return [collect(EVERY_ROW, first.gradient)]

    def curvature_in_parts(
        self, g: np.ndarray, features: Callable[[slice], np.ndarray], *, penalised: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Round 2: return Σ share·ℓ''·xxᵀ and, where `penalised`, JᵀJ (m, m), where the rows are `in_parts`.

        `features` returns x of some rows, (n, m) float64 in the order of rows.
        """
        assert self._fused is not None
        summed = self.first_round(lambda rows: g[rows]).summed if penalised else None
        shift = 0.0 if summed is None else float(summed.shift)
        H, slopes = self._fused.curvature(
            self.loss, g, shift, self.total, features, penalised=summed is not None
        )
        if self.penalty is None or summed is None:
            return H, None
        return H, self.penalty.gram_of_sums(summed.sums, slopes)

    def loss_curvature(self, g: Array, block: slice) -> Array:
        """Return share·ℓ'' of the rows of a block: the loss's part of the curvature."""
        curvature = self.loss.rows(block).curvature(self.y[block], g[block])
        return curvature * (self.weight[block] / self.total)

    def _shift_of_first_rows(self, scores: Scores) -> float:
        """Return a number near the scores, for distances that want one subtracted."""
        assert self.penalty is not None
        if type(self.penalty.distance).shift is Distance.shift:
            return 0.0
        return float(scores(slice(0, min(BLOCK_ROWS, len(self.y)))).mean())


def _into(x: np.ndarray) -> Collect:
    """Return the function that writes what it is given of some rows to x (n,)."""

    def write(rows: slice, part: np.ndarray) -> None:
        x[rows] = part

    return write
