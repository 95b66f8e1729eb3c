"""The largest gap by where an ordered attribute, such as age, is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from evenrisk.metrics import Band, ThresholdProfile, threshold_profile
from evenrisk.plots import _draw

if TYPE_CHECKING:
    from evenrisk._validation import Comparison
    from evenrisk.parity import Parity


class GapByCutDisplay:
    """The largest gap over all thresholds, by where an ordered attribute is cut.

    At each cut people up to it are compared with those over it. Where the rule has several strata, the gap is
    that of the worst.

    Parameters
    ----------
    profile : ThresholdProfile
        What to draw; of a comparison with ordered columns.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
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
        comparison: str | Comparison = "ordered",
        parity: str | Parity = "demographic_parity",
        sample_weight: Any = None,
        level: float | None = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
        pos_label: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Measure scores and draw the curve.

        Parameters
        ----------
        y_true, y_score, sensitive_features, parity, sample_weight, pos_label
            As in :func:`evenrisk.metrics.threshold_profile`.
        comparison : str or Comparison, default="ordered"
            Likewise; with an ordered column.
        level : float, default=None
            Measure the band of this level too and draw it.
        random_state : int, RandomState, Generator or None, default=None
            The only source of chance, where the band is measured here.
        name : str, default=None
            Label of the curve.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            As in `plot`.

        Returns
        -------
        GapByCutDisplay
            The display.

        Examples
        --------
        >>> from evenrisk.datasets import load_adult
        >>> from evenrisk.plots import GapByCutDisplay
        >>> data = load_adult()
        >>> score = data.frame["education_num"]
        >>> display = GapByCutDisplay.from_predictions(None, score, sensitive_features=data.frame[["age"]])
        >>> display.ax_.get_xlabel()
        'cut in age'
        """
        profile = threshold_profile(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            comparison=comparison,
            sample_weight=sample_weight,
            pos_label=pos_label,
        )
        band = None if level is None else profile.band(level, random_state=random_state)
        return cls(profile, name=name).plot(ax, band=band, **kwargs)

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
            The ordered column, or several with it.
        name : str, default=None
            Label of the curve; the class name of the estimator if None.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        GapByCutDisplay
            The display.
        """
        name = type(estimator).__name__ if name is None else name
        data = {"sensitive_features": sensitive_features, "pos_label": _draw.positive_label(estimator, y)}
        return cls.from_predictions(y, _draw.scores(estimator, X), name=name, **data, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        attribute: str | None = None,
        name: str | None = None,
        band: Band | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        attribute : str, default=None
            Which of the ordered attributes; None where there is one.
        name : str, default=None
            Label of the curve.
        band : Band, default=None
            Of this profile (``profile.band()``): it holds at all cuts and all thresholds at once.
        **kwargs
            Passed to matplotlib's ``plot``.

        Returns
        -------
        GapByCutDisplay
            The display.
        """
        attribute = self._attribute(attribute)
        cuts, gap = self.profile.gap_by_cut[attribute]
        self.ax_ = ax = _draw.axes(ax)
        self.figure_ = ax.figure
        number = sum(line.get_gid() == "cuts" for line in ax.lines)
        name = self.name if name is None else name
        label = f"max gap {gap.max():.2f} at {cuts[gap.argmax()]:.10g}"
        style = {
            "color": _draw.COLORS[number % len(_draw.COLORS)],
            "linestyle": _draw.DASHES[number % len(_draw.DASHES)],
            "marker": _draw.MARKERS[number % len(_draw.MARKERS)],
            "markersize": 4,
            "linewidth": 1.8,
            "label": _draw.literal(f"{name} ({label})" if name else label),
            "gid": "cuts",
        } | _draw.full_names(kwargs)
        (self.line_,) = ax.plot(cuts, gap, **style)
        self.band_, highest = None, float(gap.max())
        if band is not None:
            self.band_, highest = self._shade(band, attribute)
        _draw.headroom(ax, highest, len(ax.get_legend_handles_labels()[1]))
        ax.set_xlabel(_draw.literal(f"cut in {attribute}"))
        ax.set_ylabel(_draw.literal(f"{self.profile.parity.words} gap, all thresholds"))
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self

    def _attribute(self, attribute: str | None) -> str:
        """Return the name of the attribute that is drawn."""
        ordered = list(self.profile.gap_by_cut)
        if attribute is None and len(ordered) == 1:
            return ordered[0]
        if attribute not in ordered:
            known = ", ".join(map(repr, ordered)) or "none: name one in Comparison(ordered=...)"
            raise ValueError(
                f"`attribute` must be an ordered attribute of the profile ({known}), got {attribute!r}"
            )
        return attribute

    def _shade(self, band: Band, attribute: str) -> tuple[Any, float]:
        """Fill the band; return it, and its highest value."""
        low, high = self.profile.cut_band(band)[attribute]
        label = f"{100 * band.level:g} % band, all cuts and thresholds at once"
        known = self.ax_.get_legend_handles_labels()[1]
        shaded = self.ax_.fill_between(
            self.profile.gap_by_cut[attribute][0],
            low,
            high,
            color=self.line_.get_color(),
            alpha=0.18,
            linewidth=0,
            label=f"_{label}" if label in known else label,
        )
        return shaded, float(high.max())
