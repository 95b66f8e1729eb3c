"""The gap between groups against the threshold, or against the share of people selected."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Self

from evenrisk._validation import check_choice
from evenrisk.metrics import Band, NoiseFloor, ThresholdProfile, threshold_profile
from evenrisk.plots import _draw

if TYPE_CHECKING:
    from evenrisk._validation import Comparison
    from evenrisk.parity import Parity

X_LABELS = {"threshold": "threshold on the risk score", "selection_rate": "share of people selected"}
CHANCE = "max gap by chance: mean to 95 % point"
MOST_NAMED = 3  # groups that are not compared, in the legend
LINE = 52  # characters of the legend; a longer line would leave the axes no room


class ParityCurveDisplay:
    """The gap between groups against the threshold, or against the share of people selected.

    Where the rule has several strata, or several attributes are compared, the worst at each threshold, so
    that the curve's top is `max_gap`. The legend names groups that are too small to be compared, and says how
    many people's values are not known.

    Parameters
    ----------
    profile : ThresholdProfile
        What to draw.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve; the first of several.
    lines_ : list of matplotlib Line2D
        The curve, or one for each attribute.
    band_ : matplotlib PolyCollection or None
        The shaded region of the band.
    ax_ : matplotlib Axes
        Where they are.
    figure_ : matplotlib Figure
        Where that is.
    """

    def __init__(self, profile: ThresholdProfile, *, name: str | None = None) -> None:
        self.profile = profile
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        sensitive_features: Any,
        parity: str | Parity = "demographic_parity",
        comparison: str | Comparison = "crossed",
        sample_weight: Any = None,
        level: float | None = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
        band: Band | None = None,
        noise_floor: NoiseFloor | bool | None = None,
        pos_label: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Measure scores and draw the curve.

        Parameters
        ----------
        y_true, y_score, sensitive_features, parity, comparison, sample_weight, pos_label
            As in :func:`evenrisk.metrics.threshold_profile`.
        level : float, default=None
            Measure the band of this level too (``profile.band(level)``) and draw it.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance, where the band or the noise floor is measured here.
        name : str, default=None
            Label of the curve.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        band : Band, default=None
            As in `plot`; not together with `level`.
        noise_floor : NoiseFloor or bool, default=None
            As in `plot`; True measures it here.
        **kwargs
            As in `plot`: `x`, `by_attribute`, and what matplotlib's ``plot`` takes.

        Returns
        -------
        ParityCurveDisplay
            The display.

        Examples
        --------
        The gap of the score that COMPAS itself gave, with its 95 % band and what chance would show:

        >>> from evenrisk.datasets import load_compas
        >>> from evenrisk.plots import ParityCurveDisplay
        >>> data = load_compas()
        >>> score = data.frame["decile_score"]
        >>> display = ParityCurveDisplay.from_predictions(
        ...     data.y,
        ...     score,
        ...     sensitive_features=data.sensitive_features,
        ...     level=0.95,
        ...     noise_floor=True,
        ...     random_state=0,
        ...     x="selection_rate",
        ... )
        >>> display.ax_.get_xlabel()
        'share of people selected'
        """
        if level is not None and band is not None:
            raise ValueError(f"one of `level` and `band` must be None, got level={level!r} and {band!r}")
        profile = threshold_profile(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            comparison=comparison,
            sample_weight=sample_weight,
            pos_label=pos_label,
        )
        if level is not None:
            band = profile.band(level, random_state=random_state)
        if isinstance(noise_floor, bool):
            noise_floor = profile.noise_floor(random_state=random_state) if noise_floor else None
        return cls(profile, name=name).plot(ax, band=band, noise_floor=noise_floor, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Score rows with a fitted classifier and draw the curve.

        Parameters
        ----------
        estimator : object
            With ``predict_proba`` or ``decision_function``, for two classes.
        X : array-like of shape (n, d)
            Features.
        y : array-like of shape (n,) or None
            Labels.
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row, in one column or several.
        name : str, default=None
            Label of the curve; the class name of the estimator if None.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        ParityCurveDisplay
            The display.
        """
        name = type(estimator).__name__ if name is None else name
        data = {"sensitive_features": sensitive_features, "pos_label": _draw.positive_label(estimator, y)}
        return cls.from_predictions(y, _draw.scores(estimator, X), name=name, **data, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        band: Band | None = None,
        noise_floor: NoiseFloor | None = None,
        x: str = "threshold",
        by_attribute: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Label of the curve.
        band : Band, default=None
            Of this profile (``profile.band()``); shaded in the colour of the curve.
        noise_floor : NoiseFloor, default=None
            Drawn as a grey region from its mean to its 95 % point, hatched where there are bands.
        x : {"threshold", "selection_rate"}, default="threshold"
            The threshold, or the share of people above it. Thresholds make steps; shares between those that a
            threshold can give are had by selecting some of a tied block at random, which makes straight lines
            (every signed gap is linear there, so the worst gap is nowhere above its line).
        by_attribute : bool, default=False
            Draw one curve for each attribute, instead of the worst of all; without a band.
        **kwargs
            Passed to matplotlib's ``plot``.

        Returns
        -------
        ParityCurveDisplay
            The display.
        """
        check_choice("x", x, tuple(X_LABELS))
        if by_attribute and band is not None:
            raise ValueError(
                f"`band` must be None with by_attribute=True, got {band!r}: draw the profiles of "
                "`profile.by_attribute` one by one, each with its own band"
            )
        self._check(band, noise_floor)
        self.ax_ = ax = _draw.axes(ax)
        self.figure_ = ax.figure
        state = _draw.state_of(ax)
        if state.x not in (None, x):
            raise ValueError(f"`x` must be {state.x!r}, as of the curves that are on these axes, got {x!r}")
        state.x = x
        if noise_floor is not None:
            ax.axhspan(noise_floor.mean, noise_floor.p95, color="#d9d9d9", lw=0, label=CHANCE)
        name = self.name if name is None else name
        curves = {self._label(name): self.profile.worst_gap}
        if by_attribute:
            parts = self.profile.gap_by_attribute.items()
            curves = {_labelled(part, f"max gap {gap.max():.2f}", name): gap for part, gap in parts}
        self.lines_ = [self._draw_gap(gap, label, x, kwargs) for label, gap in curves.items()]
        self.line_ = self.lines_[0]
        self._list_not_compared()
        self.band_ = None if band is None else self._shade(band, x)
        tops = [self.profile.max_gap]
        tops += [] if noise_floor is None else [noise_floor.p95]
        tops += [] if band is None else [band.max_gap.high]
        self._frame(x, max(tops))
        return self

    def _draw_gap(self, gap: Any, label: str, x: str, kwargs: dict[str, Any]) -> Any:
        """Draw one curve in the next colour and dash."""
        number = sum(line.get_gid() == "gap" for line in self.ax_.lines)
        style = {
            "color": _draw.COLORS[number % len(_draw.COLORS)],
            "linestyle": _draw.DASHES[number % len(_draw.DASHES)],
            "linewidth": 1.8,
            "label": _draw.literal(label),
            "gid": "gap",
            "drawstyle": "steps-post" if x == "threshold" else "default",
        } | _draw.full_names(kwargs)
        return self.ax_.plot(*_closed(x, *self._across(x, gap)), **style)[0]

    def _list_not_compared(self) -> None:
        """Say in the legend who is in no comparison."""
        small = [f"{name} ({rows:,})" for name, rows in self.profile.left_out.items()]
        unknown = [f"{name} unknown ({rows:,})" for name, rows in self.profile.unknown.items()]
        if not (small or unknown):
            return
        names = [*small[:MOST_NAMED], *unknown[:MOST_NAMED]]
        more = len(small) + len(unknown) - len(names)
        text = f"not compared, rows: {', '.join(names)}{f' and {more} more' if more else ''}"
        label = "\n".join(map(_draw.literal, textwrap.wrap(text, LINE)))
        if label not in self.ax_.get_legend_handles_labels()[1]:
            self.ax_.plot([], [], linestyle="none", label=label)

    def _check(self, band: Any, noise_floor: Any) -> None:
        """Refuse what is no band of this profile and no noise floor."""
        for name, given, kind in (("band", band, Band), ("noise_floor", noise_floor, NoiseFloor)):
            if given is not None and not isinstance(given, kind):
                raise ValueError(f"`{name}` must be a {kind.__name__} or None, got {given!r:.60}")
        if band is None:
            return
        mine, theirs = self.profile.thresholds, band.thresholds
        same = len(mine) == len(theirs) and bool((mine == theirs).all())
        if not same or abs(band.max_gap.value - self.profile.max_gap) > 1e-9:
            raise ValueError(f"`band` must be of the profile that is drawn, {self.profile!r}, got {band!r}")

    def _across(self, x: str, *curves: Any) -> tuple[Any, ...]:
        """Return x and the curves from left to right."""
        if x == "threshold":
            return (self.profile.thresholds, *curves)
        return tuple(values[::-1] for values in (self.profile.selection_rate, *curves))

    def _shade(self, band: Band, x: str) -> Any:
        """Fill the band; one entry of the legend serves all bands of one level."""
        from matplotlib.colors import to_rgba

        label = f"{100 * band.level:g} % band, all thresholds at once"
        if label in self.ax_.get_legend_handles_labels()[1]:
            label = f"_{label}"
        step = "post" if x == "threshold" else None
        drawn = _closed(x, *_draw.envelope(*self._across(x, *band.worst_gap)))
        face, edge = (to_rgba(self.line_.get_color(), alpha) for alpha in (0.18, 0.5))
        look = {"facecolor": face, "edgecolor": edge, "linewidth": 0.5, "label": label, "gid": "band"}
        return self.ax_.fill_between(*drawn, step=step, **look)

    def _frame(self, x: str, highest: float) -> None:
        """Set limits, labels and legend."""
        ax, parity = self.ax_, self.profile.parity
        if any(region.get_gid() == "band" for region in ax.collections):
            for patch in ax.patches:  # in grey print the noise floor would look like a band
                if patch.get_label() == CHANCE:
                    patch.set(facecolor="#f0f0f0", edgecolor="#888888", hatch="////")
        if x == "selection_rate" or (self.profile.thresholds[0] >= 0 and self.profile.thresholds[-1] <= 1):
            ax.set_xlim(0, 1)
        _draw.headroom(ax, highest, len(ax.get_legend_handles_labels()[1]))
        several = ", worst stratum" if len(parity.strata) > 1 else ""
        ax.set_xlabel(X_LABELS[x])
        ax.set_ylabel(_draw.literal(f"{parity.words} gap{several}"))
        ax.legend(frameon=False, loc="upper left", fontsize="small")

    def _label(self, name: str | None) -> str:
        """Return the name of the curve and its largest value."""
        label = f"max gap {self.profile.max_gap:.2f}"
        if len(self.profile.parity.strata) > 1:
            label += f", {self.profile.worst_stratum}"
        if not self.profile.is_plain and len(self.profile.pairs) > 1:
            label += ", {} against {}".format(*self.profile.worst_groups)
        return f"{name} ({label})" if name else label


def _labelled(attribute: str, label: str, name: str | None) -> str:
    """Return the name of an attribute's curve, and its largest value."""
    return f"{name}, {attribute} ({label})" if name else f"{attribute} ({label})"


def _closed(x: str, where: Any, *curves: Any) -> tuple[Any, ...]:
    """Add the right end, where all are selected and no gap is left; the largest threshold selects nobody."""
    if x == "threshold":
        return (where, *curves)
    return ([*where, 1.0], *([*curve, 0.0] for curve in curves))
