"""What the sample allows to say: bands, tests, certificates and intervals that hold at every threshold.

Conventions
-----------
A pair is two cells of one stratum; its signed gap at t is rate(first) − rate(second). A band is one
half-width per pair, the same at all thresholds, and all of them hold together with probability `level`. Every
interval of a summary of the curve is read off the same deviations, by
abs(summary(Δ̂) − summary(Δ)) ≤ summary(Δ̂ − Δ): this holds whatever the true curve is, where resampling a
maximum or a mean of absolute values is biased upwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from evenrisk._validation import check_choice, check_fraction, check_number
from evenrisk.curves import gaps
from evenrisk.metrics._permutation import is_exact, permutations
from evenrisk.metrics._resampling import Binned, generator
from evenrisk.metrics._results import (
    Band,
    Certificate,
    Interval,
    Intervals,
    NoiseFloor,
    PermutationTest,
    pair_cells,
)

if TYPE_CHECKING:
    from evenrisk.metrics.profile import ThresholdProfile

METHODS = ("bootstrap", "dkw")
MANY_GROUPS = 20  # above, a pair's deviation is bounded by the sum of its cells', not drawn


def permutation_test(profile: ThresholdProfile, n_permutations: int, random_state: Any) -> PermutationTest:
    """Compare the groups as they are with permuted ones."""
    permuted = permutations(profile._rows, n_permutations, random_state)
    # equal values may differ in their last digits
    as_large = np.count_nonzero(permuted.statistic >= permuted.measured * (1 - 1e-12))
    return PermutationTest(
        max_gap=profile.max_gap,
        p_value=float((1 + as_large) / (1 + len(permuted.statistic))),
        noise_floor=NoiseFloor.of(permuted.max_gap.max(axis=1)),
        noise_floor_by_stratum=tuple(NoiseFloor.of(column) for column in permuted.max_gap.T),
        exact=is_exact(profile._rows),
    )


def band(profile: ThresholdProfile, level: float, method: str, n_resamples: int, random_state: Any) -> Band:
    """Give every pair its half-width."""
    check_fraction("level", level)
    check_choice("method", method, METHODS)
    binned = profile._binned
    if method == "dkw":
        width = _dkw(profile, level, binned)
    else:
        sups = _sups(binned, check_resamples(n_resamples, level), generator(random_state))
        width = _balanced(sups, level)
        fewest = np.minimum(*(binned.effective[cells] for cells in _pairs(binned)))
        width = np.maximum(width, unseen(fewest, level))
    names = profile.groups
    pairs = tuple((names[a], names[b]) for a, b in zip(*pair_cells(1, len(names)), strict=True))
    width = np.minimum(width, 2.0).reshape(len(profile.parity.strata), len(pairs))
    return Band(profile.thresholds, pairs, width, level, method, profile.rates)


def check_resamples(n_resamples: Any, level: float) -> int:
    """As many that a share `level` of them and one more is at most all of them."""
    least = int(np.ceil(level / (1 - level) - 1e-9))
    return int(check_number("n_resamples", n_resamples, low=least, whole=True))


def _dkw(profile: ThresholdProfile, level: float, binned: Binned) -> np.ndarray:
    """Massart's inequality for all c cells together: ε_a + ε_b, ε_a = √(ln(2c / α) / 2n_a)."""
    if profile._rows.weighted:
        raise ValueError(
            "method='dkw' must have rows of equal weight, got unequal `sample_weight`: the inequality does "
            "not hold for weighted rows. Use method='bootstrap'"
        )
    epsilon = np.sqrt(np.log(2 * binned.n_cells / (1 - level)) / (2 * binned.counts))
    first, second = _pairs(binned)
    return epsilon[first] + epsilon[second]


