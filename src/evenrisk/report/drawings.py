"""The page's plots: what the template writes, and nothing that it would have to compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenrisk.report import numerals, svg

HEIGHT = 190.0
ROW = 36.0
OVERLAID = 4  # more histograms than these are drawn one below the other
STYLES = 12  # pairs of colour and dash in the style sheet


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
    key: list[dict[str, str]] = field(default_factory=list)
    floor: dict[str, Any] | None = None  # the gap that chance gives
    dot: dict[str, Any] | None = None  # the largest gap
    names: list[dict[str, Any]] = field(default_factory=list)  # of histograms in rows


@dataclass(frozen=True)
class Axis:
    """The thresholds of one score column, from left to right; every plot of the column shares it."""

    along: svg.Scale
    start: float

    @classmethod
    def of(cls, score: dict[str, Any]) -> Axis:
        """Lay out the scores, and the thresholds and bins a little outside of them."""
        low, high = score["range"]
        steps = score["steps"]["thresholds"]
        edges = [edge for shown in score["distributions"] for edge in shown["edges"]]
        ends = svg.domain(low, high, [min(steps + edges), max(steps + edges)])
        return cls(svg.across(*ends), steps[score["start"]])


def gap_plot(stratum: dict[str, Any], curve: dict[str, Any], axis: Axis, top: float, level: str) -> Plot:
    """Draw the gap of one stratum of a curve at every threshold, its band, and what chance gives."""
    up, thresholds = svg.upwards(top, HEIGHT, HEIGHT), curve["thresholds"]
    x = [axis.along.low, *thresholds, axis.along.high]
    gap, low, high = (_to_the_ends(stratum[key], len(thresholds)) for key in ("gap", "low", "high"))
    floor, dot = _floor(stratum["noise_floor"], up), _dot(stratum, curve, axis, up)
    largest = f"the largest is {dot['text']}" if dot else "not measured"
    chance = f"; chance alone gives {floor['words']}" if floor else ""
    return Plot(
        title=f"Gap among {stratum['words']}",
        alt=f"Gap among {stratum['words']}, in points, at every cut-off: {largest}{chance}.",
        x_name="cut-off",
        y_name="points",
        paths=[
            _path(svg.band_path(x, low, high, axis.along, up), "band"),
            _path(svg.step_path(x, gap, axis.along, up), "gap"),
        ],
        x_ticks=_marks_across(axis.along),
        y_ticks=_marks_up(up),
        line=axis.along.percent(axis.start),
        key=_key(floor, level, bool(stratum["high"])),
        floor=floor,
        dot=dot,
    )


def distribution_plot(shown: dict[str, Any], groups: list[str], compared: list[int], axis: Axis) -> Plot:
    """Draw the distribution of the score in each compared group: few on one ground, many one below the other.

    A group of one row would be a single bar, as tall as the axis, and make flat lines of all others.
    """
    rows = len(compared) > OVERLAID
    height = ROW * len(compared) if rows else HEIGHT
    densities = [shown["density"][j] for j in compared]
    tallest = [max((value for value in density if value), default=1.0) for density in densities]
    paths, names = [], []
    for i, (j, density) in enumerate(zip(compared, densities, strict=True)):
        ground = ROW * (i + 1) if rows else HEIGHT
        up = svg.upwards(tallest[i] if rows else max(tallest), ground, 0.85 * ROW if rows else HEIGHT)
        paths.append(_path(svg.outline_path(shown["edges"], density, axis.along, up), "filled outline", j))
        names.append({"text": _shortened(groups[j], 34), "y": ground - ROW + 14})
    drawn = ", ".join(groups[j] for j in compared)
    return Plot(
        title=f"Scores of {shown['words']}",
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
    along, up = svg.across(0.0, 1.0), svg.upwards(top, HEIGHT, HEIGHT)
    paths, largest = [], []
    for j, (curve, name) in enumerate(zip(curves, names, strict=True)):
        gap = worst_gap(curve)
        paths.append(_path(svg.line_path(curve["selection_rate"], gap, along, up), "outline", j))
        known = [value for value in gap if value is not None]
        largest.append(f"{name} {numerals.points(max(known, default=None))}")
    return Plot(
        title=f"Gap under {words}",
        alt=f"Gap under {words}, in points, by share of people selected; the largest: {', '.join(largest)}.",
        x_name="share of people above the cut-off",
        y_name="points",
        paths=paths,
        x_ticks=[{"at": f"{20 * i}%", "text": f"{20 * i} %"} for i in range(6)],
        y_ticks=_marks_up(up),
    )


def worst_gap(curve: dict[str, Any]) -> list[float | None]:
    """Give the gap in the worst stratum at each threshold."""
    columns = zip(*(stratum["gap"] for stratum in curve["strata"]), strict=True)
    return [max((value for value in column if value is not None), default=None) for column in columns]


def highest(summary: dict[str, Any], keys: tuple[str, ...] = ("gap", "high")) -> float:
    """Give the top of all axes that show these curves, so that score columns can be compared by eye."""
    found = [0.02]
    for score in summary["scores"]:
        for stratum in (s for parity in score["parities"] for s in parity["curve"]["strata"]):
            found += [value for key in keys for value in stratum[key] or [] if value is not None]
            found += [stratum["noise_floor"]["p95"] or 0.0] if stratum["noise_floor"] else []
    return min(1.12 * max(found), 1.05)


def _shortened(name: str, most: int) -> str:
    """Cut a long name."""
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def _path(d: str, kind: str, style: int | None = None) -> dict[str, Any]:
    """Give a path of the style sheet's kind, in the colour and dash of a group or column."""
    return {"d": d, "kind": kind, "style": None if style is None else style % STYLES}


