"""What chance alone would show: the gap under a permuted attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import check_number
from evenrisk.curves import run_ends
from evenrisk.metrics._inputs import ScoredRows


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


def permuted_max_gaps(rows: ScoredRows, n_permutations: int, random_state: Any) -> np.ndarray:
    """Max gap under each permutation of the attribute within strata (n_permutations,).

    Score and weight stay together in their sorted order, where a distribution function is a cumulative
    sum; only the groups move.
    """
    n_permutations = int(check_number("n_permutations", n_permutations, low=1, whole=True))
    rng = _generator(random_state)
    k = len(rows.groups)
    strata = [
        _Stratum.of(rows, np.flatnonzero(rows.code // k == stratum), k)
        for stratum in range(len(rows.parity.strata))
    ]
    return np.array([max(stratum.permuted(rng) for stratum in strata) for _ in range(n_permutations)])


@dataclass(frozen=True)
class _Stratum:
    """One stratum's rows in the order of their scores."""

    group: np.ndarray
    weight: np.ndarray
    ends: np.ndarray  # last row of each run of equal scores
    n_groups: int

    @classmethod
    def of(cls, rows: ScoredRows, index: np.ndarray, n_groups: int) -> _Stratum:
        index = index[np.argsort(rows.score[index], kind="stable")]
        group = rows.code[index] % n_groups
        return cls(group, rows.weight[index], run_ends(rows.score[index]), n_groups)

    def permuted(self, rng: np.random.Generator) -> float:
        """Permute the groups once and give the max gap."""
        group = rng.permutation(self.group)
        below = []
        for value in range(self.n_groups):
            cumulative = np.cumsum(np.where(group == value, self.weight, 0.0))
            below.append(cumulative[self.ends] / cumulative[-1])
        return float(np.max(np.max(below, axis=0) - np.min(below, axis=0)))


def _generator(random_state: Any) -> np.random.Generator:
    """Let a Generator pass and seed one from anything scikit-learn takes."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**32, dtype=np.uint64))
