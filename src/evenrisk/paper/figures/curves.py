"""Parity against threshold, with the spread over splits and the noise floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenrisk.metrics import threshold_profile
from evenrisk.paper.figures._save import TITLES, figure, mean_sd, save, save_csv, style
from evenrisk.paper.measures import GRID
from evenrisk.paper.protocol import PARITIES
from evenrisk.paper.summary import Experiment

BANDS = ("Baseline", "Zafar-DP", "Zafar-EO", "KSVM-HA")  # ten bands would hide one another
HEADLINE = ("Baseline", "Zafar-DP", "Zafar-EO", "KSVM-HA", "KSVM-gap")
PAPER_RANGE = (0.3, 0.7)
NAMES = {"parity_curves": None, "headline": HEADLINE}  # the paper's figure, and one with fewer lines

Curves = dict[tuple[str, str], np.ndarray]
Floor = tuple[np.ndarray, np.ndarray]


def parity_curves(experiment: Experiment, folder: Path) -> None:
    """Draw and save the figure, whole and with fewer lines, and the arrays behind it."""
    curves: Curves = {
        (parity, method): _curves(experiment, parity, method)
        for parity in PARITIES
        for method in experiment.methods(parity)
    }
    floors = {parity: _floor(experiment, parity) for parity in PARITIES}
    for name, shown in NAMES.items():
        some = {key: values for key, values in curves.items() if shown is None or key[1] in shown}
        with figure((11, 5.2 if shown is None else 4.4)) as drawn:
            _draw(drawn, some, floors)
            save(drawn, folder, name)
    rows = []
    for (parity, method), values in curves.items():
        rows += [[parity, method, f"{t:.3f}", *each] for t, *each in zip(GRID, *mean_sd(values), strict=True)]
    for parity, (mean, p95) in floors.items():
        rows += [[parity, "chance", f"{t:.3f}", *each] for t, *each in zip(GRID, mean, p95, strict=True)]
    save_csv(folder, "parity_curves", ["parity", "method", "threshold", "gap_mean", "gap_sd_or_p95"], rows)


def _draw(drawn: Any, curves: Curves, floors: dict[str, Floor]) -> None:
    axes = drawn.subplots(1, 2, sharey=True)
    for ax, parity in zip(axes, PARITIES, strict=True):
        _panel(ax, {method: values for (p, method), values in curves.items() if p == parity}, floors[parity])
        ax.set_title(TITLES[parity] + (", mean of both labels" if parity != PARITIES[0] else ""), loc="left")
    axes[0].set_ylabel("gap between the groups")
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    labels = ["Zafar" if label.startswith("Zafar") else label for label in labels]
    drawn.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6), frameon=False)


def _curves(experiment: Experiment, parity: str, method: str) -> np.ndarray:
    """Give the gap on GRID in every split (splits, thresholds), the paper's mean over strata."""
    return np.array(
        [
            threshold_profile(split["y"], s, sensitive_features=split["group"], parity=parity).at(GRID)
            for split, s in experiment.scores(parity, method)
        ]
    )


def _floor(experiment: Experiment, parity: str) -> Floor:
    """Give mean and 95 % point of the gap by chance at each threshold, averaged over splits."""
    values = np.array([split[f"{parity}/chance/curve"] for split in experiment.splits])
    return values.mean(axis=(0, 1)), np.quantile(values, 0.95, axis=1).mean(axis=0)


def _panel(ax: Any, curves: dict[str, np.ndarray], floor: Floor) -> None:
    ax.axvspan(*PAPER_RANGE, color="#f4f4f4", lw=0, zorder=0)
    chance = {"facecolor": "none", "edgecolor": "#777777", "hatch": "//////", "linewidth": 0.5}
    ax.fill_between(GRID, floor[0], floor[1], label="by chance: mean to 95 % point", **chance)
    for method, values in curves.items():
        centre, spread = mean_sd(values)
        line = style(method)
        if method in BANDS:
            ax.fill_between(
                GRID, np.maximum(centre - spread, 0), centre + spread, color=line["color"], alpha=0.15, lw=0
            )
        ax.plot(GRID, centre, label=method, **line)
    ax.set_xlabel("threshold on the risk score (shaded: the paper's range)")
    ax.set_xlim(0, 1)
    ax.spines[["top", "right"]].set_visible(False)