def _to_the_ends(values: list[float | None] | None, length: int) -> list[float | None]:
    """Carry a curve to both ends of the axis: below all scores everybody is above the cut-off, gap 0."""
    if values is None:
        return [None] * (length + 2)
    return [0.0, *values, values[-1]]


def _marks_across(along: svg.Scale) -> list[dict[str, str]]:
    """Number the axis from left to right."""
    values = svg.ticks(along.low, along.high)
    return [
        {"at": along.percent(value), "text": text}
        for value, text in zip(values, numerals.ticks(values), strict=True)
    ]


def _marks_up(up: svg.Scale) -> list[dict[str, Any]]:
    """Number the axis of gaps, in points."""
    values = svg.ticks(100 * up.low, 100 * up.high, most=4)
    return [
        {"at": round(up(value / 100), 1), "text": text}
        for value, text in zip(values, numerals.ticks(values), strict=True)
    ]


def _floor(noise: dict[str, Any] | None, up: svg.Scale) -> dict[str, Any] | None:
    """Place the band between the mean and the 95 % point of gaps that chance gives."""
    if noise is None or noise["mean"] is None or noise["p95"] is None:
        return None
    bottom, top = up(noise["mean"]), up(noise["p95"])
    words = numerals.span(noise["mean"], noise["p95"])
    return {"y": round(top, 1), "height": round(max(bottom - top, 1.0), 1), "words": words}


def _key(floor: dict[str, Any] | None, level: str, banded: bool) -> list[dict[str, str]]:
    """Explain the grounds behind a gap curve."""
    key = [{"kind": "band", "words": f"{level} band"}] if banded else []
    return [*key, {"kind": "floor", "words": f"by chance {floor['words']}"}] if floor else key


def _dot(stratum: dict[str, Any], curve: dict[str, Any], axis: Axis, up: svg.Scale) -> dict[str, Any] | None:
    """Mark the largest gap, the first of equals; its value stands above the band, on the side with room."""
    known = [(gap, -i) for i, gap in enumerate(stratum["gap"]) if gap is not None]
    if not known:
        return None
    largest = max(known)[0]
    # equal gaps may differ in their last digit
    gap, i = next((value, -j) for value, j in known if value >= largest - 1e-12)
    above, threshold = (stratum["high"] or stratum["gap"])[i], curve["thresholds"][i]
    return {
        "x": axis.along.percent(threshold),
        "y": round(up(gap), 1),
        "text": f"{numerals.points(gap)} at {curve['written'][i]}",
        "label_y": round(up(gap if above is None else above) - 6, 1),
        "left": axis.along(threshold) > 0.6 * svg.WIDTH,
    }
