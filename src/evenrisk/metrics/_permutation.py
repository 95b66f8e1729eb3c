"""The gap under a permuted attribute: what chance alone would show.

Score and weight stay together in their sorted order, where a distribution function is a running sum; only
the groups move, within each stratum. Under the null every arrangement is as likely as the one that came, so a
test by them is exact. Above 100,000 rows in a stratum the arrangements are replaced by their normal limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from evenrisk._validation import check_number
from evenrisk.metrics._inputs import ScoredRows
from evenrisk.metrics._resampling import CHUNK, LARGE_CELL, Binned, generator

LARGE_STRATUM = 100_000


def is_exact(rows: ScoredRows) -> bool:
    """Whether the attribute is really permuted, in every stratum."""
    stratum = rows.code[rows.code >= 0] // len(rows.groups)
    return bool(np.bincount(stratum).max() <= LARGE_STRATUM)


class Permuted(NamedTuple):
    """What each permutation gives."""

    max_gap: np.ndarray  # (n_permutations, h) of each stratum
    statistic: np.ndarray  # (n_permutations,) the largest standardised deviation of a group from everybody
    measured: float  # the statistic of the groups as they are


def permutations(rows: ScoredRows, n_permutations: int, random_state: Any) -> Permuted:
    """Permute the attribute within every stratum.

    The statistic is max over groups of sup_t abs(F_g − F) / √(1/n_g − 1/n), F being everybody's: sizes do not
    change under permutation, so each group counts in its own units and a small one, which moves far by
    chance, hides no other. Two groups in one stratum: the max gap, up to a factor.
    """
    n_permutations = int(check_number("n_permutations", n_permutations, low=1, whole=True))
    rng = generator(random_state)
    # an exact test compares like with like: every distinct score is a bin, as it is in the measured gap
    binned = Binned.of(rows, most=len(rows.score)) if is_exact(rows) else Binned.of(rows)
    stratum = binned.code // binned.n_groups
    drawn, measured = [], []
    for h in range(binned.n_strata):
        mine = np.flatnonzero(stratum == h)
        ends = np.flatnonzero(np.diff(binned.bin[mine], append=-1))  # last row of each bin
        group, weight = binned.code[mine] % binned.n_groups, binned.weight[mine]
        draw = _permuted if len(mine) <= LARGE_STRATUM else _limit
        numbers = len(mine)
        if draw is _limit:
            counts = np.bincount(group)
            numbers = max(len(ends) * binned.n_groups, int(counts[counts <= LARGE_CELL].max(initial=0)))
        chunk = max(1, CHUNK // numbers)
        sizes = [min(chunk, n_permutations - i) for i in range(0, n_permutations, chunk)]
        drawn.append(np.concatenate([draw(group, weight, ends, b, rng) for b in sizes], axis=1))
        measured.append(_as_they_are(group, weight, ends)[1, 0])
    both = np.array(drawn)  # (h, 2, n_permutations)
    return Permuted(both[:, 0].T, both[:, 1].max(axis=0), float(max(measured)))


def _as_they_are(group: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Max gap and statistic of the groups unmoved (2, 1)."""
    return _measured(group[None], group, weight, ends)


def _measured(moved: np.ndarray, group: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Max gap and statistic of each arrangement of the groups (2, b)."""
    counts = np.bincount(group)
    everybody = np.cumsum(weight)[ends] / weight.sum()

    def deviation(value: int) -> np.ndarray:
        running = np.cumsum(np.where(moved == value, weight, 0.0), axis=1)
        return running[:, ends] / running[:, -1:] - everybody

    return _largest((deviation(value) for value in range(len(counts))), counts)


def _permuted(
    group: np.ndarray, weight: np.ndarray, ends: np.ndarray, b: int, rng: np.random.Generator
) -> np.ndarray:
    """Permute the groups b times and measure (2, b)."""
    moved = rng.permuted(np.broadcast_to(group.astype(np.uint8), (b, len(group))), axis=1)
    return _measured(moved, group, weight, ends)


def _limit(
    group: np.ndarray, weight: np.ndarray, ends: np.ndarray, b: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw max gap and statistic from the normal limit of the permutations (2, b).

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
    walks = [bridge(count) if count > LARGE_CELL else drawn(count) for count in counts]
    # dealt out of one pack, the groups together are everybody
    everybody = sum(walk * (count / len(group)) for walk, count in zip(walks, counts, strict=True))
    return _largest((walk - everybody for walk in walks), counts)


def _largest(deviations: Iterator[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """Max gap and statistic (2, b) from each group's deviation (b, m); one group in memory at a time."""
    high = low = statistic = None
    for deviation, n in zip(deviations, counts, strict=True):
        size = np.maximum(deviation.max(axis=1), -deviation.min(axis=1)) / np.sqrt(1 / n - 1 / counts.sum())
        if high is None or low is None or statistic is None:
            high, low, statistic = deviation, deviation, size
        else:
            high, low = np.maximum(high, deviation), np.minimum(low, deviation)
            statistic = np.maximum(statistic, size)
    assert high is not None
    assert low is not None
    assert statistic is not None
    return np.stack([(high - low).max(axis=1), statistic])
