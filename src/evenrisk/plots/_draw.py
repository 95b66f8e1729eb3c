"""What the displays share: colours, axes, space for the legend, fewer points, labels that do not overlap.

Colours are Okabe and Ito's, told apart by the colour-blind; lines differ in dash too, so grey print works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

from evenrisk._validation import check_binary, visible

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")

COLUMNS = 600  # of a filled region, where it has more points than could be told apart
MOST_LABELS = 12  # of one path
# where a label may stand: offset from its point in points, and the side of the text that faces it
_SIDES = (
    ((6, 0), "left", "center"),
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((-6, 0), "right", "center"),
    ((5, 5), "left", "bottom"),
    ((5, -5), "left", "top"),
    ((-5, 5), "right", "bottom"),
    ((-5, -5), "right", "top"),
)

Point = tuple[float, float]
LabelledPath = tuple[list[Point], list[str] | None]  # points joined in this order, and a label for each


@dataclass
class AxesState:
    """What the displays have drawn on some axes so far: the next one there must fit in."""

    x: str | None = None  # that of the parity curves
    highest: float = 0.0  # of curves, bands and densities
    paths: list[LabelledPath] = field(default_factory=list)  # of trade-offs


_STATES: WeakKeyDictionary[Any, AxesState] = WeakKeyDictionary()  # by axes, as long as those live


def state_of(ax: Any) -> AxesState:
    """Return what is known of these axes."""
    return _STATES.setdefault(ax, AxesState())


def literal(name: str) -> str:
    """Return a name so that matplotlib shows it as it is, in a legend too.

    It would read what stands between two $ as mathematics, and leave an entry that begins with _ out of
    the legend: such a name begins with a space here.
    """
    text = visible(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def axes(ax: Any) -> Any:
    """Return the axes given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def full_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords without matplotlib's short forms (ls, lw, c), so that they override ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(kwargs, Line2D)


def headroom(ax: Any, highest: float, entries: int = 0) -> None:
    """Start at 0 and leave space for a legend of so many entries above all that was drawn so far."""
    state = state_of(ax)
    state.highest = max(float(highest), state.highest)
    ax.set_ylim(0, max((1.35 + 0.1 * max(entries - 4, 0)) * state.highest, 1e-3))


def surround(ax: Any, points: Sequence[Point]) -> None:
    """Show all points, x from 0, with the legend above them and numbers written out."""
    x, y = zip(*points, strict=True)
    span = max(y) - min(y)
    margin = 0.08 * span if span > 1e-9 else 0.05
    low, high = min(y) - margin, max(y) + margin
    ax.set_xlim(0, 1.06 * max(x) or 0.02)
    ax.set_ylim(low, low + (high - low) / (1 - _legend_above(ax)))
    for axis in (ax.xaxis, ax.yaxis):
        if hasattr(axis.get_major_formatter(), "set_useOffset"):
            axis.get_major_formatter().set_useOffset(False)  # 0.71230 is read, 0.0001 + 0.712 is not


def _legend_above(ax: Any) -> float:
    """Put the legend at the top, in as many columns as fit; return the share of the height that it takes."""
    names = ax.get_legend_handles_labels()[1]
    if not names:
        return 0.0
    size = 8.5  # of a letter, in points
    box = ax.get_window_extent()
    width, height = (72 * length / ax.figure.dpi for length in (box.width, box.height))
    fitting = int(width // (0.6 * size * max(map(len, names)) + 5 * size))
    columns = max(min(fitting, 3, len(names)), 1)
    ax.legend(frameon=False, loc="upper left", fontsize="small", ncols=columns, columnspacing=1.2)
    return min((-(-len(names) // columns) * 1.5 + 1) * size / height, 0.6)


def scores(estimator: Any, X: Any) -> Any:
    """Return the risk of the positive class, or the raw score where the classifier has no probabilities."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)[:, 1]
    return estimator.decision_function(X)


def positive_label(estimator: Any, y: Any) -> Any:
    """Return the class that the scores are of; None where the labels of y are not the estimator's."""
    classes = getattr(estimator, "classes_", None)
    if y is None or classes is None:
        return None
    found = check_binary(y, "y_true", at_least=1)[1].tolist()
    return classes[-1] if classes[-1] in found else None


def envelope(x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """Keep of a filled region what can be seen: in each of `COLUMNS` columns the ends and both extremes.

    matplotlib thins lines by itself but not regions: a million thresholds would make a file of 100 MB.
    x is ascending.
    """
    if len(x) <= 4 * COLUMNS:
        return x, low, high
    width = (float(x[-1]) - float(x[0])) / COLUMNS
    edges = x.searchsorted([float(x[0]) + width * i for i in range(1, COLUMNS)])
    kept: set[int] = set()
    for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), len(x)], strict=True):
        if start < stop:
            lowest, highest = int(low[start:stop].argmin()), int(high[start:stop].argmax())
            kept |= {start, start + lowest, start + highest, stop - 1}
    index = sorted(kept)
    return x[index], low[index], high[index]


def annotate(ax: Any, paths: Sequence[LabelledPath], gid: str) -> None:
    """Write labels beside the points of each path; leave out those that would cover something.

    The limits of the axes are final; a path without labels is only in the way; older labels of the same
    `gid` are replaced.
    """
    for text in list(ax.texts):
        if text.get_gid() == gid:
            text.remove()
    size = 4 * ax.figure.dpi / 72  # of a marker, from its middle, in pixels
    taken: list[tuple[float, ...]] = [
        (x - size, y - size, x + size, y + size)
        for points, _ in paths
        for x, y in _along(ax.transData.transform(points).tolist())
    ]
    for points, labels in paths:
        for i in _ends_first(len(points))[:MOST_LABELS] if labels else ():
            if labels[i]:  # type: ignore[index]
                _place(ax, points[i], labels[i], taken, size, gid)  # type: ignore[index]


def _place(ax: Any, point: Point, label: str, taken: list[tuple[float, ...]], size: float, gid: str) -> None:
    """Write one label where nothing is, or not at all."""
    text = ax.annotate(
        literal(label),
        point,
        textcoords="offset points",
        xytext=(0, 0),
        fontsize="x-small",
        color="#333333",
        gid=gid,
    )
    left, bottom, right, top = ax.get_window_extent().extents
    for offset, ha, va in _SIDES:
        text.set(position=offset, ha=ha, va=va)
        x0, y0, x1, y1 = text.get_window_extent().extents
        inside = left <= x0 and x1 <= right and bottom <= y0 and y1 <= top
        if inside and not any(x0 < c and a < x1 and y0 < d and b < y1 for a, b, c, d in taken):
            taken.append((x0 - size, y0 - size / 2, x1 + size, y1 + size / 2))  # sparse enough to read
            return
    text.remove()


def _along(points: list[list[float]]) -> Iterator[tuple[float, float]]:
    """Yield points on straight lines through the points given, every tenth part of a line."""
    for (a, b), (c, d) in pairwise(points):
        yield from ((a + (c - a) * i / 10, b + (d - b) * i / 10) for i in range(10))
    yield (points[-1][0], points[-1][1])


def _ends_first(n: int) -> list[int]:
    """Return 0 … n − 1 in an order so that any first few of them are spread out."""
    order, step = [0, n - 1], n - 1
    while step > 1:
        step = (step + 1) // 2
        order += range(0, n, step)
    return list(dict.fromkeys(order))