def _sups(binned: Binned, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """sup over t of |Δ*(t) − Δ(t)| of every pair in every resample (n_resamples, pairs)."""
    first, second = _pairs(binned)
    parts = []
    for deviation in binned.deviations(n_resamples, rng):
        if binned.n_groups > MANY_GROUPS:
            by_cell = np.abs(deviation).max(axis=2)
            parts.append(by_cell[:, first] + by_cell[:, second])
        else:
            differences = (deviation[:, a] - deviation[:, b] for a, b in zip(first, second, strict=True))
            parts.append(np.stack([_largest(difference) for difference in differences], axis=1))
    return np.concatenate(parts)


def _largest(values: np.ndarray) -> np.ndarray:
    """Largest absolute value along the last axis."""
    return np.maximum(values.max(axis=-1), -values.min(axis=-1))


def _balanced(sups: np.ndarray, level: float) -> np.ndarray:
    """Half-widths that hold together, each in units of its pair's mean: small cells widen no other."""
    scale = sups.mean(axis=0)
    relative = sups / np.where(scale > 0, scale, 1.0)
    return upper_quantile(relative.max(axis=1), level) * scale


def unseen(n: np.ndarray, level: float) -> np.ndarray:
    """1 − α^(1/n): a share of people that n rows may miss altogether; resamples of constants never move."""
    return -np.expm1(np.log1p(-level) / n)


def upper_quantile(values: np.ndarray, level: float) -> float:
    """The smallest of the values that at least a share `level` of n + 1 do not exceed."""
    rank = int(np.ceil((len(values) + 1) * level - 1e-9))
    return float(np.sort(values)[min(rank, len(values)) - 1])


def certify(profile: ThresholdProfile, limit: float, measured: Band) -> Certificate:
    """Hold the band's interval against the limit."""
    interval = measured.max_gap
    verdict = "not decidable"
    if interval.high <= limit:
        verdict = "certified"
    elif interval.low > limit:
        verdict = "violated"
    needed = _rows_needed(profile, limit, measured) if verdict == "not decidable" else None
    return Certificate(verdict, float(limit), interval, needed, measured.level, measured.method)


def _rows_needed(profile: ThresholdProfile, limit: float, measured: Band) -> int | None:
    """n per cell so that half-widths fall under |measured gap − limit|; they fall like √(1/n_a + 1/n_b)."""
    binned = profile._binned
    first, second = _pairs(binned)
    per_row = 1 / binned.effective
    unit = measured.half_width.ravel() / np.sqrt(per_row[first] + per_row[second])
    if measured.method == "dkw":  # √n_a and √n_b add here
        unit = np.full(len(first), np.sqrt(np.log(2 * binned.n_cells / (1 - measured.level))))
    cells = profile.rates.reshape(binned.n_cells, -1)
    gap = np.array([_largest(cells[a] - cells[b]) for a, b in zip(first, second, strict=True)])
    design = float((binned.counts / binned.effective).max())
    short = np.abs(gap - limit)
    with np.errstate(divide="ignore"):
        needed = np.ceil(design * 2 * (unit / np.where(short < 1e-12, 0.0, short)) ** 2)
    # one pair above the limit is enough to say so; to certify, all must be under it
    above = gap > limit
    rows = needed[above].min() if above.any() else needed.max()
    return int(rows) if np.isfinite(rows) else None


def intervals(
    profile: ThresholdProfile, measured: Band, threshold: float | None, n_resamples: int, random_state: Any
) -> Intervals:
    """Intervals of the summaries, each at the band's level."""
    binned = profile._binned
    spread = np.diff(binned.thresholds, append=binned.thresholds[-1])
    mean_parts, rank_parts = [], []
    for deviation in binned.deviations(n_resamples, generator(random_state)):
        shape = (len(deviation), binned.n_strata, binned.n_groups, -1)
        by_stratum = gaps(deviation.reshape(shape))
        mean_parts.append((by_stratum @ spread).mean(axis=1))
        rank_parts.append(_rank_deviation(binned, deviation.reshape(shape), by_stratum))
    reach = float(spread.sum())  # no gap is above 1
    least = float(unseen(binned.effective, measured.level).max())
    at = None if threshold is None else _gap_at(profile, float(threshold), measured.level, binned)
    return Intervals(
        max_gap=measured.max_gap,
        mean_gap=_around(profile.mean_gap, mean_parts, measured.level, least * reach, reach),
        rank_gap=_around(profile.rank_gap, rank_parts, measured.level, least, 1.0),
        gap_at=at,
        level=measured.level,
    )


def _around(value: float, parts: list[np.ndarray], level: float, least: float, most: float) -> Interval:
    """The value ± a quantile of the drawn deviations, or what may have gone unseen if that is more."""
    width = max(upper_quantile(np.concatenate(parts), level), least)
    return Interval(value, max(value - width, 0.0), min(value + width, most))


def _rank_deviation(binned: Binned, deviation: np.ndarray, by_stratum: np.ndarray) -> np.ndarray:
    """∫ gap(Δ*−Δ) dH* + |∫ gap d(H*−H)|, H the pooled distribution of the stratum, mean over strata (b,)."""
    mass = binned.mass.reshape(binned.n_strata, binned.n_groups, -1)
    total = mass.sum(axis=2, keepdims=True)
    below = np.cumsum(mass, axis=2) / total
    share = mass.sum(axis=1) / mass.sum(axis=(1, 2))[:, None]
    moved = np.diff(
        np.einsum("hk,bhkm->bhm", (total / total.sum(axis=1, keepdims=True))[..., 0], deviation), prepend=0.0
    )
    first = np.einsum("bhm,bhm->bh", by_stratum, np.maximum(share + moved, 0.0))
    second = np.abs(np.einsum("hm,bhm->bh", gaps(below), moved))
    return (first + second).mean(axis=1)


def _gap_at(profile: ThresholdProfile, t: float, level: float, binned: Binned) -> Interval:
    """Newcombe's interval for the difference of two rates, Bonferroni over pairs and strata."""
    rates = profile.rates_at(t).ravel()
    first, second = _pairs(binned)
    low, high = wilson(rates, binned.effective, 1 - (1 - level) / len(first))
    a, b = first, second
    gap = rates[a] - rates[b]
    down = gap - np.hypot(rates[a] - low[a], high[b] - rates[b])
    up = gap + np.hypot(high[a] - rates[a], rates[b] - low[b])
    nearest = np.where((down <= 0) & (up >= 0), 0.0, np.minimum(np.abs(down), np.abs(up)))
    furthest = np.maximum(np.abs(down), np.abs(up))
    ends = (end.reshape(binned.n_strata, -1).max(axis=1).mean() for end in (nearest, furthest))
    return Interval(float(profile.at(t)), *(float(min(end, 1.0)) for end in ends))


def wilson(rate: np.ndarray, n: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval of a rate seen in n rows."""
    z = norm.ppf(0.5 + level / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    width = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    low, high = np.maximum(centre - width, 0.0), np.minimum(centre + width, 1.0)
    return np.minimum(low, rate), np.maximum(high, rate)


def _pairs(binned: Binned) -> tuple[np.ndarray, np.ndarray]:
    """First and second cell of every pair in every stratum."""
    return pair_cells(binned.n_strata, binned.n_groups)
