"""The search for the smallest η, knowing nothing of models.

Conventions
-----------
`criterion(eta)` is what must not exceed the budget: a held-out gap, or a bound for it. It falls with η by and
large, not strictly: it is measured. Rungs are 10^(k/2), so that two searches look at the same η.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10

RUNGS = 2  # per factor of ten, on the way up
FINE_RUNGS = 4  # where a budget is out of reach: what few rows measure is rough
PRECISION = 1.1  # ratio of two neighbouring η, the one too small and the other enough
NEAR = 0.005  # a criterion this close to the best one is as good, at a smaller η
REFINEMENTS = 3  # times that the neighbourhood of the best η is looked at more closely

Criterion = Callable[[float], float]


def rungs(low: float, high: float, per_decade: int = RUNGS) -> list[float]:
    """Low, high, and 10^(k/per_decade) for all k between them."""
    first = floor(log10(low) * per_decade + 1e-9) + 1
    last = ceil(log10(high) * per_decade - 1e-9) - 1
    return [low, *(10 ** (k / per_decade) for k in range(first, last + 1)), high]


def smallest_eta(criterion: Criterion, budget: float, low: float, high: float) -> float | None:
    """Give the smallest η with criterion(η) ≤ budget, to a factor of `PRECISION`; None if no rung has it."""
    if criterion(0.0) <= budget:
        return 0.0
    ladder = rungs(low, high)
    middle = min(range(len(ladder)), key=lambda k: abs(log10(ladder[k])))
    upwards, downwards = range(middle, len(ladder)), range(middle - 1, -1, -1)
    at = next((k for k in (*upwards, *downwards) if criterion(ladder[k]) <= budget), None)
    if at is None:
        return None
    while 0 < at <= middle and criterion(ladder[at - 1]) <= budget:
        at -= 1
    enough, too_small = ladder[at], ladder[at - 1] if at else 0.0
    while too_small > 0 and enough / too_small > PRECISION:
        middle = (too_small * enough) ** 0.5
        if criterion(middle) <= budget:
            enough = middle
        else:
            too_small = middle
    return enough


def best_eta(criterion: Criterion, low: float, high: float) -> float:
    """Give the smallest η whose criterion is about as low as it gets, for a budget out of reach."""
    tried = {eta: criterion(eta) for eta in (0.0, *rungs(low, high, FINE_RUNGS))}
    for _ in range(REFINEMENTS):
        best = min(tried, key=lambda eta: (tried[eta], eta))
        below = max((eta for eta in tried if 0 < eta < best), default=None)
        above = min((eta for eta in tried if eta > best), default=None)
        for neighbour in (below, above):
            if neighbour and best > 0:
                middle = (neighbour * best) ** 0.5
                tried[middle] = criterion(middle)
    least = min(tried.values())
    return min(eta for eta, value in tried.items() if value <= least + NEAR)
