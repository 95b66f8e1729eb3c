"""Distribution functions and gaps at every distinct score: exact, O(n log n), with weights.

Conventions
-----------
score (n,); code (n,) the cell of each row, −1 = in none; t (m,) the distinct scores, ascending; a person is
selected at threshold t iff score > t. Results depend on the scores only through their order and ties, so any
strictly increasing map of the score leaves them bit for bit as they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evenrisk import _kernels
from evenrisk._xp import Array, argsort, as_index, cast, concat, cumsum, namespace, segment_sum

SAMPLE, BUCKET_ROWS = 4096, 32_768  # scores that edges of buckets are chosen from; rows of a bucket, about


class CellCurves(NamedTuple):
    """Selection rates of every cell at every distinct score."""

    thresholds: Array  # (m,)
    above: Array  # (c, m) share of the cell's weight with score > t
    mass: Array  # (c, m) weight of the cell's rows with score = t


def cell_curves(score: Array, code: Array, weight: Array, n_cells: int) -> CellCurves:
    """Return P(score > t) in each cell at every distinct score t of rows in some cell."""
    if (loops := _kernels.loops(score, code, weight)) is not None:
        return _curves_by_buckets(loops, score, code, weight, n_cells)
    xp = namespace(score)
    kept = code >= 0
    score, code, weight = score[kept], code[kept], weight[kept]
    order = argsort(score)
    score, code, weight = score[order], code[order], weight[order]
    ends = run_ends(score)
    above, mass = [], []
    for cell in range(n_cells):
        below = cumsum(xp.where(code == cell, weight, 0 * weight), 0)[ends]
        above.append((below[-1] - below) / below[-1])
        mass.append(below - concat([0 * below[:1], below[:-1]], 0))
    return CellCurves(score[ends], xp.stack(above), xp.stack(mass))


def _curves_by_buckets(
    loops: Any, score: np.ndarray, code: np.ndarray, weight: np.ndarray, n_cells: int
) -> CellCurves:
    """Return the curves by compiled loops on every core.

    The rows are dealt into buckets of neighbouring scores, each of which is sorted and added up on its own
    and fits into a core's cache. Scores are compared with each other only, as they are without buckets.
    """
    n = len(score)
    some = np.random.default_rng(0).integers(0, n, SAMPLE)
    steps = np.linspace(0, SAMPLE, max(n // BUCKET_ROWS, 1), endpoint=False, dtype=np.intp)[1:]
    edges = np.unique(np.sort(score[some])[steps])
    parts = _kernels.parts(n, _kernels.SCORES_PART)
    bucket, count = np.empty(n, np.int32), np.zeros((len(parts), len(edges) + 1), np.int64)
    numbered = list(enumerate(parts))

    def find(each: tuple[int, slice]) -> None:
        number, rows = each
        loops.find_buckets(rows.start, rows.stop, score, code, edges, bucket, count[number])

    _kernels.run(find, numbered)
    ends = np.cumsum(count.T.ravel()).reshape(count.T.shape)  # the parts' rows of a bucket lie side by side
    place = np.ascontiguousarray((ends - count.T).T)
    kept = int(ends[-1, -1])
    dealt = np.empty(kept, score.dtype), np.empty(kept, np.int32), np.empty(kept, weight.dtype)

    def deal(each: tuple[int, slice]) -> None:
        number, rows = each
        loops.fill_buckets(rows.start, rows.stop, score, code, weight, bucket, place[number], *dealt)

    _kernels.run(deal, numbered)
    buckets = [slice(*each) for each in pairwise([0, *ends[:, -1].tolist()])]

    def sort(rows: slice) -> tuple[np.ndarray, int]:
        order = np.argsort(dealt[0][rows])
        return order, loops.count_runs(dealt[0][rows], order)

    found = _kernels.run(sort, buckets)
    runs = [slice(*each) for each in pairwise(np.cumsum([0, *(m for _, m in found)]).tolist())]
    m = runs[-1].stop
    thresholds, mass, above = np.empty(m, score.dtype), np.zeros((n_cells, m)), np.empty((n_cells, m))

    def add(k: int) -> np.ndarray:
        rows = (each[buckets[k]] for each in dealt)
        loops.add_runs(*rows, found[k][0], thresholds[runs[k]], mass[:, runs[k]])
        return mass[:, runs[k]].sum(axis=1)

    sums = np.array(_kernels.run(add, range(len(buckets))))
    below = np.cumsum(sums, axis=0)

    def share(k: int) -> None:
        loops.shares_above(mass[:, runs[k]], below[k] - sums[k], below[-1], above[:, runs[k]])

    _kernels.run(share, range(len(buckets)))
    above[:, -1] = 0.0  # exactly: the sums of parts may differ from those of all by rounding
    return CellCurves(thresholds, above, mass)


def union_curves(
    score: Array, compared: Array, cells: Iterable[tuple[Array, Array]], n_cells: int, unions: Array
) -> CellCurves:
    """Return P(score > t) and mass of unions of cells at every distinct score t of rows `compared` (n,).

    `cells` holds (code, weight) of each row, as often as it may be in a cell; `unions` (u, c) is 1 for the
    cells of each.
    """
    kept = compared > 0
    score = score[kept]
    order = argsort(score)
    score = score[order]
    ends = run_ends(score)
    m = ends.shape[0]
    bins = cumsum(as_index(concat([score[:1] != score[:1], score[1:] != score[:-1]], 0)), 0)
    mass: Array = 0
    for code, weight in cells:
        code, weight = as_index(code)[kept][order], weight[kept][order]
        inside = code >= 0
        flat = segment_sum(weight[inside], code[inside] * m + bins[inside], n_cells * m)
        mass = mass + flat.reshape((n_cells, m))
    mass = cast(unions, mass.dtype) @ mass
    below = cumsum(mass, 1)
    return CellCurves(score[ends], (below[:, -1:] - below) / below[:, -1:], mass)


def run_ends(ordered: Array) -> Array:
    """Return the index of the last row of each run of equal scores, the scores being in order."""
    xp = namespace(ordered)
    always = ordered[:1] == ordered[:1]
    return xp.nonzero(concat([ordered[1:] != ordered[:-1], always], 0))[0]


def gaps(above: Array, pairs: Array | None = None) -> Array:
    """Return the largest difference of selection rates: above (…, k, m) → (…, m).

    It is that of the `pairs` (q, 2) of groups which are compared, or of any two.
    """
    xp = namespace(above)
    if pairs is None:
        return xp.max(above, axis=-2) - xp.min(above, axis=-2)
    largest = 0 * above[..., 0, :]
    for first, second in pairs.tolist():
        largest = xp.maximum(largest, xp.abs(above[..., first, :] - above[..., second, :]))
    return largest


def auc(score: Array, y: Array, weight: Array) -> float:
    """Return P(score of a positive > score of a negative) + ½P(equal)."""
    xp = namespace(score)
    curves = cell_curves(score, y, weight, 2)
    share = curves.mass / xp.sum(curves.mass, axis=-1)[:, None]
    not_above = 1 - curves.above[0]
    return float(xp.sum(share[1] * (not_above - 0.5 * share[0])))
