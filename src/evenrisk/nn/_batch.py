"""What a batch says of E_f: its value and its gradient in the scores, in NumPy or torch.

It says noise as well: with few rows the squared gap between two equal groups is far from 0 on average, and
a network would learn to please that. So the variance of a cell's mean m may be taken off its squared norm:

    ‖m‖² − W2/(W² − W2)·(Q/W − ‖m‖²) = ‖m‖² + ‖m‖²·W2/(W² − W2) − Q·W2/W/(W² − W2).

Where all weights are equal this is the mean over pairs of *different* rows (a U-statistic), whose expectation
does not depend on the size of the batch. Where they are not it still depends on differences of scores alone.
The second term is a comparison with a cell of nothing, ψ = 0. So all of it is the core's penalty with a few
more pairs, less the sum of the third.

Conventions
-----------
c cells, p entries of ψ. psi (c, p) sums of wψ; W, W2, Q (c,) sums of w, w² and w‖Φ‖²; m = psi/W. *Known*
are the rows of the batch and those remembered. The penalty is that of all known rows, and its slope that in
the mean of the batch's own: a remembered score is compared with and not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenrisk._types import Array, Cells, Sums
from evenrisk._xp import as_index, cast, concat, namespace, take
from evenrisk.distances import Distance, cell_sum, cell_weights, penalty
from evenrisk.nn._memory import CellMemory
from evenrisk.nn._workers import summed, workers
from evenrisk.parity import group_pairs

ENOUGH = 1e-3  # of W²: what W² − W2 is above in a cell that is more than one row


class BatchSums(NamedTuple):
    """Additive over rows, batches and workers."""

    psi: Array
    w: Array
    w2: Array
    own: Array  # Q, or 0 where it is not asked for

    def plus(self, other: BatchSums) -> BatchSums:
        """Join the sums of two disjoint sets of rows."""
        return BatchSums(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Comparison:
    """Who is compared with whom, and how."""

    distance: Distance
    n_strata: int
    n_groups: int
    unbiased: bool
    group: Any  # the processes to add up over

    @property
    def pairs(self) -> np.ndarray:
        """(q, 2) cells; where unbiased, then each cell and the cell of nothing, which is the last."""
        n_cells = self.n_strata * self.n_groups
        nothing = [(cell, n_cells) for cell in range(n_cells)] if self.unbiased else []
        return np.array(group_pairs(self.n_strata, self.n_groups) + nothing)

    def evaluate(
        self, g: Array, cells: Cells, memory: CellMemory | None, exponent: Array
    ) -> tuple[Array, Array]:
        """E_f of the batch of all processes, and its gradient in the scores at hand (n,)."""
        shift = self._shift(g, cells)
        placed = self.distance.placed(g - shift)
        norm, norm_slope = self._norms(placed)
        batch = known = self._over_workers(self._sums(placed, cells, norm))
        if memory is not None:
            present = batch.w * batch.w / _safe(batch.w2)
            scores, code, weight = memory.filling(g, present, exponent)
            remembered = cells._replace(code=code, weight=weight)
            recalled = self.distance.placed(scores - shift)
            known = known.plus(self._sums(recalled, remembered, self._norms(recalled)[0]))
        value, D, in_own = self._value_and_slopes(batch, known, cells.pairs)
        gradient = self.distance.pull(placed, cells, D)
        if self.unbiased:
            table = concat([0 * in_own[:1], in_own], 0)
            gradient = gradient + take(table, as_index(cells.code) + 1) * cells.weight * norm_slope
        return value, gradient

    def _shift(self, g: Array, cells: Cells) -> Array | float:
        """Give the pooled mean of all processes' scores where the distance wants one."""
        if not self.distance.of_two_moments:
            return 0.0
        xp = namespace(g)
        total = summed(xp.stack([xp.sum(cells.weight * g), xp.sum(cells.weight)]), self.group)
        return total[0] / _safe(total[1])

    def _norms(self, placed: Any) -> tuple[Array, Array]:
        """‖Φ‖² of each row and its slope, where they are asked for."""
        norms = self.distance.norms(placed) if self.unbiased else None
        return (None, None) if norms is None else norms

    def _sums(self, placed: Any, cells: Cells, norm: Array) -> BatchSums:
        """Sum over the rows at hand."""
        psi = self.distance.psi_sums(placed, cells)
        w, w2 = cell_weights(cells)
        own = cell_sum(cells, cells.weight * norm) if self.unbiased else 0 * w
        return BatchSums(psi, w, w2, own)

    def _over_workers(self, sums: BatchSums) -> BatchSums:
        """Add the sums of all processes, in one message."""
        if workers(self.group) < 2:
            return sums
        xp = namespace(sums.w)
        flat = summed(concat([xp.reshape(x, (-1,)) for x in sums], 0), self.group)
        n_cells, p = sums.psi.shape
        rest = xp.reshape(flat[n_cells * p :], (3, n_cells))
        return BatchSums(xp.reshape(flat[: n_cells * p], (n_cells, p)), rest[0], rest[1], rest[2])

    def _value_and_slopes(
        self, batch: BatchSums, known: BatchSums, pairs: Array
    ) -> tuple[Array, Array, Array]:
        """E_f, and its derivatives in the batch's psi (c, p) and own (c,)."""
        xp = namespace(known.w)
        valid = self._valid(known)
        stratum = xp.reshape(valid, (self.n_strata, self.n_groups))
        others = xp.reshape(xp.sum(stratum, axis=1)[:, None] - stratum, (-1,))
        compared = self._share * valid * others  # (c,) the weight of all pairs that a cell is in
        noise = compared * known.w2 / _safe(known.w * known.w - known.w2)
        value, D = self._penalty(known, valid, noise, pairs)
        value = value - xp.sum(noise * known.own / _safe(known.w))
        if batch is not known:
            noise = compared * batch.w2 / _safe(known.w * batch.w - batch.w2)
            D = self._penalty(known, valid, noise, pairs)[1]
            D = D * (known.w / _safe(batch.w))[:, None]
        return value, D, -noise / _safe(batch.w)

    @property
    def _share(self) -> float:
        """The weight of one pair: the mean over pairs, summed over strata."""
        return 2 / (self.n_groups * (self.n_groups - 1))

    def _valid(self, known: BatchSums) -> Array:
        """1 for cells that can be compared, else 0: the unbiased form and a variance need two rows."""
        square = known.w * known.w
        needs_two = self.unbiased or self.distance.of_two_moments
        return cast(square - known.w2 > ENOUGH * square if needs_two else square > 0, known.w.dtype)

    def _penalty(
        self, known: BatchSums, valid: Array, with_nothing: Array, pairs: Array
    ) -> tuple[Array, Array]:
        """Give the core's penalty and its derivative in psi; a cell that cannot be compared is all ones."""
        xp = namespace(valid)
        there = valid > 0
        psi = xp.where(there[:, None], known.psi, xp.ones_like(known.psi))
        w = xp.where(there, known.w, xp.ones_like(known.w))
        between = pairs[: len(pairs) - self.unbiased * len(w)]
        pair_weight = self._share * valid[between[:, 0]] * valid[between[:, 1]]
        if self.unbiased:
            psi, w = concat([psi, xp.zeros_like(psi[:1])], 0), concat([w, xp.ones_like(w[:1])], 0)
            pair_weight = concat([pair_weight, with_nothing], 0)
        cells = Cells(None, None, w.shape[0], pairs, pair_weight)
        value, D = penalty(self.distance, Sums(psi, w, w), cells)
        return value, D[: valid.shape[0]]


def _safe(x: Array) -> Array:
    """Put 1 where x is not positive, so that nothing divides by 0."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))
