"""A few rows that stand for all, for what need not be exact.

The first points of a path, and how far a tree's step may go, need a rough answer only. A sample gives one at
a cost that does not grow with the rows. Rare kinds of rows are drawn more often and weigh less in return:
without that a sample may have nobody of a small group, or so few people of a rare label that a plane divides
them from the others.
"""

from __future__ import annotations

import numpy as np

from evenrisk._xp import Array, as_array, as_index, cast, namespace, row_numbers, segment_sum, take, to_numpy


def sample_rows(kind: Array, weight: Array, n_rows: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return about `n_rows` rows at random, in their order, and by what their weights are multiplied.

    kind (n,) is a number from 0, such as that of a row's cell. Of each kind there are at least `least` rows,
    if it has as many, and together they weigh as much as all rows of their kind. Rows of weight 0 are left
    out. The draw depends on nothing but the number of rows, their kinds and which of them have a weight.
    """
    random = np.random.default_rng(0)
    xp, kind, n = namespace(weight), as_index(kind), weight.shape[0]
    n_kinds = int(xp.max(kind)) + 1
    present = cast(weight > 0, weight.dtype)
    total, count = (to_numpy(segment_sum(each, kind, n_kinds)) for each in (weight, present))
    rare = count * min(n_rows / n, 1) < least
    index = random.choice(n, min(n_rows, n), replace=False, shuffle=False)
    index = index[~rare[_at(kind, index)] & (_at(weight, index) > 0)]
    if rare.any():
        (others,) = xp.nonzero(take(as_array(rare, weight), kind) * present)
        others = random.permutation(to_numpy(others))
        kinds = _at(kind, others)
        by_kind = np.argsort(kinds, kind="stable")
        others, kinds = others[by_kind], kinds[by_kind]
        place = np.arange(len(others)) - np.searchsorted(kinds, np.arange(n_kinds))[kinds]
        index = np.append(index, others[place < least])
    index = np.sort(index)
    kinds = _at(kind, index)
    factor = total[kinds] / np.bincount(kinds, _at(weight, index), n_kinds)[kinds]
    return index, factor


def _at(x: Array, index: np.ndarray) -> np.ndarray:
    """Return some entries of x (n,) on the host."""
    return to_numpy(take(x, row_numbers(index, x)))
