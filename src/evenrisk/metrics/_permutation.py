"""The gap under a permuted attribute: what chance alone would show.

Score and weight stay together in their sorted order, where a distribution function is a running sum; only
the groups move, within each stratum. Under the null every arrangement is as likely as the one that came, so a
test by them is exact. Above 100,000 rows in a stratum the arrangements are replaced by their normal limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenrisk._validation import check_number
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.metrics._resampling import CHUNK, LARGE_CELL, Binned, generator

LARGE_STRATUM = 100_000


def is_exact(rows: ScoredRows) -> bool:
    """Whether the attribute is really permuted, in every stratum."""
    stratum = rows.code[rows.code >= 0] // len(rows.groups)
    return bool(np.bincount(stratum).max() <= LARGE_STRATUM)


def permuted_max_gaps(rows: ScoredRows, n_permutations: int, random_state: Any) -> np.ndarray:
    """Max gap of each stratum under each permutation of the attribute (n_permutations, h)."""
    n_permutations = int(check_number("n_permutations", n_permutations, low=1, whole=True))
    rng = generator(random_state)
    # an exact test compares like with like: every distinct score is a bin, as it is in the measured gap
    binned = Binned.of(rows, most=len(rows.score)) if is_exact(rows) else Binned.of(rows)
    stratum = binned.code // binned.n_groups
    columns = []
    for h in range(binned.n_strata):
        mine = np.flatnonzero(stratum == h)
        ends = np.flatnonzero(np.diff(binned.bin[mine], append=-1))  # last row of each bin
        group, weight = binned.code[mine] % binned.n_groups, binned.weight[mine]
        draw = _permuted if len(mine) <= LARGE_STRATUM else _limit
        chunk = max(1, CHUNK // len(mine if draw is _permuted else ends))
        sizes = [min(chunk, n_permutations - i) for i in range(0, n_permutations, chunk)]
        columns.append(np.concatenate([draw(group, weight, ends, b, rng) for b in sizes]))
    return np.stack(columns, axis=1)


def _permuted(
    group: np.ndarray, weight: np.ndarray, ends: np.ndarray, b: int, rng: np.random.Generator
) -> np.ndarray:
    """Permute the groups b times and give the max gap of each (b,)."""
    k = int(group.max()) + 1
    moved = rng.permuted(np.broadcast_to(group.astype(np.uint8), (b, len(group))), axis=1)
    running = (np.cumsum(np.where(moved == value, weight, 0.0), axis=1) for value in range(k))
    return _sup_range(below[:, ends] / below[:, -1:] for below in running)


def _limit(
    group: np.ndarray, weight: np.ndarray, ends: np.ndarray, b: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the max gap from the normal limit of the permutations (b,).

    A group of n_g among n rows: its distribution function moves about the pooled F like a bridge whose bins
    have variance (n / n_g) Σ w² / W²; what all groups share cancels in their differences. A small group's is
    far from normal: its rows are drawn from everybody.
    """
    total = weight.sum()
    below = np.cumsum(weight)[ends] / total
    variance = np.diff(np.cumsum(weight**2)[ends], prepend=0.0) / total**2

    def bridge(count: int) -> np.ndarray:
        walk = rng.standard_normal((b, len(ends))) * np.sqrt(variance * len(group) / count)
        np.cumsum(walk, axis=1, out=walk)
        walk -= below * walk[:, -1:].copy()
        return walk

    bins = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))

    def drawn(count: int) -> np.ndarray:
        row = rng.integers(0, len(group), (b, count))
        into = (bins[row] + len(ends) * np.arange(b)[:, None]).ravel()
        mass = np.bincount(into, weight[row].ravel(), b * len(ends)).reshape(b, -1)
        running = np.cumsum(mass, axis=1)
        return running / running[:, -1:] - below

    counts = np.bincount(group)
    return _sup_range(bridge(count) if count > LARGE_CELL else drawn(count) for count in counts)


def _sup_range(below: Iterator[np.ndarray]) -> np.ndarray:
    """Largest over the bins of (largest − smallest over groups) (b,); one group in memory at a time."""
    high = low = next(below)
    for other in below:
        high, low = np.maximum(high, other), np.minimum(low, other)
    return (high - low).max(axis=1)
