"""Parity against threshold, with the spread over splits and the noise floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import replacing, write_text
from evenrisk.paper.protocol import GRID, PARITIES, Experiment
from evenrisk.paper.tables import TITLES
from evenrisk.plots import COLORS, DASHES

# the same bytes on every run: no date, fixed ids in the SVG
_DETERMINISTIC = {"svg.hashsalt": "evenrisk", "svg.fonttype": "path"}


def parity_curves(experiment: Experiment, folder: Path) -> list[Path]:
    """Draw and save the figure as PNG and SVG, and the arrays behind it as CSV."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_DETERMINISTIC):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for ax, parity in zip(axes, PARITIES, strict=True):
            _panel(ax, experiment, parity)
        axes[0].set_ylabel("gap between the groups")
        axes[0].set_ylim(bottom=0)  # both, and only now: it stops the scaling
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
        written = []
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            path = folder / f"parity_curves{suffix}"
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=150, metadata=metadata)
            written.append(path)
    path = folder / "parity_curves.csv"
    write_text(path, _csv(experiment))
    return [*written, path]


def _panel(ax: Any, experiment: Experiment, parity: str) -> None:
    mean, p95 = np.mean(experiment.floors[parity], axis=0)
    ax.axhspan(mean, p95, color="#d9d9d9", lw=0, label="max gap by chance: mean to 95 % point")
    for i, method in enumerate(experiment.methods):
        curves = np.array(experiment.curves[parity, method.name])
        centre, spread = _mean_sd(curves)
        color, dash = COLORS[i % len(COLORS)], DASHES[i % len(DASHES)]
        ax.fill_between(GRID, centre - spread, centre + spread, color=color, alpha=0.15, lw=0)
        ax.plot(GRID, centre, color=color, linestyle=dash, linewidth=1.8, label=method.name)
    several = ", worst of both labels" if parity == "equalized_odds" else ""
    ax.set_title(TITLES[parity] + several, loc="left")
    ax.set_xlabel("threshold on the risk score")
    ax.set_xlim(0, 1)
    ax.spines[["top", "right"]].set_visible(False)


def _mean_sd(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over splits; one split has no spread."""
    return curves.mean(axis=0), curves.std(axis=0, ddof=1 if len(curves) > 1 else 0)


def _csv(experiment: Experiment) -> str:
    lines = ["parity,method,threshold,gap_mean,gap_sd"]
    for (parity, name), curves in experiment.curves.items():
        centre, spread = _mean_sd(np.array(curves))
        lines += [
            f"{parity},{name},{t:.3f},{float(m)!r},{float(sd)!r}"
            for t, m, sd in zip(GRID, centre, spread, strict=True)
        ]
    return "\n".join(lines) + "\n"
