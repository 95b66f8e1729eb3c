"""The page's plots: what the template writes, and nothing that it would have to compute.

Conventions
-----------
A plot is `WIDTH` units wide. Its paths are stretched to the width that the page has, its text and lines are
placed in per cent of that width, so letters keep their size on any screen; heights are pixels. y grows
downwards. A curve over thresholds is a step function: its value at x[i] holds up to x[i + 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evenrisk.report import numerals

WIDTH = 1000.0
HEIGHT = 190.0
ROW = 36.0
MOST_OVERLAID = 4  # more histograms than these are drawn one below the other
LONGEST = 34  # letters of a name beside a histogram
STYLES = 12  # pairs of colour and dash in the style sheet


@dataclass(frozen=True)
class Scale:
    """An affine map of [low, high] to [start, end]; what lies outside is drawn on the edge."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def percent(self, value: float) -> str:
        """Return the position in per cent of the plot's width."""
        return f"{100 * self(value) / WIDTH:.2f}%"


def across(low: float, high: float) -> Scale:
    """Return the scale of [low, high] from left to right."""
    return Scale(low, high, 0.0, WIDTH)


def upwards(high: float, ground: float, height: float) -> Scale:
    """Return the scale of [0, high] upwards from the ground."""
    return Scale(0.0, high, ground, ground - height)


