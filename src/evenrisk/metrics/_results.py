"""What inference gives back: intervals, bands, tests, certificates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evenrisk.curves import gaps
from evenrisk.parity import group_pairs


def pair_cells(n_strata: int, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second cell of every pair of groups in every stratum, each (h·p,)."""
    first, second = np.array(group_pairs(n_strata, n_groups)).T
    return first, second


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
        Whether the attribute was really permuted and no group has unequal weights; above 100,000 rows the
        normal limit of permutations is used.
    """

    max_gap: float
    p_value: float
    noise_floor: NoiseFloor
    noise_floor_by_stratum: tuple[NoiseFloor, ...]
    exact: bool


@dataclass(frozen=True, eq=False, repr=False)
class Band:
    """Simultaneous band for the signed gap of every pair of groups in every stratum.

    With probability `level` all true curves lie in their bands, at all thresholds at once.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Every distinct score.
    pairs : tuple of (str, str)
        The p pairs of groups; a pair's gap is the rate of the first minus that of the second.
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
    _rates: np.ndarray  # (h, k, m)

    @property
    def gap(self) -> np.ndarray:
        """The signed gap of every stratum and pair (h, p, m)."""
        first, second = pair_cells(1, self._rates.shape[1])
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
        for i, (a, b) in enumerate(zip(*pair_cells(1, self._rates.shape[1]), strict=True)):
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
        return Interval(float(gaps(self._rates).max()), float(low.max()), float(high.max()))

    def __repr__(self) -> str:
        gap = self.max_gap
        return (
            f"Band({self.level:g}, {self.method}: half-width {self.half_width.min():.3f} to "
            f"{self.half_width.max():.3f}, max gap {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}])"
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
        Rows in every group (and label, where the rule looks at it) with which the measured gap would be
        decided; None where it is decided already, or where it equals the limit.
    level : float
        Probability of being right.
    method : str
        "bootstrap" or "dkw".
    """

    verdict: str
    limit: float
    max_gap: Interval
    rows_needed: int | None
    level: float
    method: str


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


@dataclass(frozen=True)
class Discrimination:
    """How well the score tells the two labels apart, by group.

    Attributes
    ----------
    overall : Interval
        AUC of all rows.
    auc : dict of str to Interval or None
        AUC of each group; None where the group has only one label.
    abroca : dict of (str, str) to Interval
        Area between the ROC curves of two groups, for every pair of groups that have both labels.
    level : float
        Probability, of each interval on its own.
    """

    overall: Interval
    auc: dict[str, Interval | None]
    abroca: dict[tuple[str, str], Interval]
    level: float
