"""One dict per plot: what the template writes, and nothing that it would have to compute.

A plot has `title`, `alt` (its content in words), `height`, `x_ticks`, `y_ticks`, `x_name`, `y_name`, `paths`
(``{"d", "kind", "style"}``), and, None or empty where it has none, `key`, `floor` (the gap that chance gives), `dot`
(the largest value), `names` (of histograms in rows) and `line` (the threshold).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evenrisk.report import numerals, svg

HEIGHT = 190.0
ROW = 36.0
OVERLAID = 4  # more histograms than these are drawn one below the other
STYLES = 12  # pairs of colour and dash in the style sheet


@dataclass(frozen=True)
class Axis:
    """The thresholds of one score column, from left to right; every plot of the column shares it."""

    along: svg.Scale
    start: float
    write: Callable[[float], str]

    @classmethod
    def of(cls, score: dict[str, Any]) -> Axis:
        """Lay out the scores, and the thresholds and bins a little outside of them."""
        low, high = score["range"]
        steps = score["steps"]["thresholds"]
        edges = [edge for shown in score["distributions"] for edge in shown["edges"]]
        ends = svg.domain(low, high, [min(steps + edges), max(steps + edges)])
        return cls(svg.across(*ends), steps[score["start"]], numerals.threshold_writer(steps))


def gap_plot(
    stratum: dict[str, Any], thresholds: list[float], axis: Axis, top: float, level: str
) -> dict[str, Any]:
    """Draw the gap of one stratum at every threshold, its band, and what chance gives."""
    up = svg.upwards(top, HEIGHT, HEIGHT)
    x = [axis.along.low, *thresholds, axis.along.high]
    gap, low, high = (_to_the_ends(stratum[key], len(thresholds)) for key in ("gap", "low", "high"))
    floor = _floor(stratum["noise_floor"], up)
    worst = _worst(stratum["gap"])
    found = "not measured"
    if worst is not None:
        where = axis.write(thresholds[worst])
        found = f"the largest is {numerals.points(stratum['gap'][worst])} points, at cut-off {where}"
    chance = f"; chance alone gives {floor['words']} points" if floor else ""
    return {
        "title": f"Gap among {stratum['words']}",
        "alt": f"Gap among {stratum['words']} at every cut-off, with its {level} band: {found}{chance}.",
        "height": HEIGHT,
        "x_ticks": _marks_across(axis.along),
        "y_ticks": _marks_up(up),
        "x_name": "cut-off",
        "y_name": "points",
        "paths": [
            _path(svg.band_path(x, low, high, axis.along, up), "band"),
            _path(svg.step_path(x, gap, axis.along, up), "gap"),
        ],
        "key": _key(floor, level, bool(stratum["high"])),
        "floor": floor,
        "dot": None if worst is None else _dot(stratum, worst, thresholds[worst], axis, up),
        "names": [],
        "line": axis.along.percent(axis.start),
    }


def distribution_plot(shown: dict[str, Any], groups: list[str], axis: Axis) -> dict[str, Any]:
    """Draw the distribution of the score in each group: few on one ground, many one below the other."""
    rows = len(groups) > OVERLAID
    highest = [max((value for value in density if value), default=1.0) for density in shown["density"]]
    paths, names = [], []
    for j, density in enumerate(shown["density"]):
        ground = ROW * (j + 1) if rows else HEIGHT
        up = svg.upwards(highest[j] if rows else max(highest), ground, 0.85 * ROW if rows else HEIGHT)
        d = svg.outline_path(shown["edges"], density, axis.along, up)
        paths += [_path(d, "fill", j), _path(d, "outline", j)]
        if rows:
            names.append({"text": shortened(groups[j], 34), "y": ground - ROW + 14})
    return {
        "title": f"Scores of {shown['words']}",
        "alt": f"Distribution of the score among {shown['words']}, by group: {', '.join(groups)}.",
        "height": ROW * len(groups) if rows else HEIGHT,
        "x_ticks": _marks_across(axis.along),
        "y_ticks": [],
        "x_name": "score",
        "y_name": "share of the group" + (", each to its own height" if rows else ""),
        "paths": paths,
        "key": [],
        "floor": None,
        "dot": None,
        "names": names,
        "line": axis.along.percent(axis.start),
    }


def overlay_plot(words: str, curves: list[dict[str, Any]], names: list[str], top: float) -> dict[str, Any]:
    """Draw the worst stratum's gap of every score column against the share of people selected."""
    along, up = svg.across(0.0, 1.0), svg.upwards(top, HEIGHT, HEIGHT)
    paths, found = [], []
    for j, (curve, name) in enumerate(zip(curves, names, strict=True)):
        gap = worst_gap(curve)
        paths.append(_path(svg.line_path(curve["selection_rate"], gap, along, up), "outline", j))
        largest = max((value for value in gap if value is not None), default=None)
        found.append(f"{name} {numerals.points(largest)} points")
    return {
        "title": f"Gap under {words}",
        "alt": f"Gap under {words} by share of people selected; the largest: {', '.join(found)}.",
        "height": HEIGHT,
        "x_ticks": [{"at": f"{20 * i}%", "text": f"{20 * i} %"} for i in range(6)],
        "y_ticks": _marks_up(up),
        "x_name": "share of people above the cut-off",
        "y_name": "points",
        "paths": paths,
        "key": [],
        "floor": None,
        "dot": None,
        "names": [],
        "line": None,
    }


def worst_gap(curve: dict[str, Any]) -> list[float | None]:
    """Give the gap in the worst stratum at each threshold."""
    columns = zip(*(stratum["gap"] for stratum in curve["strata"]), strict=True)
    return [max((value for value in column if value is not None), default=None) for column in columns]


def highest(summary: dict[str, Any]) -> float:
    """Give the top of all gap axes of the page, so that columns can be compared by eye."""
    found = [0.02]
    for score in summary["scores"]:
        for stratum in (s for parity in score["parities"] for s in parity["curve"]["strata"]):
            found += [value for key in ("gap", "high") for value in stratum[key] or [] if value is not None]
            found += [value for value in (stratum["noise_floor"] or {}).values() if value is not None]
    return min(1.12 * max(found), 1.05)


def shortened(name: str, most: int) -> str:
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


def _worst(gap: list[float | None]) -> int | None:
    """Find the largest value, the first of equals."""
    known = [i for i, value in enumerate(gap) if value is not None]
    return max(known, key=lambda i: gap[i] or 0.0) if known else None


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
    words = f"{numerals.points(noise['mean'])} to {numerals.points(noise['p95'])}"
    return {"y": round(top, 1), "height": round(max(bottom - top, 1.0), 1), "words": words}


def _key(floor: dict[str, Any] | None, level: str, banded: bool) -> list[dict[str, str]]:
    """Explain the grounds behind a gap curve."""
    key = [{"kind": "band", "words": f"{level} band"}] if banded else []
    return [*key, {"kind": "floor", "words": f"by chance {floor['words']}"}] if floor else key


def _dot(stratum: dict[str, Any], worst: int, threshold: float, axis: Axis, up: svg.Scale) -> dict[str, Any]:
    """Mark the largest gap; its value stands above the band, on the side that has room."""
    gap = stratum["gap"][worst]
    above = (stratum["high"] or stratum["gap"])[worst]
    return {
        "x": axis.along.percent(threshold),
        "y": round(up(gap), 1),
        "text": f"{numerals.points(gap)} at {axis.write(threshold)}",
        "label_y": round(up(gap if above is None else above) - 6, 1),
        "left": axis.along(threshold) > 0.6 * svg.WIDTH,
    }
