"""Scores whose true distribution is known, drawn again and again: what statistical statements are checked on.

Scores are drawn from Beta distributions, as they are or in equal steps (ties), so the true curve is known at
every threshold.
"""

import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import beta

from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import threshold_profile

EO_SIZES = ((384, 455), (247, 498))  # COMPAS, test part of 30 %: without and with a new arrest


@dataclass(frozen=True)
class World:
    """Cells whose true distribution of scores is known: sizes and Beta shapes by stratum and group."""

    name: str
    sizes: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[tuple[float, float], ...], ...]
    steps: int | None = None  # scores are rounded up to 1/steps, 2/steps, …; None = continuous
    weighted: bool = False  # weight (0.5 + score) × a random factor, so that weights matter
    summaries: bool = False  # intervals of the summaries too
    target: bool = True
    level: float = 0.95

    @property
    def kind(self) -> str:
        return f"{self.steps} steps" if self.steps else "continuous"

    @property
    def parity(self) -> str:
        return "demographic_parity" if len(self.sizes) == 1 else "equalized_odds"

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.sizes[0])), 2))

    def draw(self, rng):
        """Return one sample: label, score, group, weight."""
        parts = []
        for y, (sizes, shapes) in enumerate(zip(self.sizes, self.shapes, strict=True)):
            for g, (n, shape) in enumerate(zip(sizes, shapes, strict=True)):
                parts.append((np.full(n, y), rng.beta(*shape, n), np.full(n, g)))
        y, score, group = (np.concatenate(part) for part in zip(*parts, strict=True))
        if self.steps:
            score = np.ceil(score * self.steps) / self.steps
        weight = (0.5 + score) * rng.gamma(2.0, 0.5, len(y)) if self.weighted else None
        return y, score, np.array(list("abcdefgh"))[group], weight

    def profile(self, rng):
        """Return the profile of one sample."""
        y, score, group, weight = self.draw(rng)
        return threshold_profile(y, score, sensitive_features=group, parity=self.parity, sample_weight=weight)

    def below(self, t):
        """Return the true distribution functions at t (h, k, r), right-continuous."""
        if self.steps:
            t = np.floor(np.asarray(t) * self.steps + 1e-9) / self.steps
        return np.array([[self._below(shape, t) for shape in shapes] for shapes in self.shapes])

    def _below(self, shape, t):
        plain = beta.cdf(t, *shape)
        if not self.weighted:
            return plain
        if self.steps:
            level = np.arange(1, self.steps + 1) / self.steps
            mass = np.diff(beta.cdf(level, *shape), prepend=0.0) * (0.5 + level)
            running = np.append(0.0, np.cumsum(mass) / mass.sum())
            return running[np.clip(np.rint(np.asarray(t) * self.steps).astype(int), 0, self.steps)]
        mean = shape[0] / sum(shape)  # E[x 1{x ≤ t}] = mean × P(x' ≤ t), x' of shape (a + 1, b)
        return (0.5 * plain + mean * beta.cdf(t, shape[0] + 1, shape[1])) / (0.5 + mean)


def repeat(pool: Executor, measure: Callable, world: World, number: int, times: int) -> dict[str, float]:
    """Return the mean of every figure of `measure(world, seed)` over repetitions.

    It is the same whatever the number of processes.
    """
    step = 50
    start = time.perf_counter()
    jobs = [
        pool.submit(_piece, measure, world, number, i, min(i + step, times)) for i in range(0, times, step)
    ]
    rows = []
    for job in jobs:
        rows += job.result()
        if sys.stderr.isatty():
            done = f"{world.name}: {len(rows)} of {times}, {time.perf_counter() - start:.0f} s"
            print(f"\r{done:<70}", end="", file=sys.stderr, flush=True)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _piece(measure: Callable, world: World, number: int, first: int, last: int) -> list[dict[str, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)
        return [measure(world, [number, seed]) for seed in range(first, last)]


def percent(value: float | None) -> str:
    """Return a share as text."""
    return "–" if value is None or np.isnan(value) else f"{100 * value:.1f} %"
