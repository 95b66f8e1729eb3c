"""Quality against the max gap, for several methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from evenrisk._validation import check_choice, check_flag, check_number
from evenrisk.metrics import Decisions, Interval, ThresholdProfile, decisions, threshold_profile
from evenrisk.plots._draw import (
    COLORS,
    DASHES,
    MARKERS,
    LabelledPath,
    annotate,
    axes,
    full_names,
    literal,
    surround,
)
from evenrisk.plots._inputs import check_errors, check_labels, check_points, methods_of, named_scores

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
        self.max_gap = check_points("max_gap", max_gap, least=0.0)
        n = len(self.max_gap)
        self.quality = check_points("quality", quality, n)
        self.max_gap_error = check_errors("max_gap_error", max_gap_error, n)
        self.quality_error = check_errors("quality_error", quality_error, n)
        self.name = name
        self.quality_name = quality_name
        self.gap_name = gap_name
        self.labels = check_labels(labels, n)

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
        named = named_scores(y_scores)
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
            gap_name=f"max gap over all thresholds, {profile.parity.name.replace('_', ' ')}",
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
        for name, part, texts in methods_of(table, method, numbers, labels):
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
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        name = self.name if name is None else name
        parts: list[tuple[list[int], str | None]] = [(list(range(len(self.max_gap))), name)]
        if not line and self.labels is not None:
            before = "" if name is None else f"{name}, "
            parts = [([i], before + label) for i, label in enumerate(self.labels)]
        kwargs = full_names(kwargs)
        self.lines_ = [
            self._draw(index, {"label": None if label is None else literal(label)} | kwargs, line)
            for index, label in parts
        ]
        ax._evenrisk_paths = [*getattr(ax, "_evenrisk_paths", []), *self._paths(line)]
        self._frame()
        return self

    def _draw(self, index: list[int], style: dict[str, Any], line: bool) -> Any:
        """Draw some of the points in the next style."""
        number = sum(drawn.get_gid() == "tradeoff" for drawn in self.ax_.lines)
        bars = [
            None if error is None else [[side[i] for i in index] for side in error]
            for error in (self.quality_error, self.max_gap_error)
        ]
        points = ([values[i] for i in index] for values in (self.max_gap, self.quality))
        look = {
            "color": COLORS[number % len(COLORS)],
            "linestyle": DASHES[number % len(DASHES)] if line else "none",
            "marker": MARKERS[number % len(MARKERS)],
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

    def _paths(self, line: bool) -> list[LabelledPath]:
        """What labels must not cover: the points, labelled where they are joined, and the error bars."""
        points = list(zip(self.max_gap, self.quality, strict=True))
        paths: list[LabelledPath] = [(points, self.labels)]
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
        ax = self.ax_
        surround(ax, [point for points, _ in ax._evenrisk_paths for point in points])
        ax.set_xlabel(literal(f"← fairer      {self.gap_name}"))
        ax.set_ylabel(literal(self.quality_name))
        annotate(ax, ax._evenrisk_paths, "tradeoff label")


def _max_gap(profile: ThresholdProfile, level: float | None, random_state: Any) -> Interval:
    """The max gap, with its interval where one is asked for."""
    if level is None:
        return Interval(profile.max_gap, profile.max_gap, profile.max_gap)
    return profile.band(level, random_state=random_state).max_gap


def _auc(profile: ThresholdProfile, level: float | None) -> Interval:
    """AUC of all rows; neither it nor its interval needs resamples, so as few as may be are drawn."""
    level = 0.5 if level is None else level
    return profile.discrimination(level, n_resamples=int(1 / (1 - level)) + 1, random_state=0).overall


def _accuracy(decided: Decisions, level: float | None) -> Interval:
    """Share of all rows decided right."""
    return decided.overall_accuracy(0.95 if level is None else level)[0]


def _arms(intervals: Sequence[Interval]) -> list[list[float]]:
    """Lengths of the error bars below and above."""
    return [[each.value - each.low for each in intervals], [each.high - each.value for each in intervals]]
