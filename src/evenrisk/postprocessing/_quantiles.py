"""The distribution of weighted scores, as a continuous line: shares of scores, and scores of shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Quantiles:
    """A line through (s_i, u_i): distinct scores, and the share below s_i plus half of that at s_i."""

    s: np.ndarray  # (m,) increasing
    u: np.ndarray  # (m,) increasing, in [0, 1]

    @classmethod
    def of(cls, score: np.ndarray, weight: np.ndarray, *, most: int | None = None) -> Quantiles:
        """Return the distribution of weighted scores, on at most so many points."""
        s, place = np.unique(score, return_inverse=True)
        mass = np.bincount(place.reshape(-1), weights=weight)
        u = (np.cumsum(mass) - mass / 2) / mass.sum()
        if most is None or len(s) <= most:
            return cls(s, u)
        grid = np.linspace(u[0], u[-1], most)
        return cls(np.interp(grid, u, s), grid)

    def to_the_ends_of_risk(self) -> Quantiles:
        """Return the line continued to (0, 0) and (1, 1), for scores that are risks."""
        low, high = int(self.s[0] > 0), int(self.s[-1] < 1)
        return Quantiles(
            np.concatenate([[0.0] * low, self.s, [1.0] * high]),
            np.concatenate([[0.0] * low, self.u, [1.0] * high]),
        )

    def share(self, s: np.ndarray) -> np.ndarray:
        """Return F(s)."""
        return np.interp(s, self.s, self.u)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Return Q(u)."""
        return np.interp(u, self.u, self.s)

    def beyond(self, s: np.ndarray) -> np.ndarray:
        """Return how far a score is outside those seen; negative below them."""
        return s - np.clip(s, self.s[0], self.s[-1])
