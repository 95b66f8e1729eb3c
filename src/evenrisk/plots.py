"""Displays: they draw arrays that `metrics` computed, and compute nothing.

Colours are Okabe and Ito's, told apart by the colour-blind; lines differ in dash too, so grey print works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from evenrisk.metrics import (
    NoiseFloor,
    RiskDistribution,
    ThresholdProfile,
    risk_distribution,
    threshold_profile,
)

if TYPE_CHECKING:
    from evenrisk.parity import Parity

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


class ParityCurveDisplay:
    """The gap between groups against the threshold.

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
            y, _scores(estimator, X), sensitive_features=sensitive_features, name=name, **kwargs
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
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        if noise_floor is not None:
            label = "chance: mean to 95 % point"
            ax.axhspan(noise_floor.mean, noise_floor.p95, color="#d9d9d9", lw=0, label=label)
        profile, number = self.profile, len([line for line in ax.lines if line.get_gid() == "gap"])
        style: dict[str, Any] = {
            "color": COLORS[number % len(COLORS)],
            "linestyle": DASHES[number % len(DASHES)],
        }
        name = self.name if name is None else name
        label = f"{name} (max gap {profile.max_gap:.2f})" if name else f"max gap {profile.max_gap:.2f}"
        style |= {"linewidth": 1.8, "label": label, "gid": "gap", "drawstyle": "steps-post"} | kwargs
        (self.line_,) = ax.plot(profile.thresholds, profile.gap, **style)
        lowest, highest = profile.thresholds[0], profile.thresholds[-1]
        if lowest >= 0 and highest <= 1:
            ax.set_xlim(0, 1)
        _headroom(ax, max(profile.gap.max(), noise_floor.p95 if noise_floor is not None else 0.0))
        ax.set_xlabel("threshold on the risk score")
        ax.set_ylabel(f"{profile.parity.name.replace('_', ' ')} gap")
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self


class RiskDistributionDisplay:
    """The distribution of the score in each group.

    Parameters
    ----------
    distribution : RiskDistribution
        What to draw.

    Attributes
    ----------
    lines_ : list of matplotlib artists
        One outline per group and stratum.
    ax_ : matplotlib Axes
        Where they are.
    figure_ : matplotlib Figure
        Where that is.
    """

    def __init__(self, distribution: RiskDistribution) -> None:
        self.distribution = distribution

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        sensitive_features: Any,
        parity: str | Parity = "demographic_parity",
        sample_weight: Any = None,
        n_bins: int = 40,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Measure scores and draw their distributions.

        Parameters
        ----------
        y_true, y_score, sensitive_features, parity, sample_weight, n_bins
            As in :func:`evenrisk.metrics.risk_distribution`.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            Passed to matplotlib's ``stairs``.

        Returns
        -------
        RiskDistributionDisplay
            The display.
        """
        distribution = risk_distribution(
            y_true,
            y_score,
            sensitive_features=sensitive_features,
            parity=parity,
            sample_weight=sample_weight,
            n_bins=n_bins,
        )
        return cls(distribution).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, sensitive_features: Any, **kwargs: Any
    ) -> Self:
        """Score rows with a fitted classifier and draw the distributions.

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
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        RiskDistributionDisplay
            The display.
        """
        return cls.from_predictions(y, _scores(estimator, X), sensitive_features=sensitive_features, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the distributions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            Passed to matplotlib's ``stairs``.

        Returns
        -------
        RiskDistributionDisplay
            The display.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        shown = self.distribution
        self.lines_ = []
        for i, stratum in enumerate(shown.parity.strata):
            for j, group in enumerate(shown.groups):
                among = f", {stratum}" if shown.parity.needs_label else ""
                color = COLORS[j % len(COLORS)]
                style = {"color": color, "label": group + among, "linewidth": 1.8} | kwargs
                style = {"linestyle": DASHES[i % len(DASHES)]} | style
                if i == 0:
                    ax.stairs(shown.density[i, j], shown.edges, fill=True, color=color, alpha=0.12)
                self.lines_.append(ax.stairs(shown.density[i, j], shown.edges, **style))
        ax.set_xlim(shown.edges[0], shown.edges[-1])
        _headroom(ax, shown.density.max())
        ax.set_xlabel("risk score")
        ax.set_ylabel("density")
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self


def _axes(ax: Any) -> Any:
    """Use the axes given, or make some."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _full_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Spell out matplotlib's short forms (ls, lw, c) so that they override ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(kwargs, Line2D)


def _headroom(ax: Any, highest: float) -> None:
    """Start at 0 and leave room for the legend above everything drawn so far."""
    top = max(1.35 * float(highest), 1e-3, getattr(ax, "_evenrisk_top", 0.0))
    ax._evenrisk_top = top
    ax.set_ylim(0, top)


def _scores(estimator: Any, X: Any) -> Any:
    """Risk of the positive class, or the raw score where the classifier has no probabilities."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)[:, 1]
    return estimator.decision_function(X)
