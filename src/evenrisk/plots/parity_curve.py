"""The gap between groups against the threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from evenrisk.metrics import NoiseFloor, ThresholdProfile, threshold_profile
from evenrisk.plots._draw import COLORS, DASHES, axes, full_names, headroom, scores

if TYPE_CHECKING:
    from evenrisk.parity import Parity


class ParityCurveDisplay:
    """The gap between groups against the threshold.

    Where the rule has several strata, the worst one at each threshold, so that the curve's top is `max_gap`.

    Parameters
    ----------
    profile : ThresholdProfile
        What to draw.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Where it is.
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
        sample_weight: Any = None,
        name: str | None = None,
        ax: Any = None,
        noise_floor: NoiseFloor | None = None,
        **kwargs: Any,
    ) -> Self:
        """Measure scores and draw the curve.

        Parameters
        ----------
        y_true, y_score, sensitive_features, parity, sample_weight
            As in :func:`evenrisk.metrics.threshold_profile`.
        name : str, default=None
            Label of the curve.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        noise_floor : NoiseFloor, default=None
            Drawn as a grey band from its mean to its 95 % point.
        **kwargs
            Passed to matplotlib's ``plot``.

        Returns
        -------
        ParityCurveDisplay
            The display.
        """
        profile = threshold_profile(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            sample_weight=sample_weight,
        )
        return cls(profile, name=name).plot(ax, noise_floor=noise_floor, **kwargs)

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
            The group of each row.
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
        return cls.from_predictions(
            y, scores(estimator, X), sensitive_features=sensitive_features, name=name, **kwargs
        )

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        noise_floor: NoiseFloor | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        name : str, default=None
            Label of the curve.
        noise_floor : NoiseFloor, default=None
            Drawn as a grey band from its mean to its 95 % point.
        **kwargs
            Passed to matplotlib's ``plot``.

        Returns
        -------
        ParityCurveDisplay
            The display.
        """
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        profile = self.profile
        if noise_floor is not None:
            label = "max gap by chance: mean to 95 % point"
            ax.axhspan(noise_floor.mean, noise_floor.p95, color="#d9d9d9", lw=0, label=label)
        number = sum(line.get_gid() == "gap" for line in ax.lines)
        style = {
            "color": COLORS[number % len(COLORS)],
            "linestyle": DASHES[number % len(DASHES)],
            "linewidth": 1.8,
            "label": self._label(self.name if name is None else name),
            "gid": "gap",
            "drawstyle": "steps-post",
        } | full_names(kwargs)
        (self.line_,) = ax.plot(profile.thresholds, profile.worst_gap, **style)
        if profile.thresholds[0] >= 0 and profile.thresholds[-1] <= 1:
            ax.set_xlim(0, 1)
        headroom(ax, max(profile.max_gap, 0.0 if noise_floor is None else noise_floor.p95))
        several = ", worst stratum" if len(profile.parity.strata) > 1 else ""
        ax.set_xlabel("threshold on the risk score")
        ax.set_ylabel(f"{profile.parity.name.replace('_', ' ')} gap{several}")
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self

    def _label(self, name: str | None) -> str:
        """Name the curve and its largest value."""
        label = f"max gap {self.profile.max_gap:.2f}"
        if len(self.profile.parity.strata) > 1:
            label += f", {self.profile.worst_stratum}"
        return f"{name} ({label})" if name else label
