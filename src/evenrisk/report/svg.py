"""Lists of numbers to SVG: scales, ticks, paths.

Conventions
-----------
A plot is `WIDTH` units wide. Its paths are stretched to the width that the page has, its text and lines are
placed in per cent of that width, so letters keep their size on any screen; heights are pixels. y grows
downwards. A curve over thresholds is a step function: its value at x[i] holds up to x[i + 1]. None in a
curve leaves a hole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH = 1000.0

Values = Sequence[float | None]


@dataclass(frozen=True)
class Scale:
    """An affine map of [low, high] to [start, end]; what lies outside is drawn on the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Give the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def percent(self, value: float) -> str:
        """Give the position in per cent of the plot's width."""
        return f"{100 * self(value) / WIDTH:.2f}%"


def across(low: float, high: float) -> Scale:
    """Lay [low, high] from left to right."""
    return Scale(low, high, 0.0, WIDTH)


def upwards(high: float, ground: float, height: float) -> Scale:
    """Lay [0, high] upwards from the ground."""
    return Scale(0.0, high, ground, ground - height)


def domain(low: float, high: float, thresholds: Sequence[float]) -> tuple[float, float]:
    """Give the ends of the axis: the scores, and thresholds a little outside of them."""
    length = high - low
    if length <= 1e-12 * max(abs(low), abs(high)):
        length = abs(low) or 1.0
        low, high = low - length / 2, high + length / 2
    margin = 0.1 * length
    return max(min(low, thresholds[0]), low - margin), min(max(high, thresholds[-1]), high + margin)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Place round numbers in [low, high], at most so many."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def step_path(x: Sequence[float], y: Values, along: Scale, up: Scale) -> str:
    """Draw a step function."""
    parts = []
    for xs, (ys,) in _runs(x, y):
        px, py = [along(value) for value in xs], [up(value) for value in ys]
        parts.append(f"M{_short(px[0])} {_short(py[0])}{_walk(px, py)}")
    return "".join(parts)


def band_path(x: Sequence[float], low: Values, high: Values, along: Scale, up: Scale) -> str:
    """Fill between two step functions: along the upper one, and back along the lower one."""
    parts = []
    for xs, (lows, highs) in _runs(x, low, high):
        px = [along(value) for value in xs]
        lower, upper = ([up(value) for value in values] for values in (lows, highs))
        back = _walk_back(px, lower)
        parts.append(f"M{_short(px[0])} {_short(upper[0])}{_walk(px, upper)}{back}Z")
    return "".join(parts)


def line_path(x: Values, y: Values, along: Scale, up: Scale) -> str:
    """Draw straight lines from point to point."""
    known = [(along(a), up(b)) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    return "".join(f"{'L' if i else 'M'}{_short(a)} {_short(b)}" for i, (a, b) in enumerate(known))


def outline_path(edges: Sequence[float], density: Values, along: Scale, up: Scale) -> str:
    """Draw a histogram's outline, from the ground to the ground."""
    px, py = [along(edge) for edge in edges], [up(value or 0.0) for value in [*density, density[-1]]]
    ground = _short(up(0.0))
    return f"M{_short(px[0])} {ground}V{_short(py[0])}{_walk(px, py)}V{ground}"


def _runs(x: Sequence[float], *curves: Values) -> Iterator[tuple[list[float], list[list[float]]]]:
    """Cut curves where one of them is None."""
    kept: list[tuple[float, ...]] = []
    for at, *values in [*zip(x, *curves, strict=True), (0.0, None)]:
        known = [value for value in values if value is not None]
        if len(known) == len(curves):
            kept.append((at, *known))
        elif kept:
            xs, *ys = (list(column) for column in zip(*kept, strict=True))
            yield xs, ys
            kept = []


def _walk(x: Sequence[float], y: Sequence[float]) -> str:
    """Go along, then up or down, from value to value; steps that would not show are left out."""
    parts, last = [], _short(y[0])
    for at, value in zip(x[1:], y[1:], strict=True):
        if (here := _short(value)) != last:
            parts.append(f"H{_short(at)}V{here}")
            last = here
    return "".join([*parts, f"H{_short(x[-1])}"])


def _walk_back(x: Sequence[float], y: Sequence[float]) -> str:
    """Go from the right end to the left one: the value at x[i] holds to its right."""
    return "".join(
        f"V{_short(y[i])}H{_short(x[i])}"
        for i in range(len(x) - 2, -1, -1)
        if i == 0 or _short(y[i]) != _short(y[i - 1])
    )


def _short(value: float) -> str:
    """Write a coordinate in as few letters as a tenth of a unit needs."""
    return f"{value:.1f}".removesuffix(".0")
