"""What it costs not to know the group at prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from evenrisk.metrics import quality_at_gap
from evenrisk.plots._draw import axes
from evenrisk.plots.tradeoff import QUALITIES, TradeoffDisplay

GAPS = (0.1, 0.05)


class PriceOfBlindnessDisplay:
    """Paths of quality against the max gap, and the quality of each method at equal max gap.

    Parameters
    ----------
    paths : pandas.DataFrame
        As :func:`evenrisk.postprocessing.price_of_blindness` returns them.
    gaps : sequence of float, default=(0.1, 0.05)
        Where to compare.
    quality : {"auc", "accuracy"}, default="auc"
        Column of the quality.

    Attributes
    ----------
    table_ : pandas.DataFrame
        One row for each method, one column for each gap, from :func:`evenrisk.metrics.quality_at_gap`.
    displays_ : list of TradeoffDisplay
        One for each method.
    ax_ : matplotlib Axes
        Where they are.
    figure_ : matplotlib Figure
        Where that is.
    """

    def __init__(self, paths: Any, gaps: Sequence[float] = GAPS, *, quality: str = "auc") -> None:
        self.paths = paths
        self.gaps = gaps
        self.quality = quality
        self.table_ = quality_at_gap(paths, gaps, quality=quality)

    @classmethod
    def from_frame(
        cls, paths: Any, *, gaps: Sequence[float] = GAPS, quality: str = "auc", ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the paths of :func:`evenrisk.postprocessing.price_of_blindness`.

        Parameters
        ----------
        paths : pandas.DataFrame
            The paths.
        gaps : sequence of float, default=(0.1, 0.05)
            Where to compare.
        quality : {"auc", "accuracy"}, default="auc"
            Column of the quality.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            As in :meth:`TradeoffDisplay.plot`.

        Returns
        -------
        PriceOfBlindnessDisplay
            The display.
        """
        return cls(paths, gaps, quality=quality).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw one line for each method, and a vertical line at each gap compared.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs
            As in :meth:`TradeoffDisplay.plot`.

        Returns
        -------
        PriceOfBlindnessDisplay
            The display.
        """
        self.ax_ = ax = axes(ax)
        self.figure_ = ax.figure
        self.displays_ = TradeoffDisplay.from_frame(self.paths, y=self.quality, ax=ax, **kwargs)
        ax.set_xlabel("← fairer      max gap over all thresholds, demographic parity")
        ax.set_ylabel(QUALITIES.get(self.quality, self.quality))
        for gap in self.gaps:
            ax.axvline(gap, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
        return self
