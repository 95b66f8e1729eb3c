"""Resampling: how far another sample of the same people would move the curves, and how far chance alone does.

Conventions
-----------
c cells (``stratum · k + group``), m bins in the order of the score, each ending at a real threshold; F (c, m)
the distribution functions there.

The bootstrap. A resample has F* (c, m); the deviations D = F* − F are returned for b resamples at a time
(b, c, m). Every cell is resampled by itself, so that its size stays. How depends on its (effective) rows n:

* n < 30: n rows are drawn from **all distinct scores alike**, which moves its curve as far as any score
  of that grain can. Its own rows know too little: one row, resampled, is that row again and moves nothing.
* n ≤ 20,000: its own rows and **four** more, drawn with replacement; the four are from all distinct scores
  alike. Where most people share a score, 50 rows may by chance hold hardly any others, and resamples of
  those rows alone hardly move: bands of seven such groups held 83 times in 100 at a level of 95 %, and 99
  times with the four added (`benchmarks/band_coverage.py`). Adding two successes and two failures does the
  same for the interval of a rate.
* above: the limit of the former, normal increments of each bin's variance. It costs nothing per row.

Permutations of the groups. Score and weight stay together in their sorted order, where a distribution
function is a running sum; only the groups move, within each stratum. Under the null every arrangement is as
likely as the one that came, so a test by them is exact. Above 100,000 rows in a stratum the arrangements are
replaced by their normal limit.

Weights. A group's distribution function does not change when all of its weights are multiplied by one number,
so each group's weights are first divided by how much heavier its rows are than others of the same score.
Weights that differ between groups but not within them then have no effect at all, and the test stays exact.
Weights that vary within a group make some arrangements noisier than others, so every deviation is divided by
its own standard error, √(Σw²/W²) of the two sides; the test is then approximate. Three other ways were tried
and fail (`benchmarks/RESULTS.md` has the figures): dividing by each group's mean weight where weights depend
on scores and one group by chance has none of the rare heavy ones; moving the scores alone, away from their
weights, wherever weights depend on scores; drawing noise for each row where few rows carry a tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import SMALL_CELL, check_number
from evenrisk.curves import run_ends
from evenrisk.metrics.rows import ScoredRows
from evenrisk.parity import group_pairs

LARGE_CELL = 20_000  # rows; beyond, a cell's resamples are normal to three digits
ALL_BINS = 50_000  # distinct scores; up to here every one of them is a bin
ALL_NUMBERS = 2**17  # bins times cells, where there are many cells
MOST_BINS = 8192  # else as many: the largest of a bridge over 8192 bins is 0.5 % under that over all of them
ADDED_ROWS = 4  # drawn from all distinct scores alike, beside a cell's own
CHUNK = 2**19  # numbers in one chunk of deviations: they fit the cache
LARGE_STRATUM = 100_000
TIE_BREAK = 1e-6  # of the mean square deviation: it decides between arrangements whose largest ones are equal
CLASSES = 10  # of scores, within which the weights of groups are compared
MOST_TURNS = 200  # a handful are usual
LEAST_WEIGHT = 1e-100  # of the largest: squares of smaller ones vanish
LEAST_REST = 1e-12  # of all weight: what is left for the other groups where one has nearly everything


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

    soft = False  # every row is in one cell

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_strata * self.n_groups

    @property
    def n_compared(self) -> int:
        """Number of curves that are compared: one of each cell."""
        return self.n_cells

    @cached_property
    def pairs(self) -> np.ndarray:
        """The cells compared (q, 2): every pair of groups in every stratum."""
        return np.array(group_pairs(self.n_strata, self.n_groups))

    @cached_property
    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """F of each group (h, k, m) and everybody's share of each bin (h, m)."""
        mass = self.mass.reshape(self.n_strata, self.n_groups, -1)
        below = np.cumsum(mass, axis=2) / mass.sum(axis=2, keepdims=True)
        return below, mass.sum(axis=1) / mass.sum(axis=(1, 2))[:, None]

    def pooled(self, deviation: np.ndarray) -> np.ndarray:
        """Return F* − F of everybody in each stratum (b, h, m), from that of each cell."""
        total = self.mass.sum(axis=1).reshape(self.n_strata, self.n_groups)
        shape = (len(deviation), self.n_strata, self.n_groups, -1)
        return np.einsum("hk,bhkm->bhm", total / total.sum(axis=1, keepdims=True), deviation.reshape(shape))

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

    def _draw(self, cell: int) -> Callable[[int, np.random.Generator], np.ndarray]:
        """Return how a cell is resampled: a function of b and rng that draws F* − F (b, m)."""
        mine = self.code == cell
        weight = self.weight[mine] / self.mass[cell].sum()
        effective = float(self.effective[cell])
        small, own = effective < SMALL_CELL, self.counts[cell] <= LARGE_CELL
        if small or own:
            stratum = self.mass.reshape(self.n_strata, self.n_groups, -1)[cell // self.n_groups]
            occurs = np.cumsum(stratum.sum(axis=0) > 0)
            uniform = occurs / occurs[-1]  # F of the distinct scores, all as likely
            if small:
                return partial(from_all, uniform, weight)
            return _OwnRows(self.bin[mine], weight, uniform, effective)
        variance = np.bincount(self.bin[mine], weight**2, len(self.thresholds))
        below = np.cumsum(self.mass[cell]) / self.mass[cell].sum()
        return partial(_bridges, below, np.sqrt(variance))


class _OwnRows:
    """F* of n rows drawn from the cell's own and a few more, minus the distribution function of both.

    With weights that vary, the added rows are as many effective ones, and each carries the weight of some row
    of the cell. √(n / (n − 1)), n being the effective rows, makes up for drawing around the cell's own mean.
    """

    def __init__(self, bins: np.ndarray, weight: np.ndarray, uniform: np.ndarray, effective: float) -> None:
        self.bins, self.uniform = bins.astype(np.int64), uniform
        self.weight = None if (weight == weight[0]).all() else weight
        n, self.added = len(bins), int(np.ceil(ADDED_ROWS * len(bins) / effective - 1e-9))
        own = np.cumsum(np.bincount(bins, weight, len(uniform)))
        self.below = (n * own + self.added * uniform) / (n + self.added)
        self.stretch = np.sqrt(effective / (effective - 1))

    def __call__(self, b: int, rng: np.random.Generator) -> np.ndarray:
        n, m = len(self.bins), len(self.uniform)
        row = rng.integers(0, n + self.added, (b, n), dtype=np.uint16).ravel()
        added = np.flatnonzero(row >= n)
        if len(added):
            row[added] = rng.integers(0, n, len(added), dtype=np.uint16)
        into = self.bins[row]
        into[added] = np.searchsorted(self.uniform, rng.random(len(added)))
        into.reshape(b, n)[:] += m * np.arange(b)[:, None]
        weight = None if self.weight is None else self.weight[row]
        mass = np.bincount(into, weight, b * m).reshape(b, m)
        below = np.cumsum(mass, axis=1, dtype=np.float64)
        below /= below[:, -1:].copy()
        below -= self.below
        below *= self.stretch
        return below


def from_all(uniform: np.ndarray, weight: np.ndarray, b: int, rng: np.random.Generator) -> np.ndarray:
    """Return F* of n rows drawn from the stratum's distinct scores, minus F of those scores (b, m)."""
    m = len(uniform)
    into = np.searchsorted(uniform, rng.random((b, len(weight))))
    into += m * np.arange(b)[:, None]
    mass = np.bincount(into.ravel(), np.broadcast_to(weight, into.shape).ravel(), b * m).reshape(b, m)
    return np.cumsum(mass, axis=1) - uniform


def _bridges(below: np.ndarray, sd: np.ndarray, b: int, rng: np.random.Generator) -> np.ndarray:
    """C − F·C(∞), C the running sum of independent normals with each bin's standard deviation (b, m)."""
    running = rng.standard_normal((b, len(sd)))
    running *= sd
    np.cumsum(running, axis=1, out=running)
    running -= below * running[:, -1:].copy()
    return running


def generator(random_state: Any) -> np.random.Generator:
    """Return a Generator as it is, or one seeded from anything that scikit-learn takes."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**32, dtype=np.uint64))


@dataclass(frozen=True)
class NoiseFloor:
    """Max gap of a score that has nothing to do with the groups, at this sample size.

    Attributes
    ----------
    mean : float
        On average.
    p95 : float
        Exceeded by chance one time in twenty.
    n_permutations : int
        How often the attribute was permuted.
    """

    mean: float
    p95: float
    n_permutations: int

    @classmethod
    def of(cls, max_gaps: np.ndarray) -> NoiseFloor:
        """Summarise permuted max gaps."""
        return cls(float(max_gaps.mean()), float(np.quantile(max_gaps, 0.95)), len(max_gaps))


@dataclass(frozen=True)
class PermutationTest:
    """Test of "the score has nothing to do with the group" (within each label, where the rule looks at it).

    Attributes
    ----------
    max_gap : float
        As measured, in the worst stratum.
    p_value : float
        (1 + permutations that move a group as far) / (1 + permutations). Each group's distance from the
        others is taken in units of its standard error, so that a small group hides no other; with two groups
        of equal weights this is the max gap.
    noise_floor : NoiseFloor
        What chance alone would show.
    noise_floor_by_stratum : tuple of NoiseFloor
        The same in each stratum.
    exact : bool
        Whether the attribute was really permuted, no group has unequal weights, and the same people are
        unknown in all attributes; above 100,000 rows the normal limit of permutations is used.
    """

    max_gap: float
    p_value: float
    noise_floor: NoiseFloor
    noise_floor_by_stratum: tuple[NoiseFloor, ...]
    exact: bool

    @classmethod
    def of(cls, max_gap: float, permuted: Permuted) -> PermutationTest:
        """Compare the groups as they are, and their measured max gap, with permuted ones."""
        # equal values may differ in their last digits
        as_large = np.count_nonzero(permuted.statistic >= permuted.measured * (1 - 1e-12))
        return cls(
            max_gap=max_gap,
            p_value=float((1 + as_large) / (1 + len(permuted.statistic))),
            noise_floor=NoiseFloor.of(permuted.max_gap.max(axis=1)),
            noise_floor_by_stratum=tuple(NoiseFloor.of(column) for column in permuted.max_gap.T),
            exact=permuted.exact,
        )


def _all_permuted(rows: ScoredRows) -> bool:
    """Return whether no stratum is so large that the normal limit takes the place of permutations."""
    stratum = rows.code[rows.code >= 0] // len(rows.groups)
    return bool(np.bincount(stratum).max() <= LARGE_STRATUM)


class Permuted(NamedTuple):
    """Max gap and statistic of each permutation."""

    max_gap: np.ndarray  # (n_permutations, h) of each stratum
    statistic: np.ndarray  # (n_permutations,) the largest standardised deviation of a group from the others
    measured: float  # the statistic of the groups as they are
    exact: bool


def permutations(rows: ScoredRows, n_permutations: int, random_state: Any) -> Permuted:
    """Permute the attribute within every stratum.

    The statistic is the maximum over groups of sup_t abs(z_g), z_g = (F_g − F_rest) / √(Σw²/W² of the group +
    that of the rest): each group counts in its own units, so that a small one, which moves far by chance,
    hides no other. Two groups in one stratum of equal weights: the max gap, up to a factor. Few rows and ties
    leave few values to that maximum, and many arrangements would tie with the one that came; the mean of z²
    over thresholds, times 1e-6, decides between them. Any statistic of the arrangement gives a valid test.
    """
    n_permutations = int(check_number("n_permutations", n_permutations, low=1, whole=True))
    rng = generator(random_state)
    # an exact test compares like with like: every distinct score is a bin, as it is in the measured gap
    binned = BinnedScores.of(rows, most=len(rows.score)) if _all_permuted(rows) else BinnedScores.of(rows)
    stratum = binned.code // binned.n_groups
    drawn, measured = [], []
    for h in range(binned.n_strata):
        mine = np.flatnonzero(stratum == h)
        ends = np.flatnonzero(np.diff(binned.bin[mine], append=-1))  # last row of each bin
        arrangement = _Arrangement.of(binned.code[mine] % binned.n_groups, binned.weight[mine], ends)
        draw, numbers = arrangement.permuted, len(mine)
        if len(mine) > LARGE_STRATUM:
            draw, numbers = arrangement.limit, arrangement.limit_size
        chunk = max(1, CHUNK // numbers)
        sizes = [min(chunk, n_permutations - i) for i in range(0, n_permutations, chunk)]
        drawn.append(np.concatenate([draw(b, rng) for b in sizes], axis=1))
        measured.append(arrangement.measured(arrangement.group[None])[1, 0])
    both = np.array(drawn)  # (h, 2, n_permutations)
    kept = rows.code >= 0
    exact = _all_permuted(rows) and weight_of_each(rows.code[kept], rows.weight[kept]) is not None
    return Permuted(both[:, 0].T, both[:, 1].max(axis=0), float(max(measured)), exact)


@dataclass(frozen=True)
class _Arrangement:
    """The rows of one stratum in the order of their scores, and the groups as they came.

    A deviation is F_g − F, F being everybody's, in units of the measured arrangement: one in which a group is
    twice as noisy as it is here is halved.
    """

    group: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) as heavy in one group as in another, among rows of about the same score
    ends: np.ndarray  # (m,) last row of each bin

    @classmethod
    def of(cls, group: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> _Arrangement:
        """Return rows whose weights are comparable between groups."""
        relative = weight / scales(group, weight, ends)[group]
        return cls(group, np.maximum(relative, LEAST_WEIGHT * relative.max()), ends)

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows of each group (k,)."""
        return np.bincount(self.group)

    @cached_property
    def totals(self) -> np.ndarray:
        """Weight of each group (k,)."""
        return np.bincount(self.group, self.weight)

    @cached_property
    def bins(self) -> np.ndarray:
        """The bin of each row (n,)."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=-1))

    @cached_property
    def below(self) -> np.ndarray:
        """Everybody's distribution function F (m,)."""
        running = np.cumsum(self.weight)
        return running[self.ends] / running[-1]

    @cached_property
    def units(self) -> np.ndarray:
        """What each group's deviation is multiplied by to become z (k,)."""
        return self._units(self.totals, np.bincount(self.group, self.weight * self.weight))

    def _units(self, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return z / (F_g − F) for a group with Σw = `total` and Σw² = `squares`."""
        everything = self.weight.sum()
        rest = np.maximum(everything - total, LEAST_REST * everything)
        rest_squares = np.maximum(self.weight @ self.weight - squares, 0.0)
        return everything / rest / np.sqrt(squares / total**2 + rest_squares / rest**2)

    def measured(self, moved: np.ndarray) -> np.ndarray:
        """Return max gap and statistic of each arrangement of the groups (b, n) → (2, b)."""
        return self._largest(self._deviation(moved == g, unit) for g, unit in enumerate(self.units))

    def _deviation(self, inside: np.ndarray, unit: float) -> np.ndarray:
        """Return F_g − F (b, m), g being the rows that are `inside` (b, n)."""
        mass = np.where(inside, self.weight, 0.0)
        squares = mass @ self.weight
        running = np.cumsum(mass, axis=1, out=mass)
        total = running[:, -1]
        deviation = running[:, self.ends]
        deviation /= total[:, None]
        deviation -= self.below
        noise = self._units(total, squares) / unit
        if (noise != 1).any():
            deviation *= noise[:, None]
        return deviation

    def _largest(self, deviations: Iterable[np.ndarray]) -> np.ndarray:
        """Return max gap and statistic (2, b) from each group's deviation (b, m), one in memory at a time."""
        high = low = np.zeros(())
        sup = square = np.zeros(())
        for g, (deviation, unit) in enumerate(zip(deviations, self.units, strict=True)):
            z = np.maximum(deviation.max(axis=1), -deviation.min(axis=1)) * unit
            sup = np.maximum(sup, z)
            square = square + np.einsum("bm,bm->b", deviation, deviation) * (unit**2 / len(self.ends))
            high = np.maximum(high, deviation) if g else deviation
            low = np.minimum(low, deviation) if g else deviation
        # in units of the measured arrangement a gap may come out above 1, which no gap is
        return np.stack([np.minimum((high - low).max(axis=1), 1.0), sup + TIE_BREAK * square])

    def permuted(self, b: int, rng: np.random.Generator) -> np.ndarray:
        """Return max gap and statistic of b permutations (2, b)."""
        group = self.group.astype(np.uint8)
        return self.measured(rng.permuted(np.broadcast_to(group, (b, len(group))), axis=1))

    @cached_property
    def limit_size(self) -> int:
        """How many numbers one draw of `limit` holds in memory."""
        few = self.counts[self.counts <= LARGE_CELL]
        return max(len(self.ends) * len(self.counts), int(few.max(initial=0)))

    def limit(self, b: int, rng: np.random.Generator) -> np.ndarray:
        """Draw max gap and statistic from the normal limit of the permutations (2, b).

        A group's distribution function moves about F like a bridge; what all groups share cancels in their
        differences. A small group's is far from normal: its rows are drawn from everybody.
        """
        groups = range(len(self.counts))
        moves = [
            _bridges(self.below, self.steps[g], b, rng)
            if self.counts[g] > LARGE_CELL
            else self._from_everybody(g, b, rng)
            for g in groups
        ]
        # a permutation only deals the rows out again: all groups together do not move
        everybody = sum(
            move * share for move, share in zip(moves, self.totals / self.totals.sum(), strict=True)
        )
        return self._largest(move - everybody for move in moves)

    @cached_property
    def steps(self) -> np.ndarray:
        """Standard deviation of a group's mass in each bin, under the null (k, m).

        Its square is E[w² | bin] / E[w | bin] · dF / W: the group's share of a bin is F's under the null,
        while its weights there are its own. Where the group has no rows, everybody's are taken.
        """
        m, k = len(self.ends), len(self.counts)
        into = self.group * m + self.bins
        square, mass = (
            np.bincount(into, power, k * m).reshape(k, m) for power in (self.weight**2, self.weight)
        )
        known = mass > 0
        ratio = np.where(known, square, square.sum(axis=0)) / np.where(known, mass, mass.sum(axis=0))
        return np.sqrt(ratio * np.diff(self.below, prepend=0.0) / self.totals[:, None])

    def _from_everybody(self, g: int, b: int, rng: np.random.Generator) -> np.ndarray:
        """Return F of rows drawn from everybody, minus F, scaled to the group's own Σw²/W² (b, m)."""
        row = rng.integers(0, len(self.group), (b, self.counts[g]))
        m = len(self.ends)
        into = (self.bins[row] + m * np.arange(b)[:, None]).ravel()
        weight = self.weight[row]
        running = np.cumsum(np.bincount(into, weight.ravel(), b * m).reshape(b, m), axis=1)
        total, squares = running[:, -1], np.einsum("bn,bn->b", weight, weight)
        mine = self.weight[self.group == g]
        noise = np.sqrt((mine @ mine) / mine.sum() ** 2 * total**2 / squares)
        return (running / total[:, None] - self.below) * noise[:, None]


def scales(group: np.ndarray, weight: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return how heavy the rows of each group are, compared with others of about the same score (k,).

    c_g of the model E[w | group, score] = c_g · a(score), the score in up to ten classes, fitted by giving
    each group and each class its own total in turn. Mean weights would not do: they differ also because
    one group has more rows of a heavy score, and that is what is being tested.
    """
    if (one_of_each := weight_of_each(group, weight)) is not None:
        return one_of_each
    k = group.max() + 1
    last = np.unique(ends[np.searchsorted(ends, np.linspace(0, len(group) - 1, CLASSES + 1)[1:])])
    m = len(last)
    into = group * m + np.repeat(np.arange(m), np.diff(last, prepend=-1))
    rows = np.bincount(into, minlength=k * m).reshape(-1, m)
    total = np.bincount(into, weight, k * m).reshape(-1, m)
    c = np.full(k, weight.mean())
    for _ in range(MOST_TURNS):
        before, c = c, total.sum(axis=1) / (rows @ (total.sum(axis=0) / (c @ rows)))
        if np.abs(c - before).max() <= 1e-14 * c.max():
            break
    return c


def weight_of_each(code: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Return the weight that all rows of each cell have; None where some cell has unequal ones."""
    one_of_each = np.zeros(code.max() + 1)
    one_of_each[code] = weight
    return one_of_each if (weight == one_of_each[code]).all() else None
