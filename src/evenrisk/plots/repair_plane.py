"""What a blind repair does: the mean repaired risk over risk and group probability."""

from __future__ import annotations

from typing import Any, Self

from evenrisk._validation import check_groups
from evenrisk.plots._draw import COLORS, MARKERS, axes, literal

MOST_PEOPLE = 1500  # drawn
LEVELS = 8  # at most, of the contours


class RepairPlaneDisplay:
    """Lines of equal repaired risk over risk and group probability, with the people among them.

    The repaired risk is the mean of the people around each point. Where the lines are vertical the repair
    follows the risk alone. Where they are tilted, it takes the probability of the group into account.

    Parameters
    ----------
    surface : RepairSurface
        What to draw, from :meth:`evenrisk.BlindRepair.surface`.

    Attributes
    ----------
    contours_ : matplotlib ContourSet
        The lines.
    points_ : list of matplotlib PathCollection
        The people: one collection for each group.
    ax_ : matplotlib Axes
        Where they are.
    figure_ : matplotlib Figure
        Where that is.
    """

    def __init__(self, surface: Any) -> None:
        self.surface = surface

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any = None,
        coordinate: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the plane of a fitted repair, with the rows of X in it.

        Parameters
        ----------
        estimator : BlindRepair
            Fitted, with groups; or a search that has found one.
        X : array-like, sparse matrix or data frame of shape (n, d)
            People to show, preferably not those of `fit`; they set the ends of the axes. At most 1500 are
            drawn.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            Their groups, for the colours.
        coordinate : str, default=None
            As in :meth:`evenrisk.BlindRepair.surface`.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            Passed to matplotlib's ``contour``.

        Returns
        -------
        RepairPlaneDisplay
            The display.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> from evenrisk import BlindRepair
        >>> from evenrisk.datasets import load_compas
        >>> from evenrisk.plots import RepairPlaneDisplay
        >>> X, y, race = load_compas()
        >>> repair = BlindRepair(LogisticRegression(max_iter=1000), eta=10, random_state=0)
        >>> display = RepairPlaneDisplay.from_estimator(
        ...     repair.fit(X, y, sensitive_features=race), X, sensitive_features=race
        ... )
        >>> display.ax_.get_ylabel()
        'probability of Caucasian'
        """
        estimator = getattr(estimator, "best_estimator_", estimator)
        if not hasattr(estimator, "surface"):
            raise ValueError(f"`estimator` must be a fitted BlindRepair, got {type(estimator).__name__}")
        surface = estimator.surface(X, coordinate=coordinate)
        return cls(surface).plot(ax, sensitive_features=sensitive_features, **kwargs)

    def plot(self, ax: Any = None, *, sensitive_features: Any = None, **kwargs: Any) -> Self:
        """Draw the lines and the people.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        sensitive_features : array-like of shape (n,) or (n, m), default=None
            The groups of the people, for the colours.
        **kwargs
            Passed to matplotlib's ``contour``.

        Returns
        -------
        RepairPlaneDisplay
            The display.
        """
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        surface = self.surface
        n = len(surface.people)
        some = slice(None, None, -(-n // MOST_PEOPLE))
        people, code, names = surface.people[some], None, [""]
        if sensitive_features is not None:
            groups = check_groups(sensitive_features, n, at_least=1)
            code, names = groups.code[some], list(groups.names)
        self.points_ = []
        for k, name in enumerate(names):
            shown = people if code is None else people[code == k]
            look = {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k % len(MARKERS)]}
            label = None if code is None else literal(name)
            self.points_.append(ax.scatter(*shown.T, s=9, alpha=0.45, linewidths=0, label=label, **look))
        color: dict[str, Any] = {} if "cmap" in kwargs else {"colors": "#333333"}
        style: dict[str, Any] = {"levels": LEVELS, "linewidths": 1.1} | color | kwargs
        self.contours_ = ax.contour(surface.x, surface.y, surface.risk, **style)
        ax.clabel(self.contours_, fmt="%.2g", fontsize="x-small")
        ax.set_xlim(surface.x[0], surface.x[-1])
        ax.set_ylim(surface.y[0], surface.y[-1])
        ax.set_xlabel(literal(surface.names[0]))
        ax.set_ylabel(literal(surface.names[1]))
        if code is not None:
            ax.legend(frameon=True, fontsize="small", markerscale=1.8, loc="upper right")
        return self
