"""Resampled distribution functions: how far another sample of the same people would move each cell's curve.

Conventions
-----------
c cells (``stratum · k + group``), m bins in the order of the score, each ending at a real threshold; F (c, m)
the distribution functions there. A resample has F* (c, m); the deviations D = F* − F are returned for b
resamples at a time (b, c, m). Every cell is resampled by itself, so that its size stays.

How a cell is resampled depends on its (effective) rows n alone:

* n < 30: n rows are drawn from **all distinct scores alike**, which moves its curve as far as any score
  of that grain can. Its own rows know too little: one row, resampled, is that row again and moves nothing.
* n ≤ 20,000: its own rows and **four** more, drawn with replacement; the four are from all distinct scores
  alike. Where most people share a score, 50 rows may by chance hold hardly any others, and resamples of
  those rows alone hardly move: bands of seven such groups held 83 times in 100 at a level of 95 %, and 99
  times with the four added (`benchmarks/coverage.py`). Adding two successes and two failures does the same
  for the interval of a rate.
* above: the limit of the former, normal increments of each bin's variance. It costs nothing per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import SMALL_CELL
from evenrisk.curves import run_ends
from evenrisk.metrics.rows import ScoredRows

LARGE_CELL = 20_000  # rows; beyond, a cell's resamples are normal to three digits
ALL_BINS = 50_000  # distinct scores; up to here every one of them is a bin
ALL_NUMBERS = 2**17  # bins times cells, where there are many cells
MOST_BINS = 8192  # else as many: the largest of a bridge over 8192 bins is 0.5 % under that over all of them
ADDED_ROWS = 4  # drawn from all distinct scores alike, beside a cell's own
CHUNK = 2**19  # numbers in one chunk of deviations: they fit the cache


@dataclass(frozen=True)
class BinnedScores:
    """Rows that are in some cell, in the order of their scores, and the bins they fall in."""

    bin: np.ndarray  # (n,)
    code: np.ndarray  # (n,) cell
    weight: np.ndarray  # (n,)
    thresholds: np.ndarray  # (m,) the last score of each bin
    n_strata: int
    n_groups: int

    @classmethod
    def of(cls, rows: ScoredRows, most: int | None = None) -> BinnedScores:
        """Sort the rows and choose bins: the distinct scores up to `most`, else runs of about equal size."""
        kept = np.flatnonzero(rows.code >= 0)
        order = kept[np.argsort(rows.score[kept], kind="stable")]
        score = rows.score[order]
        ends = run_ends(score)
        if most is None:
            most = min(ALL_BINS, ALL_NUMBERS // rows.n_cells)
        if len(ends) > most:
            equal = np.linspace(0, len(score) - 1, min(MOST_BINS, most) + 1)[1:]
            ends = np.unique(ends[np.searchsorted(ends, equal)])
        counts = np.diff(ends, prepend=-1)
        bins = np.repeat(np.arange(len(ends), dtype=np.int32), counts)
        return cls(
            bins, rows.code[order], rows.weight[order], score[ends], len(rows.parity.strata), len(rows.groups)
        )

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_strata * self.n_groups

    @cached_property
    def mass(self) -> np.ndarray:
        """Weight of each cell in each bin (c, m)."""
        m = len(self.thresholds)
        flat = np.bincount(self.code.astype(np.int64) * m + self.bin, self.weight, self.n_cells * m)
        return flat.reshape(self.n_cells, m)

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows of each cell (c,)."""
        return np.bincount(self.code, minlength=self.n_cells)

    @cached_property
    def effective(self) -> np.ndarray:
        """Kish's effective number of rows of each cell (c,): (Σw)² / Σw², n without weights."""
        largest = np.zeros(self.n_cells)
        np.maximum.at(largest, self.code, self.weight)
        relative = self.weight / largest[self.code]  # squares of tiny weights would vanish
        total, squares = (np.bincount(self.code, power, self.n_cells) for power in (relative, relative**2))
        return total**2 / squares

    def deviations(self, n_resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield F* − F of `n_resamples` resamples, a chunk at a time (b, c, m)."""
        draws = [self._draw(cell) for cell in range(self.n_cells)]
        own = self.counts[(self.counts <= LARGE_CELL) | (self.effective < SMALL_CELL)]
        chunk = max(1, CHUNK // max(self.mass.size, int(own.max(initial=0))))
        for first in range(0, n_resamples, chunk):
            b = min(chunk, n_resamples - first)
            yield np.stack([draw(b, rng) for draw in draws], axis=1)

    def _draw(self, cell: int) -> Any:
        """Return how a cell is resampled: a function of b and rng that draws F* − F (b, m)."""
        mine = self.code == cell
        weight = self.weight[mine] / self.mass[cell].sum()
        effective = float(self.effective[cell])
        small, own = effective < SMALL_CELL, self.counts[cell] <= LARGE_CELL
        if small or own:
            stratum = self.mass.reshape(self.n_strata, self.n_groups, -1)[cell // self.n_groups]
            occurs = np.cumsum(stratum.sum(axis=0) > 0)
            alike = occurs / occurs[-1]
            return _FromAll(alike, weight) if small else _OwnRows(self.bin[mine], weight, alike, effective)
        variance = np.bincount(self.bin[mine], weight**2, len(self.thresholds))
        return _Normal(np.cumsum(self.mass[cell]) / self.mass[cell].sum(), np.sqrt(variance))


class _OwnRows:
    """F* of n rows drawn from the cell's own and a few more, minus the distribution function of both.

    With weights that vary, the added rows are as many effective ones, and each carries the weight of some row
    of the cell. √(n / (n − 1)), n being the effective rows, makes up for drawing around the cell's own mean.
    """

    def __init__(self, bins: np.ndarray, weight: np.ndarray, alike: np.ndarray, effective: float) -> None:
        self.bins, self.alike = bins.astype(np.int64), alike
        self.weight = None if (weight == weight[0]).all() else weight
        n, self.added = len(bins), int(np.ceil(ADDED_ROWS * len(bins) / effective - 1e-9))
        own = np.cumsum(np.bincount(bins, weight, len(alike)))
        self.below = (n * own + self.added * alike) / (n + self.added)
        self.stretch = np.sqrt(effective / (effective - 1))

    def __call__(self, b: int, rng: np.random.Generator) -> np.ndarray:
        n, m = len(self.bins), len(self.alike)
        row = rng.integers(0, n + self.added, (b, n), dtype=np.uint16).ravel()
        added = np.flatnonzero(row >= n)
        if len(added):
            row[added] = rng.integers(0, n, len(added), dtype=np.uint16)
        into = self.bins[row]
        into[added] = np.searchsorted(self.alike, rng.random(len(added)))
        into.reshape(b, n)[:] += m * np.arange(b)[:, None]
        weight = None if self.weight is None else self.weight[row]
        mass = np.bincount(into, weight, b * m).reshape(b, m)
        below = np.cumsum(mass, axis=1, dtype=np.float64)
        below /= below[:, -1:].copy()
        below -= self.below
        below *= self.stretch
        return below


class _FromAll:
    """The distribution function of n rows drawn from the stratum's distinct scores, minus theirs."""

    def __init__(self, alike: np.ndarray, weight: np.ndarray) -> None:
        self.alike, self.weight = alike, weight

    def __call__(self, b: int, rng: np.random.Generator) -> np.ndarray:
        m = len(self.alike)
        into = np.searchsorted(self.alike, rng.random((b, len(self.weight))))
        into += m * np.arange(b)[:, None]
        weight = np.broadcast_to(self.weight, into.shape).ravel()
        mass = np.bincount(into.ravel(), weight, b * m).reshape(b, m)
        return np.cumsum(mass, axis=1) - self.alike


class _Normal:
    """C − F·C(∞), C the running sum of independent normals with each bin's variance Σ w²."""

    def __init__(self, below: np.ndarray, sd: np.ndarray) -> None:
        self.below, self.sd = below, sd

    def __call__(self, b: int, rng: np.random.Generator) -> np.ndarray:
        running = rng.standard_normal((b, len(self.sd)))
        running *= self.sd
        np.cumsum(running, axis=1, out=running)
        running -= self.below * running[:, -1:].copy()
        return running


def generator(random_state: Any) -> np.random.Generator:
    """Return a Generator as it is, or one seeded from anything that scikit-learn takes."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**32, dtype=np.uint64))