def domain(low: float, high: float, thresholds: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis: the scores, and thresholds a little outside of them."""
    length = high - low
    if length <= 1e-12 * max(abs(low), abs(high)):
        length = abs(low) or 1.0
        low, high = low - length / 2, high + length / 2
    margin = 0.1 * length
    return max(min(low, thresholds[0]), low - margin), min(max(high, thresholds[-1]), high + margin)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers in [low, high], at most so many."""
    step = numerals.round_step((high - low) / most)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Plot:
    """A plot; `alt` is its content in words."""

    title: str
    alt: str
    x_name: str
    y_name: str
    paths: list[dict[str, Any]]  # d, kind and style of the style sheet
    x_ticks: list[dict[str, str]]
    y_ticks: list[dict[str, Any]] = field(default_factory=list)
    height: float = HEIGHT
    line: str | None = None  # where the threshold is
    key: list[dict[str, Any]] = field(default_factory=list)
    floor: dict[str, Any] | None = None  # the gap that chance gives
    dot: dict[str, Any] | None = None  # the largest gap
    names: list[dict[str, Any]] = field(default_factory=list)  # of histograms in rows
    drags: bool = True  # whether its axis is that of the thresholds


@dataclass(frozen=True)
class Axis:
    """The thresholds of one score column, from left to right; every plot of the column shares it."""

    along: Scale
    start: float

    @classmethod
    def of(cls, score: dict[str, Any]) -> Axis:
        """Lay out the scores, and the thresholds and bins a little outside of them."""
        low, high = score["range"]
        steps = score["steps"]["thresholds"]
        edges = [edge for shown in score["distributions"] for edge in shown["edges"]]
        ends = domain(low, high, [min(steps + edges), max(steps + edges)])
        return cls(across(*ends), steps[score["start"]])


def gap_plot(stratum: dict[str, Any], curve: dict[str, Any], axis: Axis, top: float, level: str) -> Plot:
    """Draw the gap of one stratum of a curve at every threshold, its band, and what chance gives."""
    up = upwards(top, HEIGHT, HEIGHT)
    x = [axis.along.low, *curve["thresholds"], axis.along.high]
    # below all scores everybody is above the cut-off: the gap is 0
    gap, low, high = ([0.0, *stratum[key], stratum[key][-1]] for key in ("gap", "low", "high"))
    floor, dot = _floor(stratum["noise_floor"], up), _dot(stratum, curve, axis, up)
    largest, chance = f"the largest is {dot['text']}", f"chance alone gives {floor['words']}"
    return Plot(
        title=f"Gap among {stratum['words']}",
        alt=f"Gap among {stratum['words']}, in points, at every cut-off: {largest}; {chance}.",
        x_name="cut-off",
        y_name="points",
        paths=[
            _path(band_path(x, low, high, axis.along, up), "band"),
            _path(step_path(x, gap, axis.along, up), "gap"),
        ],
        x_ticks=_marks_across(axis.along),
        y_ticks=_marks_up(up),
        line=axis.along.percent(axis.start),
        key=[
            {"kind": "band", "words": f"{level} band"},
            {"kind": "floor", "words": f"by chance {floor['words']}"},
        ],
        floor=floor,
        dot=dot,
    )


def distribution_plot(
    shown: dict[str, Any], groups: list[str], compared: list[int], axis: Axis, by: str = ""
) -> Plot:
    """Draw the distribution of the score in each compared group: few on one ground, many one below the other.

    A group of one row would be a single bar, as tall as the axis, and make flat lines of all others.
    """
    rows = len(compared) > MOST_OVERLAID
    height = ROW * len(compared) if rows else HEIGHT
    densities = [shown["density"][j] for j in compared]
    tallest = [max(density) or 1.0 for density in densities]  # nobody may be there
    paths, names = [], []
    for i, (j, density) in enumerate(zip(compared, densities, strict=True)):
        ground = ROW * (i + 1) if rows else HEIGHT
        up = upwards(tallest[i] if rows else max(tallest), ground, 0.85 * ROW if rows else HEIGHT)
        paths.append(_path(outline_path(shown["edges"], density, axis.along, up), "filled outline", j))
        name = groups[j] if len(groups[j]) <= LONGEST else f"{groups[j][: LONGEST - 1].rstrip()}…"
        names.append({"text": name, "y": ground - ROW + 14})
    drawn = ", ".join(groups[j] for j in compared)
    return Plot(
        title=f"Scores of {shown['words']}{by}",
        alt=f"Distribution of the score among {shown['words']}, by group: {drawn}.",
        x_name="score",
        y_name="share of the group" + (", each to its own height" if rows else ""),
        paths=paths,
        x_ticks=_marks_across(axis.along),
        height=height,
        line=axis.along.percent(axis.start),
        names=names if rows else [],
    )


def overlay_plot(words: str, curves: list[dict[str, Any]], names: list[str], top: float) -> Plot:
    """Draw the worst stratum's gap of every score column against the share of people selected."""
    along, up = across(0.0, 1.0), upwards(top, HEIGHT, HEIGHT)
    paths, largest = [], []
    for j, (curve, name) in enumerate(zip(curves, names, strict=True)):
        gap = worst_gap(curve)
        paths.append(_path(line_path(curve["selection_rate"], gap, along, up), "outline", j))
        largest.append(f"{name} {numerals.points(max(gap))}")
    return Plot(
        title=f"Gap under {words}",
        alt=f"Gap under {words}, in points, by share of people selected; the largest: {', '.join(largest)}.",
        x_name="share of people above the cut-off",
        y_name="points",
        paths=paths,
        x_ticks=[{"at": f"{20 * i}%", "text": f"{20 * i} %"} for i in range(6)],
        y_ticks=_marks_up(up),
    )


def attributes_plot(words: str, curve: dict[str, Any], axis: Axis, top: float) -> Plot:
    """Draw the gap of each attribute by itself, in its worst stratum, at every threshold."""
    up = upwards(top, HEIGHT, HEIGHT)
    x = [axis.along.low, *curve["thresholds"], axis.along.high]
    paths, key, largest = [], [], []
    for j, each in enumerate(curve["attributes"]):
        gap = [0.0, *each["gap"], each["gap"][-1]]
        paths.append(_path(step_path(x, gap, axis.along, up), "outline", j))
        key.append({"kind": "outline", "style": j % STYLES, "words": each["attribute"]})
        largest.append(f"{each['attribute']} {numerals.points(max(gap))}")
    return Plot(
        title=f"Gap of each attribute, {words}",
        alt=f"Gap of each attribute under {words}, in points, at every cut-off; the largest: "
        f"{', '.join(largest)}.",
        x_name="cut-off",
        y_name="points",
        paths=paths,
        x_ticks=_marks_across(axis.along),
        y_ticks=_marks_up(up),
        line=axis.along.percent(axis.start),
        key=key,
    )


def cuts_plot(attribute: dict[str, Any], words: str, top: float) -> Plot:
    """Draw the largest gap over all thresholds by where an ordered attribute is cut."""
    up = upwards(top, HEIGHT, HEIGHT)
    cuts = [float(each["cut"]) for each in attribute["cuts"]]
    gaps = [float(each["gap"]) for each in attribute["cuts"]]
    margin = 0.05 * (cuts[-1] - cuts[0])
    along = across(cuts[0] - margin, cuts[-1] + margin)
    i = gaps.index(max(gaps))
    name, text = attribute["attribute"], f"{numerals.points(gaps[i])} at {cuts[i]:.10g}"
    return Plot(
        title=f"Largest gap by the cut in {name}, {words}",
        alt=f"Largest gap over all cut-offs between those up to a value of {name} and those over it, under "
        f"{words}, in points; the largest is {text}.",
        x_name=name,
        y_name="points",
        paths=[_path(line_path(cuts, gaps, along, up), "gap")],
        x_ticks=_marks_across(along),
        y_ticks=_marks_up(up),
        dot={
            "x": along.percent(cuts[i]),
            "y": round(up(gaps[i]), 1),
            "text": text,
            "label_y": round(up(gaps[i]) - 8, 1),
            "left": along(cuts[i]) > 0.6 * WIDTH,
        },
        drags=False,
    )


def worst_gap(curve: dict[str, Any]) -> list[float]:
    """Return the gap in the worst stratum at each threshold."""
    return list(map(max, zip(*(stratum["gap"] for stratum in curve["strata"]), strict=True)))


def highest(summary: dict[str, Any], keys: tuple[str, ...] = ("gap", "high")) -> float:
    """Return the top of all axes that show these curves, so that score columns can be compared by eye."""
    found = [0.02]
    for score in summary["scores"]:
        for stratum in (s for parity in score["parities"] for s in parity["curve"]["strata"]):
            found += [stratum["noise_floor"]["p95"], *(max(stratum[key]) for key in keys)]
    return min(1.12 * max(found), 1.05)


def _path(d: str, kind: str, style: int | None = None) -> dict[str, Any]:
    """Return a path of the style sheet's kind, in the colour and dash of a group or column."""
    return {"d": d, "kind": kind, "style": None if style is None else style % STYLES}


def _marks_across(along: Scale) -> list[dict[str, str]]:
    """Return the numbers of the axis from left to right."""
    values = ticks(along.low, along.high)
    return [
        {"at": along.percent(value), "text": text}
        for value, text in zip(values, numerals.ticks(values), strict=True)
    ]


def _marks_up(up: Scale) -> list[dict[str, Any]]:
    """Return the numbers of the axis of gaps, in points."""
    values = ticks(100 * up.low, 100 * up.high, most=4)
    return [
        {"at": round(up(value / 100), 1), "text": text}
        for value, text in zip(values, numerals.ticks(values), strict=True)
    ]


def _floor(noise: dict[str, Any], up: Scale) -> dict[str, Any]:
    """Place the band between the mean and the 95 % point of gaps that chance gives."""
    bottom, top = up(noise["mean"]), up(noise["p95"])
    words = numerals.span(noise["mean"], noise["p95"])
    return {"y": round(top, 1), "height": round(max(bottom - top, 1.0), 1), "words": words}


def _dot(stratum: dict[str, Any], curve: dict[str, Any], axis: Axis, up: Scale) -> dict[str, Any]:
    """Mark the largest gap, the first of equals; its value stands above the band, on the side with room."""
    largest = max(stratum["gap"])
    # equal gaps may differ in their last digit
    i, gap = next((i, gap) for i, gap in enumerate(stratum["gap"]) if gap >= largest - 1e-12)
    threshold = curve["thresholds"][i]
    return {
        "x": axis.along.percent(threshold),
        "y": round(up(gap), 1),
        "text": f"{numerals.points(gap)} at {curve['written'][i]}",
        "label_y": round(up(stratum["high"][i]) - 6, 1),
        "left": axis.along(threshold) > 0.6 * WIDTH,
    }


def step_path(x: Sequence[float], y: Sequence[float], along: Scale, up: Scale) -> str:
    """Draw a step function."""
    px, py = [along(value) for value in x], [up(value) for value in y]
    return f"M{_short(px[0])} {_short(py[0])}{_steps(px, py)}"


def band_path(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], along: Scale, up: Scale
) -> str:
    """Fill between two step functions: along the upper one, and back along the lower one."""
    px, lower = [along(value) for value in x], [up(value) for value in low]
    return f"{step_path(x, high, along, up)}{_steps_back(px, lower)}Z"


