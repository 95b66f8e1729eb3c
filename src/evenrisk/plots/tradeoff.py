"""Quality against the max gap, for several methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Self

from evenrisk._validation import check_choice, check_flag, check_number
from evenrisk.metrics import Decisions, Interval, ThresholdProfile, decisions, threshold_profile
from evenrisk.plots import _draw

if TYPE_CHECKING:
    from evenrisk.parity import Parity

QUALITIES = {"auc": "AUC", "accuracy": "accuracy"}


class TradeoffDisplay:
    """Quality against the max gap of one method at several settings, or of several scores.

    Parameters
    ----------
    max_gap, quality : array-like of shape (n,)
        The points.
    max_gap_error, quality_error : array-like of shape (n,) or (2, n), default=None
        Lengths of the error bars: the same on both sides, or below and above.
    name : str, default=None
        Label of the method.
    quality_name, gap_name : str, default="AUC" and "max gap"
        Labels of the axes.
    labels : sequence of shape (n,), default=None
        Label of each point, such as its η.

    Attributes
    ----------
    lines_ : list of matplotlib ErrorbarContainer
        What was drawn last: one of all points, or one of each.
    ax_ : matplotlib Axes
        Where they are.
    figure_ : matplotlib Figure
        Where that is.
    """

    def __init__(
        self,
        max_gap: Any,
        quality: Any,
        *,
        max_gap_error: Any = None,
        quality_error: Any = None,
        name: str | None = None,
        quality_name: str = "AUC",
        gap_name: str = "max gap",
        labels: Any = None,
    ) -> None:
        self.max_gap = _check_points("max_gap", max_gap, least=0.0)
        n = len(self.max_gap)
        self.quality = _check_points("quality", quality, n)
        self.max_gap_error = _check_errors("max_gap_error", max_gap_error, n)
        self.quality_error = _check_errors("quality_error", quality_error, n)
        self.name = name
        self.quality_name = quality_name
        self.gap_name = gap_name
        self.labels = _check_labels(labels, n)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_scores: Any,
        *,
        sensitive_features: Any,
        parity: str | Parity = "demographic_parity",
        metric: str = "auc",
        threshold: float = 0.5,
        level: float | None = None,
        sample_weight: Any = None,
        pos_label: Any = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
        line: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Measure one score or several on the same rows and draw a point for each.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Two labels of any kind.
        y_scores : array-like of shape (n,), dict of str to array-like, or data frame
            One score, or several with their names.
        sensitive_features, parity, sample_weight, pos_label
            As in :func:`evenrisk.metrics.threshold_profile`.
        metric : {"auc", "accuracy"}, default="auc"
            The quality: AUC of all rows, or the share of them decided right at `threshold`.
        threshold : float, default=0.5
            For the accuracy, read in the precision of the scores; the max gap is over all thresholds.
        level : float, default=None
            Draw intervals of this level: that of the max gap is read off the band, that of the AUC is
            ``profile.discrimination(level).overall``, that of the accuracy is Wilson's.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance, for the bands.
        name : str, default=None
            Label of the method, where the scores are one method's (``line=True``) or there is one score.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        line : bool, default=False
            As in `plot`: False for scores to compare, each with its own colour and entry in the legend; True
            for one method's path.
        **kwargs
            Passed to matplotlib's ``errorbar``.

        Returns
        -------
        TradeoffDisplay
            The display.
        """
        check_choice("metric", metric, tuple(QUALITIES))
        check_number("threshold", threshold, low=float("-inf"))
        named = _named_scores(y_scores)
        data = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        data["pos_label"] = pos_label
        gap, quality = [], []
        for score in named.values():
            profile = threshold_profile(y_true, score, parity=parity, **data)
            gap.append(_max_gap(profile, level, random_state))
            if metric == "auc":
                quality.append(_auc(profile, level))
            else:
                quality.append(_accuracy(decisions(y_true, score, thresholds=threshold, **data), level))
        at = "" if metric == "auc" else f" at threshold {threshold:g}"
        display = cls(
            [each.value for each in gap],
            [each.value for each in quality],
            max_gap_error=None if level is None else _arms(gap),
            quality_error=None if level is None else _arms(quality),
            name=name,
            quality_name=QUALITIES[metric] + at,
            gap_name=f"max gap over all thresholds, {profile.parity.words}",
            labels=None if None in named else list(named),
        )
        return display.plot(ax, line=line, **kwargs)

    @classmethod
    def from_frame(
        cls,
        table: Any,
        *,
        x: str = "max_gap",
        y: str = "accuracy",
        method: str | None = "method",
        x_error: str | Sequence[str] | None = None,
        y_error: str | Sequence[str] | None = None,
        labels: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> list[Self]:
        """Draw one line per method of a long table, in the order of its rows.

        Parameters
        ----------
        table : data frame
            pandas, polars, pyarrow: one row per method and setting.
        x, y : str
            Columns of the gap and of the quality.
        method : str or None, default="method"
            Column of the method's name; None draws one line without a name, such as that of a search's
            ``path_``.
        x_error, y_error : str or pair of str, default=None
            Column of the error bars' lengths, or two columns: below and above.
        labels : str, default=None
            Column of the points' labels, such as η.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            As in `plot`.

        Returns
        -------
        list of TradeoffDisplay
            One per method, in order of appearance, all on the same axes.
        """
        numbers = {"max_gap": x, "quality": y, "max_gap_error": x_error, "quality_error": y_error}
        shown: list[Self] = []
        for name, part, texts in _split_by_method(table, method, numbers, labels):
            axis_names = {"gap_name": x.replace("_", " "), "quality_name": y.replace("_", " ")}
            shown.append(cls(**part, name=name or None, labels=texts, **axis_names).plot(ax, **kwargs))
            ax = shown[0].ax_
        return shown

    def plot(self, ax: Any = None, *, name: str | None = None, line: bool = True, **kwargs: Any) -> Self:
        """Draw the points; each call on the same axes takes the next colour, marker and dash.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Label of the method.
        line : bool, default=True
            True: the points are one method's, joined in the order given, and labels stand beside them where
            there is room. False: they are not joined, and where they have labels each has a colour, a marker
            and an entry in the legend of its own.
        **kwargs
            Passed to matplotlib's ``errorbar``.

        Returns
        -------
        TradeoffDisplay
            The display.
        """
        check_flag("line", line)
        self.ax_ = ax = _draw.axes(ax)
        self.figure_ = ax.figure
        name = self.name if name is None else name
        parts: list[tuple[list[int], str | None]] = [(list(range(len(self.max_gap))), name)]
        if not line and self.labels is not None:
            before = "" if name is None else f"{name}, "
            parts = [([i], before + label) for i, label in enumerate(self.labels)]
        kwargs = _draw.full_names(kwargs)
        self.lines_ = [
            self._draw_points(
                index, {"label": None if label is None else _draw.literal(label)} | kwargs, line
            )
            for index, label in parts
        ]
        _draw.state_of(ax).paths += self._paths(line)
        self._frame()
        return self

    def _draw_points(self, index: list[int], style: dict[str, Any], line: bool) -> Any:
        """Draw some of the points in the next style."""
        number = sum(drawn.get_gid() == "tradeoff" for drawn in self.ax_.lines)
        bars = [
            None if error is None else [[side[i] for i in index] for side in error]
            for error in (self.quality_error, self.max_gap_error)
        ]
        points = ([values[i] for i in index] for values in (self.max_gap, self.quality))
        look = {
            "color": _draw.COLORS[number % len(_draw.COLORS)],
            "linestyle": _draw.DASHES[number % len(_draw.DASHES)] if line else "none",
            "marker": _draw.MARKERS[number % len(_draw.MARKERS)],
            "markersize": 7,
            "markeredgecolor": "white",
            "markeredgewidth": 0.7,
            "linewidth": 1.5,
            "elinewidth": 1.1,
        }
        drawn = self.ax_.errorbar(*points, *bars, **look | style)
        drawn.lines[0].set_gid("tradeoff")
        for bar in drawn.lines[2]:
            bar.set_alpha(0.6)
        return drawn

    def _paths(self, line: bool) -> list[_draw.LabelledPath]:
        """Return what labels must not cover: the points, labelled where joined, and the error bars."""
        points = list(zip(self.max_gap, self.quality, strict=True))
        paths: list[_draw.LabelledPath] = [(points, self.labels)]
        if not line:
            paths = [([point], None) for point in points]
        if self.max_gap_error is not None:
            arms = zip(points, *self.max_gap_error, strict=True)
            paths += [([(x - below, y), (x + above, y)], None) for (x, y), below, above in arms]
        if self.quality_error is not None:
            arms = zip(points, *self.quality_error, strict=True)
            paths += [([(x, y - below), (x, y + above)], None) for (x, y), below, above in arms]
        return paths

    def _frame(self) -> None:
        """Set limits, labels and legend for all that these axes show by now."""
        ax, paths = self.ax_, _draw.state_of(self.ax_).paths
        _draw.surround(ax, [point for points, _ in paths for point in points])
        ax.set_xlabel(_draw.literal(f"← fairer      {self.gap_name}"))
        ax.set_ylabel(_draw.literal(self.quality_name))
        _draw.annotate(ax, paths, "tradeoff label")


def _max_gap(profile: ThresholdProfile, level: float | None, random_state: Any) -> Interval:
    """Return the max gap, with its interval where one is asked for."""
    if level is None:
        return Interval(profile.max_gap, profile.max_gap, profile.max_gap)
    return profile.band(level, random_state=random_state).max_gap


def _auc(profile: ThresholdProfile, level: float | None) -> Interval:
    """Return the AUC of all rows; neither it nor its interval needs resamples: as few as may be are drawn."""
    level = 0.5 if level is None else level
    return profile.discrimination(level, n_resamples=int(1 / (1 - level)) + 1, random_state=0).overall


def _accuracy(decided: Decisions, level: float | None) -> Interval:
    """Return the share of all rows decided right."""
    return decided.overall_accuracy(0.95 if level is None else level)[0]


def _arms(intervals: Sequence[Interval]) -> list[list[float]]:
    """Return the lengths of the error bars below and above."""
    return [[each.value - each.low for each in intervals], [each.high - each.value for each in intervals]]


def _check_points(name: str, values: Any, n: int | None = None, least: float = float("-inf")) -> list[float]:
    """Return finite numbers, n of them where n is known."""
    given = _listed(name, values)
    if not given or (n is not None and len(given) != n):
        raise ValueError(f"`{name}` must have one entry per point, {n or '1 or more'}, got {len(given)}")
    what = "finite numbers" if least < 0 else f"finite numbers of at least {least:g}"
    found = []
    for i, value in enumerate(given):
        try:
            number = float("nan") if isinstance(value, (str, bytes)) else float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not isfinite(number) or number < least:
            raise ValueError(f"`{name}` must be {what}, got {value!r:.60} in place {i}")
        found.append(number)
    return found


def _check_errors(name: str, error: Any, n: int) -> list[list[float]] | None:
    """Return the lengths of error bars below and above, from shape (n,) or (2, n)."""
    if error is None:
        return None
    sides = _listed(name, error)
    nested = [hasattr(side, "__len__") and not isinstance(side, str) for side in sides]
    if sides and all(nested):
        if len(sides) != 2:
            raise ValueError(f"`{name}` must have shape ({n},) or (2, {n}), got {len(sides)} rows")
        return [_check_points(name, side, n, least=0.0) for side in sides]
    return [_check_points(name, sides, n, least=0.0)] * 2


def _check_labels(labels: Any, n: int) -> list[str] | None:
    """Return the labels of n points as text."""
    if labels is None:
        return None
    texts = [_text(label) for label in _listed("labels", labels)]
    if len(texts) != n:
        raise ValueError(f"`labels` must have one entry per point, {n}, got {len(texts)}")
    return texts


def _named_scores(y_scores: Any) -> dict[str | None, Any]:
    """Return the scores by name; a single one without a name has None."""
    named: dict[str | None, Any]
    if isinstance(y_scores, Mapping):
        named = {_text(name): score for name, score in y_scores.items()}
    elif (frame := _frame(y_scores)) is not None:
        named = {_text(column.name): column.to_native() for column in frame.iter_columns()}
    else:
        named = {None: y_scores}
    if not named:
        raise ValueError("`y_scores` must hold 1 score or more, got none")
    return named


def _split_by_method(
    table: Any, method: str | None, numbers: Mapping[str, str | Sequence[str] | None], labels: str | None
) -> list[tuple[str, dict[str, Any], Any]]:
    """Split a long table by method: its name, the `numbers` by their keys, and the labels of its rows."""
    measured: list[str] = []
    for name in numbers.values():
        measured += [] if name is None else [name] if isinstance(name, str) else name
    columns = _columns(table, [method, *measured, labels])
    rows: dict[str, list[int]] = {}
    n = len(next(iter(columns.values())))
    for i, name in enumerate([""] * n if method is None else columns[method]):
        if name is None or name != name:
            raise ValueError(f"`{method}` must name the method of each row, got {name!r} in row {i}")
        rows.setdefault(_text(name), []).append(i)
    for name in set(measured):
        _check_points(name, columns[name])

    def some(name: str | Sequence[str] | None, index: list[int]) -> Any:
        """Return some rows of one column, or of each of several; None for none."""
        if name is None or isinstance(name, str):
            return None if name is None else [columns[name][i] for i in index]
        return [some(each, index) for each in name]

    return [
        (name, {key: some(column, index) for key, column in numbers.items()}, some(labels, index))
        for name, index in rows.items()
    ]


def _columns(table: Any, names: Sequence[str | None]) -> dict[str, list[Any]]:
    """Return columns of a data frame as lists."""
    frame = _frame(table)
    if frame is None:
        raise ValueError(f"`table` must be a data frame, got {type(table).__name__}")
    wanted = [name for name in names if name is not None]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(
            f"`table` must have the columns {', '.join(map(repr, wanted))}, got none named "
            f"{', '.join(map(repr, missing))} among {', '.join(map(repr, frame.columns))}"
        )
    if len(frame) == 0:
        raise ValueError("`table` must have 1 row or more, got 0")
    return {name: frame[name].to_list() for name in wanted}


def _frame(table: Any) -> Any:
    """Return a data frame of any library for narwhals, or None where it is none."""
    import narwhals as nw

    frame: Any = nw.from_native(table, pass_through=True, eager_only=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _listed(name: str, values: Any) -> list[Any]:
    """Return anything but text as a list."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise ValueError(f"`{name}` must be a list of values, got {values!r:.60}")
    return list(values)


def _text(value: Any) -> str:
    """Return a label as text; numbers without needless digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)
