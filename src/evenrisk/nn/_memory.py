"""Recent scores of every cell, for batches that hold few of its rows.

Conventions
-----------
recent (2, c, size) scores and weights of the last `size` rows of each cell, newest first; weight 0 where
there is none yet. All shapes are known before the batch is, so that `torch.compile` can follow.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenrisk._types import Array
from evenrisk._xp import arange, argsort, as_array, as_index, cast, cumsum, namespace, segment_sum
from evenrisk.nn._workers import gathered


class CellMemory(nn.Module):
    """The last `size` rows of each cell; the same in all processes, in the order of their ranks."""

    recent: Tensor

    def __init__(self, n_cells: int, size: int) -> None:
        super().__init__()
        self.n_cells, self.size = n_cells, size
        self.register_buffer("recent", torch.zeros(2, n_cells, size))

    def extra_repr(self) -> str:
        return f"n_cells={self.n_cells}, size={self.size}"

    def remember(self, g: Array, code: Array, weight: Array, group: Any = None) -> None:
        """Put the rows of a batch, of all processes, before those remembered."""
        new = newest(g, code, weight, self.n_cells, self.size)
        old = self.recalled(g)
        rows = torch.as_tensor(reduce(_onto, gathered(new, group), old)).to(self.recent)
        if self.recent.dtype == torch.float16:
            rows = torch.nan_to_num(rows)  # a weight beyond its range is as large as can be, not infinite
        self.recent.copy_(rows)

    def recalled(self, like: Array) -> Array:
        """Give the rows in the library, place and precision of `like`."""
        if isinstance(like, np.ndarray):
            return self.recent.detach().cpu().numpy().astype(like.dtype)
        return self.recent.to(like)

    def filling(self, like: Array, present: Array) -> tuple[Array, Array, Array]:
        """Give scores, cells and weights that fill each cell up to `size` rows; `present` (c,) are there."""
        xp = namespace(like)
        scores, weight = self.recalled(like)
        place = cast(arange(self.size, like), like.dtype) + 0.5
        wanted = place < self.size - present[:, None]
        code = arange(self.n_cells, like)[:, None] + 0 * as_index(weight)
        return scores.reshape(-1), code.reshape(-1), xp.where(wanted, weight, 0 * weight).reshape(-1)


def newest(g: Array, code: Array, weight: Array, n_cells: int, size: int) -> Array:
    """Give the last `size` rows of each cell of a batch, newest first."""
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


def _onto(old: Array, new: Array) -> Array:
    """Lay new rows before old ones, and keep as many as fit."""
    xp = namespace(new)
    at = arange(new.shape[2], new) - xp.sum(as_index(new[1] > 0), axis=1)[:, None]
    cell = arange(new.shape[1], new)[:, None]
    return xp.where(at < 0, new, old[:, cell, xp.where(at < 0, 0 * at, at)])
