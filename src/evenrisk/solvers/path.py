"""The rungs of a path over η: GA is singular where all scores tie, and every distance is blind there.

So no fit starts at w = 0 with the penalty on. The path starts at the η = 0 fit and walks η upwards, each
point starting where the last one ended; it stays in the basin that is connected with the unpenalised fit.
"""

from __future__ import annotations

FIRST_RUNG, RUNG_RATIO = 0.01, 10**0.5
WIDE = 4.0  # ratio of two η between which nothing need be fitted, a little more than a rung's


def ladder(eta: float) -> list[float]:
    """Rungs 0.01, 0.0316, 0.1, … below η: fixed numbers, so that two fits share all rungs below both."""
    rungs: list[float] = []
    while FIRST_RUNG * RUNG_RATIO ** len(rungs) < eta * (1 - 1e-9):
        rungs.append(FIRST_RUNG * RUNG_RATIO ** len(rungs))
    return rungs
