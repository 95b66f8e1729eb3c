"""Recent scores of every cell, for batches that hold few of its rows, and the unit of their weights.

Conventions
-----------
recent (2, c, size) scores and weights of the last `size` rows of each cell, newest first; weight 0 where
there is none yet. All shapes are known before the batch is, so that `torch.compile` can follow.

exponent (1,) a whole number e: weights are in units of 2ᵉ. Their scale means nothing, and their squares must
neither overflow nor vanish; a power of 2 takes no digits off them. The exponent keeps its type when the
module changes its own, so that weights of any size fit into half precision.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenrisk._xp import Array, arange, argsort, as_array, as_index, cast, cumsum, namespace, segment_sum
from evenrisk.nn._workers import Workers

LOWEST = -1022.0  # exponent of float64's least normal number


class CellMemory(nn.Module):
    """The last `size` rows of each cell; the same in all processes, in the order of their ranks."""

    recent: Tensor
    exponent: Tensor

    def __init__(self, n_cells: int, size: int) -> None:
        super().__init__()
        self.n_cells, self.size = n_cells, size
        self.register_buffer("recent", torch.zeros(2, n_cells, size))
        self.register_buffer("exponent", torch.zeros(1, dtype=torch.int64))

    def extra_repr(self) -> str:
        return f"n_cells={self.n_cells}, size={self.size}"

    def remember(self, g: Array, code: Array, weight: Array, exponent: Array, workers: Workers) -> None:
        """Put the rows of a batch, of all processes, before those remembered. Weights are in units of 2ᵉ."""
        new = newest(g, code, weight, self.n_cells, self.size)
        old = self.recalled(g, exponent)
        scores, weight = reduce(_prepended, workers.gather(new), old)
        more = magnitude(weight.reshape(-1))  # what was heaviest may have gone
        rows = namespace(g).stack([scores, in_units(weight, more, g.dtype)])
        rows = torch.as_tensor(rows).to(self.recent)
        if self.recent.dtype == torch.float16:
            rows = torch.nan_to_num(rows)  # a score beyond its range is as large as can be, not infinite
        self.recent.copy_(rows)
        self.exponent.copy_(torch.as_tensor(exponent + more))

    def magnitude(self, like: Array) -> Array:
        """Return ⌊log₂⌋ of the largest weight remembered (1,)."""
        stored, unit = self._stored(like)
        return namespace(like).maximum(magnitude(stored[1].reshape(-1)) + unit, 0 * unit + LOWEST)

    def recalled(self, like: Array, exponent: Array) -> Array:
        """Return the rows in the library, place and precision of `like`, weights in units of 2^exponent."""
        xp = namespace(like)
        stored, unit = self._stored(like)
        return xp.stack([stored[0], in_units(stored[1], exponent - unit, like.dtype)])

    def _stored(self, like: Array) -> tuple[Array, Array]:
        """Return the rows as they are kept, and their exponent (1,) in float64, where `like` is."""
        if isinstance(like, np.ndarray):
            # by way of double: NumPy does not know bfloat16
            rows, unit = (x.detach().double().cpu().numpy() for x in (self.recent, self.exponent))
            return rows.astype(like.dtype), unit
        return self.recent.to(like), self.exponent.to(like.device, torch.float64)

    def rows_to_fill(self, like: Array, present: Array, exponent: Array) -> tuple[Array, Array, Array]:
        """Return scores, cells and weights that fill each cell with `present` (c,) rows up to `size`."""
        xp = namespace(like)
        scores, weight = self.recalled(like, exponent)
        place = cast(arange(self.size, like), like.dtype) + 0.5
        wanted = place < self.size - present[:, None]
        code = arange(self.n_cells, like)[:, None] + 0 * as_index(weight)
        return scores.reshape(-1), code.reshape(-1), xp.where(wanted, weight, 0 * weight).reshape(-1)


def newest(g: Array, code: Array, weight: Array, n_cells: int, size: int) -> Array:
    """Return the last `size` rows of each cell of a batch, newest first."""
    xp = namespace(g)
    if g.shape[0] == 0:
        return as_array(np.zeros((2, n_cells, size)), g)
    code = xp.where(weight > 0, code, 0 * code - 1)
    order = argsort(code)
    count = segment_sum(cast(xp.ones_like(g), xp.float64), code + 1, n_cells + 1)
    end = as_index(cumsum(count, 0))
    at = end[1:, None] - 1 - arange(size, g)
    there = at >= end[:-1, None]
    row = order[xp.where(there, at, 0 * at)]
    rows = xp.stack([g[row], weight[row]])
    return xp.where(there, rows, 0 * rows)


def _prepended(old: Array, new: Array) -> Array:
    """Return new rows before old ones, as many as fit."""
    xp = namespace(new)
    at = arange(new.shape[2], new) - xp.sum(as_index(new[1] > 0), axis=1)[:, None]
    cell = arange(new.shape[1], new)[:, None]
    return xp.where(at < 0, new, old[:, cell, xp.where(at < 0, 0 * at, at)])


def magnitude(weight: Array) -> Array:
    """Return ⌊log₂⌋ of the largest weight (1,); the lowest there is where none is above 0."""
    xp = namespace(weight)
    lowest = as_array(np.array([LOWEST]), weight, dtype=xp.float64)
    if weight.shape[0] == 0:
        return lowest
    top = xp.max(cast(weight, xp.float64), axis=0, keepdims=True)
    there = top > 0
    return xp.where(there, xp.floor(xp.log2(xp.where(there, top, xp.ones_like(top)))), lowest)


def in_units(weight: Array, exponent: Array, dtype: Any) -> Array:
    """Return weights (n,) of any size in units of 2ᵉ."""
    xp = namespace(weight)
    return cast(cast(weight, xp.float64) / xp.exp2(exponent), dtype)
