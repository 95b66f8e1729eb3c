"""A few rows that stand for all, for what need not be exact.

The first points of a path, and how far a tree's step may go, need a rough answer only. A sample gives one at
a cost that does not grow with the rows. Rare kinds of rows are drawn more often and weigh less in return:
without that a sample may have nobody of a small group, or so few people of a rare label that a plane divides
them from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evenrisk._xp import Array, as_array, blocks, cast, namespace, row_numbers, segment_sum, take, to_numpy


def sample_rows(
    kind: Callable[[Any], Array], n_kinds: int, weight: Array, n_rows: int, least: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return about `n_rows` rows at random, in their order, and by what their weights are multiplied.

    `kind` returns a number from 0 for each of some rows, such as that of its cell. Of each kind there are at
    least `least` rows, if it has as many, and together they weigh as much as all rows of their kind. Rows of
    weight 0 are left out. The draw depends on nothing but the number of rows, their kinds and which of them
    have a weight.
    """
    random, n = np.random.default_rng(0), weight.shape[0]
    total, count = np.zeros(n_kinds), np.zeros(n_kinds)
    for block in blocks(weight):
        each = kind(block)
        total += to_numpy(segment_sum(weight[block], each, n_kinds))
        count += to_numpy(segment_sum(cast(weight[block] > 0, weight.dtype), each, n_kinds))
    rare = count * min(n_rows / n, 1) < least
    index = random.choice(n, min(n_rows, n), replace=False, shuffle=False)
    at = row_numbers(index, weight)
    index = index[~rare[to_numpy(kind(at))] & (to_numpy(weight[at]) > 0)]
    if rare.any():
        others = random.permutation(_rows_of(as_array(rare, weight), kind, weight))
        kinds = to_numpy(kind(row_numbers(others, weight)))
        by_kind = np.argsort(kinds, kind="stable")
        others, kinds = others[by_kind], kinds[by_kind]
        place = np.arange(len(others)) - np.searchsorted(kinds, np.arange(n_kinds))[kinds]
        index = np.append(index, others[place < least])
    index = np.sort(index)
    at = row_numbers(index, weight)
    kinds = to_numpy(kind(at))
    factor = total[kinds] / np.bincount(kinds, to_numpy(weight[at]), n_kinds)[kinds]
    return index, factor


def _rows_of(wanted: Array, kind: Callable[[Any], Array], weight: Array) -> np.ndarray:
    """Return the numbers of the rows that have a weight and are of a kind `wanted` (kinds,), 1 or 0."""
    found = []
    for block in blocks(weight):
        (inside,) = namespace(weight).nonzero(
            take(wanted, kind(block)) * cast(weight[block] > 0, weight.dtype)
        )
        found.append(block.start + to_numpy(inside))
    return np.concatenate(found)
