"""What the sample allows to say of the curve: bands, certificates and intervals, valid at every threshold.

Conventions
-----------
A pair is two cells of one stratum, or two unions of cells; its signed gap at t is rate(first) − rate(second).
A band is one half-width per pair, the same at all thresholds, and all of them hold together with probability
`level`. Every
interval of a summary of the curve is computed from the same deviations, by
abs(summary(Δ̂) − summary(Δ)) ≤ summary(Δ̂ − Δ): this holds whatever the true curve is, where resampling a
maximum or a mean of absolute values is biased upwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import norm

from evenrisk._validation import check_choice, check_fraction, check_number
from evenrisk.curves import gaps
from evenrisk.metrics.resampling import BinnedScores, generator
from evenrisk.metrics.unions import BinnedUnions

if TYPE_CHECKING:
    from evenrisk.metrics.profile import ThresholdProfile

METHODS = ("bootstrap", "dkw")
MANY_GROUPS = 20  # above, a pair's deviation is bounded by the sum of its groups', not drawn
MANY_PAIRS = MANY_GROUPS * (MANY_GROUPS - 1) // 2  # in a stratum


class Interval(NamedTuple):
    """A measured value and the interval that holds the true one.

    Attributes
    ----------
    value : float
        As measured.
    low, high : float
        The interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Band:
    """Simultaneous band for the signed gap of all that is compared, in every stratum.

    With probability `level` all true curves lie in their bands, at all thresholds at once.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Every distinct score.
    pairs : tuple of (str, str)
        The p pairs of groups, or of unions of groups, that are compared; a pair's gap is the rate of the
        first minus that of the second.
    half_width : ndarray of shape (h, p)
        By stratum and pair.
    level : float
        Probability.
    method : str
        "bootstrap" or "dkw".
    """

    thresholds: np.ndarray
    pairs: tuple[tuple[str, str], ...]
    half_width: np.ndarray
    level: float
    method: str
    _rates: np.ndarray  # (h, u, m)
    _compared: np.ndarray  # (p, 2) the pairs, as places in the rates

    @property
    def gap(self) -> np.ndarray:
        """The signed gap of every stratum and pair (h, p, m)."""
        first, second = self._compared.T
        return self._rates[:, first] - self._rates[:, second]

    @property
    def lower(self) -> np.ndarray:
        """Lower end of the band (h, p, m)."""
        return np.maximum(self.gap - self.half_width[..., None], -1.0)

    @property
    def upper(self) -> np.ndarray:
        """Upper end of the band (h, p, m)."""
        return np.minimum(self.gap + self.half_width[..., None], 1.0)

    @cached_property
    def gap_by_stratum(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the gap (largest − smallest rate) in each stratum, (h, m) each."""
        low = np.zeros_like(self._rates[:, 0])
        high = np.zeros_like(low)
        for i, (a, b) in enumerate(self._compared):
            gap, width = np.abs(self._rates[:, a] - self._rates[:, b]), self.half_width[:, i, None]
            np.maximum(low, gap - width, out=low)
            np.maximum(high, gap + width, out=high)
        return low, np.minimum(high, 1.0)

    @property
    def worst_gap(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the gap in the worst stratum at each threshold, (m,) each."""
        low, high = self.gap_by_stratum
        return low.max(axis=0), high.max(axis=0)

    @property
    def max_gap(self) -> Interval:
        """The max gap with its interval, read off the band."""
        low, high = self.gap_by_stratum
        largest = max(float(_largest(self._rates[:, a] - self._rates[:, b]).max()) for a, b in self._compared)
        return Interval(largest, float(low.max()), float(high.max()))

    @cached_property
    def gap_by_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the largest gap over all thresholds, by stratum and pair, (h, p) each."""
        gap = np.stack([_largest(self._rates[:, a] - self._rates[:, b]) for a, b in self._compared], axis=1)
        return np.maximum(gap - self.half_width, 0.0), np.minimum(gap + self.half_width, 1.0)

    @property
    def worst_pair(self) -> tuple[str, str]:
        """The pair with the largest measured gap."""
        largest = [float(_largest(self._rates[:, a] - self._rates[:, b]).max()) for a, b in self._compared]
        return self.pairs[int(np.argmax(largest))]

    def __repr__(self) -> str:
        gap = self.max_gap
        which = f" of {' against '.join(self.worst_pair)}" if len(self.pairs) > 1 else ""
        return (
            f"Band({self.level:g}, {self.method}: half-width {self.half_width.min():.3f} to "
            f"{self.half_width.max():.3f}, max gap {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]{which})"
        )


@dataclass(frozen=True)
class Certificate:
    """Whether the max gap is under a limit, as far as this sample can tell.

    Attributes
    ----------
    verdict : {"certified", "violated", "not decidable"}
        Surely not above the limit, surely above it, or neither.
    limit : float
        The limit.
    max_gap : Interval
        As measured, with the interval that decides.
    rows_needed : int or None
        Rows on each side of every comparison (and label, where the rule looks at it) with which the measured
        gap would be decided; None where it is decided already, or where it equals the limit.
    level : float
        Probability of being right.
    method : str
        "bootstrap" or "dkw".
    worst : str
        Where the measured max gap is, and between whom.
    """

    verdict: str
    limit: float
    max_gap: Interval
    rows_needed: int | None
    level: float
    method: str
    worst: str = field(compare=False)  # its threshold is in units of the score


@dataclass(frozen=True)
class Intervals:
    """Summaries of the curve with their intervals.

    Attributes
    ----------
    max_gap, mean_gap, rank_gap : Interval
        As on the profile.
    gap_at : Interval or None
        The gap at one threshold, averaged over strata.
    level : float
        Probability, of each interval on its own.
    """

    max_gap: Interval
    mean_gap: Interval
    rank_gap: Interval
    gap_at: Interval | None
    level: float


class Inference:
    """Bands, certificates and intervals of one profile at one level; a band is computed once.

    An integer `random_state` starts every part from the same seed, so that asking for one part changes no
    other; a Generator is used up from part to part.
    """

    def __init__(
        self, profile: ThresholdProfile, level: float, n_resamples: int = 1000, random_state: Any = None
    ) -> None:
        self.profile = profile
        self.level = check_fraction("level", level)
        self.binned = profile._binned
        self.n_resamples = n_resamples
        self.random_state = random_state
        self._bands: dict[str, Band] = {}

    def band(self, method: str) -> Band:
        """Return the band by a method."""
        check_choice("method", method, METHODS)
        if method not in self._bands:
            names, compared = self.profile.groups, self.profile.pairs
            pairs = tuple((names[a], names[b]) for a, b in compared)
            width = self._dkw() if method == "dkw" else self._bootstrap()
            width = np.minimum(width, 2.0).reshape(len(self.profile.parity.strata), len(pairs))
            self._bands[method] = Band(
                self.profile.thresholds, pairs, width, self.level, method, self.profile.rates, compared
            )
        return self._bands[method]

    def _bootstrap(self) -> np.ndarray:
        """Return the half-width of every pair (h·p,) from resamples."""
        binned = self.binned
        n_resamples = check_resamples(self.n_resamples, self.level)
        width = _balanced(sups(binned, n_resamples, generator(self.random_state)), self.level)
        fewest = np.minimum(*(binned.effective[side] for side in binned.pairs.T))
        return np.maximum(width, unseen(fewest, self.level))

    def _dkw(self) -> np.ndarray:
        """Massart's inequality for all c curves together: ε_a + ε_b, ε_a = √(ln(2c / α) / 2n_a)."""
        if self.binned.soft:
            raise ValueError(
                "method='dkw' must have rows that are in a group or not, got probabilities: the inequality "
                "is one for the distribution function of whole rows. Use method='bootstrap'"
            )
        if self.profile._rows.weighted:
            raise ValueError(
                "method='dkw' must have rows of equal weight, got unequal `sample_weight`: the inequality "
                "does not hold for weighted rows. Use method='bootstrap'"
            )
        binned = self.binned
        epsilon = np.sqrt(np.log(2 * binned.n_compared / (1 - self.level)) / (2 * binned.counts))
        first, second = binned.pairs.T
        return epsilon[first] + epsilon[second]

    def certificate(self, limit: float, method: str) -> Certificate:
        """Return whether the interval that a band gives the max gap is on one side of the limit."""
        band = self.band(method)
        interval = band.max_gap
        verdict = "not decidable"
        if interval.high <= limit:
            verdict = "certified"
        elif interval.low > limit:
            verdict = "violated"
        needed = self._rows_needed(limit, band) if verdict == "not decidable" else None
        return Certificate(verdict, float(limit), interval, needed, self.level, method, self.profile.worst)

    def _rows_needed(self, limit: float, band: Band) -> int | None:
        """Return n per cell so that half-widths ∝ √(1/n_a + 1/n_b) fall under |measured gap − limit|."""
        binned = self.binned
        first, second = binned.pairs.T
        per_row = 1 / binned.effective
        unit = band.half_width.ravel() / np.sqrt(per_row[first] + per_row[second])
        if band.method == "dkw":  # √n_a and √n_b add here
            unit = np.full(len(first), np.sqrt(np.log(2 * binned.n_compared / (1 - self.level))))
        rates = self.profile.rates.reshape(binned.n_compared, -1)
        gap = np.array([_largest(rates[a] - rates[b]) for a, b in binned.pairs])
        design = float((binned.counts / binned.effective).max())
        short = np.abs(gap - limit)
        with np.errstate(divide="ignore"):
            needed = np.ceil(design * 2 * (unit / np.where(short < 1e-12, 0.0, short)) ** 2)
        # one pair above the limit is enough to say so; to certify, all must be under it
        above = gap > limit
        rows = needed[above].min() if above.any() else needed.max()
        return int(rows) if np.isfinite(rows) else None

    def intervals(self, threshold: float | None) -> Intervals:
        """Return the intervals of the summaries of the curve."""
        max_gap = self.band("bootstrap").max_gap
        n_resamples = check_resamples(self.n_resamples, self.level)
        binned = self.binned
        spread = np.diff(binned.thresholds, append=binned.thresholds[-1])
        mean_parts, rank_parts = [], []
        pairs = None if isinstance(binned, BinnedScores) else self.profile.pairs
        curves, share = binned.curves
        measured = gaps(curves, pairs)
        for deviation in binned.deviations(n_resamples, generator(self.random_state)):
            shape = (len(deviation), binned.n_strata, -1, deviation.shape[-1])
            by_stratum = gaps(deviation[:, : binned.n_compared].reshape(shape), pairs)
            mean_parts.append((by_stratum @ spread).mean(axis=1))
            moved = np.diff(binned.pooled(deviation), prepend=0.0)
            rank_parts.append(_rank_deviation(measured, share, by_stratum, moved))
        reach = float(spread.sum())  # no gap is above 1
        least = float(unseen(binned.effective, self.level).max())
        return Intervals(
            max_gap=max_gap,
            mean_gap=self._around(self.profile.mean_gap, mean_parts, least * reach, reach),
            rank_gap=self._around(self.profile.rank_gap, rank_parts, least, 1.0),
            gap_at=None if threshold is None else self._gap_at(float(threshold)),
            level=self.level,
        )

    def _around(self, value: float, parts: list[np.ndarray], least: float, most: float) -> Interval:
        """Return the value ± a quantile of the deviations, or what may have gone unseen if that is more."""
        width = max(upper_quantile(np.concatenate(parts), self.level), least)
        return Interval(value, max(value - width, 0.0), min(value + width, most))

    def _gap_at(self, t: float) -> Interval:
        """Return Newcombe's interval for the difference of two rates, Bonferroni over pairs and strata."""
        binned = self.binned
        rates = self.profile.rates_at(t).ravel()
        a, b = binned.pairs.T
        low, high = wilson(rates, binned.effective, 1 - (1 - self.level) / len(a))
        gap = rates[a] - rates[b]
        down = gap - np.hypot(rates[a] - low[a], high[b] - rates[b])
        up = gap + np.hypot(high[a] - rates[a], rates[b] - low[b])
        nearest = np.where((down <= 0) & (up >= 0), 0.0, np.minimum(np.abs(down), np.abs(up)))
        furthest = np.maximum(np.abs(down), np.abs(up))
        ends = (end.reshape(binned.n_strata, -1).max(axis=1).mean() for end in (nearest, furthest))
        return Interval(float(self.profile.at(t)), *(float(min(end, 1.0)) for end in ends))


def check_resamples(n_resamples: Any, level: float) -> int:
    """Return as many; a share `level` of them and one more must be at most all of them."""
    least = int(np.ceil(level / (1 - level) - 1e-9))
    return int(check_number("n_resamples", n_resamples, low=least, whole=True))


def sups(binned: BinnedScores | BinnedUnions, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return sup over t of |Δ*(t) − Δ(t)| of every pair in every resample (n_resamples, pairs)."""
    first, second = binned.pairs.T
    parts = []
    for deviation in binned.deviations(n_resamples, rng):
        if len(first) > MANY_PAIRS * binned.n_strata:
            by_cell = np.abs(deviation).max(axis=2)
            parts.append(by_cell[:, first] + by_cell[:, second])
        else:
            differences = (deviation[:, a] - deviation[:, b] for a, b in binned.pairs)
            parts.append(np.stack([_largest(difference) for difference in differences], axis=1))
    return np.concatenate(parts)


def _largest(values: np.ndarray) -> np.ndarray:
    """Return the largest absolute value along the last axis."""
    return np.maximum(values.max(axis=-1), -values.min(axis=-1))


def _balanced(sups: np.ndarray, level: float) -> np.ndarray:
    """Return half-widths that hold together, each in units of its pair's mean: small cells widen no other."""
    scale = sups.mean(axis=0)
    relative = sups / np.where(scale > 0, scale, 1.0)
    return upper_quantile(relative.max(axis=1), level) * scale


def _rank_deviation(
    gap: np.ndarray, share: np.ndarray, by_stratum: np.ndarray, moved: np.ndarray
) -> np.ndarray:
    """∫ gap(Δ*−Δ) dH* + |∫ gap d(H*−H)|, H the pooled distribution of the stratum, mean over strata (b,).

    `gap` and `share` (h, m) are as measured, dH being `share`; `by_stratum` is gap(Δ*−Δ) and `moved` is
    d(H*−H), (b, h, m) each.
    """
    first = np.einsum("bhm,bhm->bh", by_stratum, np.maximum(share + moved, 0.0))
    second = np.abs(np.einsum("hm,bhm->bh", gap, moved))
    return (first + second).mean(axis=1)


def unseen(n: np.ndarray, level: float) -> np.ndarray:
    """1 − α^(1/n): a share of people that n rows may miss altogether; resamples of constants never move."""
    return -np.expm1(np.log1p(-level) / n)


def upper_quantile(values: np.ndarray, level: float) -> float:
    """Return the smallest of the values that at least a share `level` of n + 1 do not exceed."""
    rank = int(np.ceil((len(values) + 1) * level - 1e-9))
    return float(np.sort(values)[min(rank, len(values)) - 1])


def wilson(rate: np.ndarray, n: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of Wilson's score interval of a rate seen in n rows."""
    z = norm.ppf(0.5 + level / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    width = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    low, high = np.maximum(centre - width, 0.0), np.minimum(centre + width, 1.0)
    return np.minimum(low, rate), np.maximum(high, rate)
