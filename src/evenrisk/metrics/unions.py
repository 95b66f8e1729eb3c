"""Resampling and permutation where unions of classes are compared, or groups are soft.

A row may then be in several of the curves that are compared: in "up to 30" and "up to 40", in a sex and in a
race, in every soft group with a share. So whole rows are drawn, and all curves move together.

The bootstrap. Rows of a stratum are drawn with replacement, at most 20,000 of them: of more rows the
deviations are scaled by √(rows drawn / rows), which has the same limit and costs no more. A union that few
of the drawn rows would be in is resampled by itself, from its own rows. As in `resampling`, which says why, a
union of fewer than 30 (effective) rows is drawn from all distinct scores alike, and of up to 1,000 a few of
the rows drawn are replaced by others from all distinct scores alike.

Permutations. Rows of the attribute table are dealt out again among the people of a stratum; score and weight
stay together. The statistic is the largest standardised difference of the curves that are compared, at a
thousand thresholds or more: any statistic of the arrangement gives a valid test. Weights are made comparable
between classes as in `resampling`; a person who gets another row of the table keeps the person's own part of
the weight and gets the part that the classes in that row have. Above 100,000 rows so many of them are dealt.

Conventions
-----------
n rows of one stratum, in the order of their scores; m bins; u unions, and one more of everybody who is
compared; everything by stratum (h) and union is flat, h·u, and those of everybody follow at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenrisk._validation import SMALL_CELL, check_number
from evenrisk.curves import run_ends
from evenrisk.metrics.resampling import (
    ADDED_ROWS,
    CHUNK,
    LARGE_CELL,
    LARGE_STRATUM,
    TIE_BREAK,
    BinnedScores,
    Permuted,
    from_all,
    generator,
    scales,
    weight_of_each,
)
from evenrisk.metrics.rows import ScoredRows
from evenrisk.parity import Contrasts

MOST_NUMBERS = 2**19  # bins times unions
FEWEST_BINS, MOST_BINS = 1024, 8192
FEWEST_DRAWN = 200  # rows of a union in a resample, on average; with fewer it is drawn by itself
FEW_ROWS = 1000  # of a union; up to here some of the rows drawn are from all distinct scores alike


@dataclass(frozen=True)
class StratumRows:
    """The compared rows of one stratum, in the order of their scores."""

    bins: np.ndarray  # (n,) in 0 … m−1
    members: list[tuple[np.ndarray, np.ndarray]]  # class, −1 = none, and weight of each row
    everybody: np.ndarray  # (n,) how much of each row is compared
    weight: np.ndarray  # (n,) of each row, whole
    group: np.ndarray  # (n,) a code of all that a row is
    unions: np.ndarray  # (u, c)
    m: int
    soft: bool

    @cached_property
    def uniform(self) -> np.ndarray:
        """F of the bins that occur, all as likely (m,)."""
        occurs = np.cumsum(np.bincount(self.bins, minlength=self.m) > 0)
        return occurs / occurs[-1]

    def row_weights(self, u: int) -> np.ndarray:
        """Return how much of each row is in a union (n,); everybody is the last."""
        if u == len(self.unions):
            return self.everybody
        inside = np.append(self.unions[u], 0.0)  # the last is of −1
        return np.asarray(sum(inside[code] * weight for code, weight in self.members))

    def curves(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return F of each union and of everybody (b, u + 1, m): of `rows` (b, n), or of all as they are."""
        b = 1 if rows is None else len(rows)
        mass = np.concatenate(
            [self.mass(rows), self._sums(np.zeros(len(self.bins), int), self.everybody, 1, rows)], axis=1
        )
        below = np.cumsum(mass, axis=2, out=mass)
        total = below[:, :, -1:].copy()
        below /= np.where(total > 0, total, 1.0)
        return below.reshape(b, -1, self.m)

    def mass(self, rows: np.ndarray | None) -> np.ndarray:
        """Return the weight of each union in each bin (b, u, m)."""
        total: np.ndarray | float = 0.0
        for code, weight in self.members:
            place, c, here = self.places(code)
            by_class = self._sums(place, weight, c, rows)[:, : len(here)]
            total = total + self.unions[:, here] @ by_class
        return np.asarray(total)

    def places(self, code: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
        """Return where each row's class is among those that occur, the number of places, and the classes.

        The last place is of rows in no class.
        """
        here = np.unique(code[code >= 0])  # an attribute's classes, or one soft group
        place = np.searchsorted(here, code)
        place[code < 0] = len(here)
        return place, len(here) + 1, here

    def take(self, some: np.ndarray) -> StratumRows:
        """Return some of the rows, by index; bins and unions stay as they are."""
        return replace(
            self,
            bins=self.bins[some],
            members=[(code[some], weight[some]) for code, weight in self.members],
            everybody=self.everybody[some],
            weight=self.weight[some],
            group=self.group[some],
        )

    def _sums(self, code: np.ndarray, weight: np.ndarray, c: int, rows: np.ndarray | None) -> np.ndarray:
        """Return Σ weight by code and bin (b, c, m)."""
        flat, size = code * self.m + self.bins, c * self.m
        if rows is None:
            return np.bincount(flat, weight, size).reshape(1, c, self.m)
        b = len(rows)
        into = flat[rows]
        into += size * np.arange(b)[:, None]
        equal = bool((weight == weight[0]).all())
        values = None if equal else weight[rows].ravel()
        found = np.bincount(into.ravel(), values, b * size).astype(np.float64, copy=False)
        return (found * weight[0] if equal else found).reshape(b, c, self.m)


@dataclass(frozen=True)
class BinnedUnions:
    """Rows that are compared, in the order of their scores, and the bins they fall in."""

    strata: list[StratumRows]
    thresholds: np.ndarray  # (m,) the last score of each bin
    pairs: np.ndarray  # (q, 2) of unions, of all strata
    soft: bool

    @classmethod
    def of(cls, rows: ScoredRows, contrasts: Contrasts | None = None) -> BinnedUnions:
        """Sort the rows and choose bins: the distinct scores, or if many, runs of about equal size."""
        contrasts = rows.contrasts if contrasts is None else contrasts
        assert rows.compared is not None
        h, u = len(rows.parity.strata), len(contrasts.unions)
        kept = np.flatnonzero((rows.compared.weight_compared(rows.weight) > 0) & (rows.stratum >= 0))
        rows = rows.take(kept[np.argsort(rows.score[kept], kind="stable")])
        ends = run_ends(rows.score)
        most = int(np.clip(MOST_NUMBERS // (h * u), FEWEST_BINS, MOST_BINS))
        if len(ends) > most:
            equal = np.linspace(0, len(rows.score) - 1, most + 1)[1:]
            ends = np.unique(ends[np.searchsorted(ends, equal)])
        bins = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))
        strata, soft = [], rows.compared is not None and rows.compared.share is not None
        for i in range(h):
            mine = np.flatnonzero(rows.stratum == i)
            few = rows.take(mine)
            assert few.compared is not None
            everybody = few.compared.weight_compared(few.weight)
            strata.append(
                StratumRows(
                    bins[mine],
                    list(few.members()),
                    everybody,
                    few.weight,
                    few.group,
                    contrasts.unions,
                    len(ends),
                    soft,
                )
            )
        pairs = np.vstack([contrasts.pairs + u * i for i in range(h)])
        return cls(strata, rows.score[ends], pairs, soft)

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return len(self.strata)

    @property
    def n_compared(self) -> int:
        """Number of unions in all strata, h·u."""
        return sum(len(each.unions) for each in self.strata)

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, effective rows and weight of each union in each stratum, (h·u,) each."""
        found = []
        for each in self.strata:
            for u in range(len(each.unions)):
                w = each.row_weights(u)
                rows = (w / each.weight).sum() if self.soft else (w > 0).sum()
                w = w / max(w.max(initial=0.0), np.finfo(float).tiny)
                found.append((rows, w.sum() ** 2 / max((w @ w), np.finfo(float).tiny), w.sum()))
        return tuple(np.array(found, dtype=np.float64).T)

    @property
    def counts(self) -> np.ndarray:
        """Rows of each union (h·u,)."""
        return self._weights[0]

    @property
    def effective(self) -> np.ndarray:
        """Kish's effective number of rows of each union (h·u,)."""
        return self._weights[1]

    def deviations(self, n_resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield F* − F of `n_resamples` resamples, a chunk at a time: (b, h·u + h, m)."""
        resamplers = [
            Resampler(each, effective)
            for each, effective in zip(self.strata, self.effective.reshape(self.n_strata, -1), strict=True)
        ]
        chunk = max(1, CHUNK // max(each.size for each in resamplers))
        for first in range(0, n_resamples, chunk):
            b = min(chunk, n_resamples - first)
            found = [each(b, rng) for each in resamplers]
            yield np.concatenate([each[:, :-1] for each in found] + [each[:, -1:] for each in found], axis=1)

    def pooled(self, deviation: np.ndarray) -> np.ndarray:
        """Return F* − F of everybody in each stratum (b, h, m)."""
        return deviation[:, self.n_compared :]

    @cached_property
    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """F of each union (h, u, m) and everybody's share of each bin (h, m)."""
        both = np.stack([each.curves()[0] for each in self.strata])
        return both[:, :-1], np.diff(both[:, -1], prepend=0.0, axis=1)


def binned_rows(rows: ScoredRows) -> BinnedScores | BinnedUnions:
    """Return rows in order, on the bins that inference works with."""
    return BinnedScores.of(rows) if rows.compared is None else BinnedUnions.of(rows)


class Resampler:
    """F* − F of all unions of one stratum."""

    def __init__(self, rows: StratumRows, effective: np.ndarray) -> None:
        self.rows, self.effective = rows, effective
        self.n = len(rows.bins)
        self.drawn = min(self.n, LARGE_CELL)
        self.below = rows.curves()[0]  # (u + 1, m)
        self.size = max(self.drawn, self.below.size)
        self.small = np.flatnonzero(effective < SMALL_CELL)
        self.alone = np.zeros(0, dtype=int)
        if self.drawn < self.n:
            counts = np.array([np.count_nonzero(rows.row_weights(u)) for u in range(len(rows.unions))])
            few = counts * (self.drawn / self.n) < FEWEST_DRAWN
            self.alone = np.setdiff1d(np.flatnonzero(few), self.small)
        self.mixed = np.flatnonzero((effective >= SMALL_CELL) & (effective <= FEW_ROWS))

    def __call__(self, b: int, rng: np.random.Generator) -> np.ndarray:
        """Draw (b, u + 1, m)."""
        rows = self.rows
        deviation = rows.curves(rng.integers(0, self.n, (b, self.drawn)))
        deviation -= self.below
        deviation *= np.sqrt(self.drawn / self.n)
        for u in self.alone.tolist():
            deviation[:, u] = self._own(u, b, rng)
        for u in self.small.tolist():
            weight = rows.row_weights(u)
            weight = weight[weight > 0]
            deviation[:, u] = from_all(rows.uniform, weight / weight.sum(), b, rng)
        for u in self.mixed.tolist():
            deviation[:, u] = self._mixed(deviation[:, u], u, b, rng)
        return deviation

    def _own(self, u: int, b: int, rng: np.random.Generator) -> np.ndarray:
        """Return F* of rows drawn from a union's own, minus F (b, m)."""
        weight = self.rows.row_weights(u)
        own = np.flatnonzero(weight)
        n = min(len(own), LARGE_CELL)
        row = own[rng.integers(0, len(own), (b, n))]
        into = self.rows.bins[row] + self.rows.m * np.arange(b)[:, None]
        mass = np.bincount(into.ravel(), weight[row].ravel(), b * self.rows.m).reshape(b, -1)
        below = np.cumsum(mass, axis=1)
        return (below / below[:, -1:] - self.below[u]) * np.sqrt(n / len(own))

    def _mixed(self, deviation: np.ndarray, u: int, b: int, rng: np.random.Generator) -> np.ndarray:
        """Replace a few of the rows drawn by others from all distinct scores alike.

        Of n rows k are replaced, as many as come from the four added ones when n are drawn from n + 4.
        """
        m, uniform, n = self.rows.m, self.rows.uniform, self.effective[u]
        rate = ADDED_ROWS / (n + ADDED_ROWS)
        k = rng.binomial(round(n), rate, b)
        into = np.searchsorted(uniform, rng.random((b, max(k.max(), 1))))
        is_drawn = np.arange(into.shape[1]) < k[:, None]
        into += m * np.arange(b)[:, None]
        mass = np.bincount(into.ravel(), is_drawn.ravel(), b * m).reshape(b, m)
        added = np.cumsum(mass, axis=1) / n  # (k/n)·F of the k
        share = (k / n)[:, None]
        moved = np.sqrt(1 - share) * deviation + added - rate * uniform + (rate - share) * self.below[u]
        return moved * np.sqrt(n / (n - 1))


def permuted_unions(rows: ScoredRows, n_permutations: int, random_state: Any) -> Permuted:
    """Deal out the rows of the attribute table in every stratum."""
    n_permutations = int(check_number("n_permutations", n_permutations, low=1, whole=True))
    rng = generator(random_state)
    tables = [Table(each, rows.contrasts.pairs) for each in BinnedUnions.of(rows).strata]
    drawn = []  # (h, 2, n_permutations)
    for table in tables:
        some = table.subsample(rng)
        chunk = max(1, CHUNK // some.size)
        sizes = [min(chunk, n_permutations - i) for i in range(0, n_permutations, chunk)]
        drawn.append(np.concatenate([some.permuted(b, rng) for b in sizes], axis=1))
    both = np.array(drawn)
    measured = max(table.measured for table in tables)
    exact = all(table.is_exact for table in tables)
    return Permuted(both[:, 0].T, both[:, 1].max(axis=0), measured, exact)


class Table:
    """The attribute table of one stratum beside its scores and weights.

    A person's weight is a part of the person's own, which stays with the score, times a part that moves with
    the row of the table: that of all people who are alike in it.
    """

    def __init__(self, rows: StratumRows, pairs: np.ndarray, units: np.ndarray | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        n, m = len(rows.bins), rows.m
        group = np.unique(rows.group, return_inverse=True)[1].reshape(-1)
        self.of_row = np.ones(n)
        if not rows.soft:
            ends = np.flatnonzero(np.diff(rows.bins, append=-1))
            self.of_row = scales(group, rows.weight, ends)[group]
        self.own = rows.weight / self.of_row
        self.equal = bool(np.ptp(self.own) == 0 and np.ptp(self.of_row) == 0)
        one_of_each = self.equal if rows.soft else weight_of_each(group, rows.weight) is not None
        # which values are unknown moves with the row, and may have to do with the score
        known = [code >= 0 for code, _ in rows.members]
        alike = rows.soft or all((each == known[0]).all() for each in known)
        self.is_exact = one_of_each and alike and n <= LARGE_STRATUM
        self.columns = [
            (*rows.places(code), weight / rows.weight if rows.soft else None) for code, weight in rows.members
        ]  # places, their number, classes, shares
        self.inside = np.array([rows.row_weights(u) / rows.weight for u in range(len(rows.unions))])  # (u, n)
        self.noise = self._noise(rows.weight, slice(None))
        self.units = self.noise if units is None else units
        self.size = max(n, m * len(rows.unions), m * max(c for _, c, *_ in self.columns))

    @property
    def measured(self) -> float:
        """The statistic as the rows are."""
        return float(self._largest(np.arange(len(self.own))[None])[1, 0])

    def subsample(self, rng: np.random.Generator) -> Table:
        """Return at most `LARGE_STRATUM` of the rows; gaps stay in the units of all of them."""
        n = len(self.own)
        if n <= LARGE_STRATUM:
            return self
        return Table(
            self.rows.take(np.sort(rng.choice(n, LARGE_STRATUM, replace=False))), self.pairs, self.units
        )

    def permuted(self, b: int, rng: np.random.Generator) -> np.ndarray:
        """Return max gap and statistic of b arrangements (2, b)."""
        order = np.arange(len(self.own), dtype=np.int32)
        return self._largest(rng.permuted(np.broadcast_to(order, (b, len(order))), axis=1))

    def _noise(self, weight: np.ndarray, dealt: Any) -> np.ndarray:
        """Return √(Σw²/W²) of the difference of the curves in each comparison (q,)."""
        share = self.inside[:, dealt] * weight
        share /= share.sum(axis=1, keepdims=True)
        return np.sqrt(((share[self.pairs[:, 0]] - share[self.pairs[:, 1]]) ** 2).sum(axis=1))

    def _largest(self, dealt: np.ndarray) -> np.ndarray:
        """Return max gap and statistic of arrangements (b, n) of the rows of the table → (2, b)."""
        below = self._curves(dealt)
        noise = np.broadcast_to(self.noise, (len(dealt), len(self.pairs)))
        if not self.equal:
            noise = np.array([self._noise(self.own * self.of_row[each], each) for each in dealt])
        gap = sup = square = np.zeros(len(dealt))
        for (first, second), here, unit in zip(self.pairs, noise.T, self.units, strict=True):
            z = (below[:, first] - below[:, second]) / here[:, None]
            largest = np.maximum(z.max(axis=1), -z.min(axis=1))
            sup = np.maximum(sup, largest)
            square = square + np.einsum("bm,bm->b", z, z) / self.rows.m
            gap = np.maximum(gap, largest * unit)
        # in units of the measured arrangement a gap may come out above 1, which no gap is
        return np.stack([np.minimum(gap, 1.0), sup + TIE_BREAK * square])

    def _curves(self, dealt: np.ndarray) -> np.ndarray:
        """Return F of each union (b, u, m)."""
        b, m = len(dealt), self.rows.m
        weight = None if self.equal else self.own * self.of_row[dealt]
        mass: np.ndarray | float = 0.0
        for place, c, here, share in self.columns:
            into = place[dealt] * m
            into += self.rows.bins
            into += (c * m) * np.arange(b)[:, None]
            values = weight if share is None else share[dealt] * (1.0 if weight is None else weight)
            found = np.bincount(into.ravel(), None if values is None else values.ravel(), b * c * m)
            mass = mass + self.rows.unions[:, here] @ found.reshape(b, c, m)[:, : len(here)].astype(float)
        below = np.cumsum(mass, axis=2)
        below /= below[:, :, -1:].copy()
        return below
