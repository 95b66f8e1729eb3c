"""What the displays share: colours, axes, room for the legend.

Colours are Okabe and Ito's, told apart by the colour-blind; lines differ in dash too, so grey print works.
"""

from __future__ import annotations

from typing import Any

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


def axes(ax: Any) -> Any:
    """Use the axes given, or make some."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def full_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Spell out matplotlib's short forms (ls, lw, c) so that they override ours."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(kwargs, Line2D)


def headroom(ax: Any, highest: float) -> None:
    """Start at 0 and leave room for the legend above everything that a display has drawn so far."""
    top = max(1.35 * float(highest), 1e-3, getattr(ax, "_evenrisk_top", 0.0))
    ax._evenrisk_top = top
    ax.set_ylim(0, top)


def scores(estimator: Any, X: Any) -> Any:
    """Risk of the positive class, or the raw score where the classifier has no probabilities."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)[:, 1]
    return estimator.decision_function(X)