def line_path(x: Sequence[float], y: Sequence[float], along: Scale, up: Scale) -> str:
    """Draw straight lines from point to point."""
    points = (f"{_short(along(a))} {_short(up(b))}" for a, b in zip(x, y, strict=True))
    return f"M{'L'.join(points)}"


def outline_path(edges: Sequence[float], density: Sequence[float], along: Scale, up: Scale) -> str:
    """Draw a histogram's outline, from the ground to the ground."""
    px, py = [along(edge) for edge in edges], [up(value) for value in [*density, density[-1]]]
    ground = _short(up(0.0))
    return f"M{_short(px[0])} {ground}V{_short(py[0])}{_steps(px, py)}V{ground}"


def _steps(x: Sequence[float], y: Sequence[float]) -> str:
    """Go along, then up or down, from value to value; steps that would not show are left out."""
    parts, last = [], _short(y[0])
    for at, value in zip(x[1:], y[1:], strict=True):
        if (here := _short(value)) != last:
            parts.append(f"H{_short(at)}V{here}")
            last = here
    return "".join([*parts, f"H{_short(x[-1])}"])


def _steps_back(x: Sequence[float], y: Sequence[float]) -> str:
    """Go from the right end to the left one: the value at x[i] holds to its right."""
    return "".join(
        f"V{_short(y[i])}H{_short(x[i])}"
        for i in range(len(x) - 2, -1, -1)
        if i == 0 or _short(y[i]) != _short(y[i - 1])
    )


def _short(value: float) -> str:
    """Write a coordinate in as few letters as a tenth of a unit needs."""
    return f"{value:.1f}".removesuffix(".0")
