"""The distribution of the score in each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from evenrisk._validation import visible
from evenrisk.metrics import RiskDistribution, risk_distribution
from evenrisk.plots._draw import COLORS, DASHES, axes, headroom, literal, positive_label, scores

if TYPE_CHECKING:
    from evenrisk._validation import Comparison
    from evenrisk.parity import Parity


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
        comparison: str | Comparison = "crossed",
        sample_weight: Any = None,
        n_bins: int = 40,
        pos_label: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Measure scores and draw their distributions.

        Parameters
        ----------
        y_true, y_score, sensitive_features, parity, comparison, sample_weight, n_bins, pos_label
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
            comparison=comparison,
            sample_weight=sample_weight,
            n_bins=n_bins,
            pos_label=pos_label,
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
            The group of each row, in one column or several.
        **kwargs
            As in `from_predictions`.

        Returns
        -------
        RiskDistributionDisplay
            The display.
        """
        data = {"sensitive_features": sensitive_features, "pos_label": positive_label(estimator, y)}
        return cls.from_predictions(y, scores(estimator, X), **data, **kwargs)

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
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        shown = self.distribution
        self.lines_ = []
        for i, stratum in enumerate(shown.parity.strata):
            for j, group in enumerate(shown.groups):
                among = f", {stratum}" if shown.parity.needs_label else ""
                color = COLORS[j % len(COLORS)]
                style = {"color": color, "label": literal(visible(group) + among), "linewidth": 1.8} | kwargs
                style = {"linestyle": DASHES[i % len(DASHES)]} | style
                if i == 0:
                    ax.stairs(shown.density[i, j], shown.edges, fill=True, color=color, alpha=0.12)
                self.lines_.append(ax.stairs(shown.density[i, j], shown.edges, **style))
        ax.set_xlim(shown.edges[0], shown.edges[-1])
        headroom(ax, shown.density.max())
        ax.set_xlabel("risk score")
        ax.set_ylabel("density")
        ax.legend(frameon=False, loc="upper left", fontsize="small")
        return self
