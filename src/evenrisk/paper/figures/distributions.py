"""Risk distributions of logistic regression: baseline, moderate and strong, for HA and GA under DP and EO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenrisk.metrics import risk_distribution
from evenrisk.paper.figures._save import figure, save, save_csv
from evenrisk.paper.protocol import PARITIES
from evenrisk.paper.summary import Experiment
from evenrisk.plots._draw import literal

# η; under equalized odds there are two comparisons, so half of it has the same effect
LEVELS = {
    "baseline": {"demographic_parity": 0.0, "equalized_odds": 0.0},
    "moderate": {"demographic_parity": 0.16, "equalized_odds": 0.08},
    "strong": {"demographic_parity": 0.5, "equalized_odds": 0.25},
}
SHORT = {"demographic_parity": "DP", "equalized_odds": "EO"}
METHODS = ("LR-HA", "LR-GA")
N_BINS = 40
COLORS = ("#0072B2", "#D55E00")  # of the groups
DASHES = ("-", (0, (4, 1.5)))  # of the labels
NAME = "risk_distributions"


def risk_distributions(experiment: Experiment, folder: Path) -> None:
    """Draw and save the figure, and the arrays behind it."""
    rows: list[list[Any]] = []
    with figure((11, 7)) as drawn:
        axes = drawn.subplots(len(LEVELS), len(PARITIES) * len(METHODS), sharex=True)
        columns = [(parity, method) for parity in PARITIES for method in METHODS]
        for line, (level, etas) in zip(axes, LEVELS.items(), strict=True):
            for ax, (parity, method) in zip(line, columns, strict=True):
                eta = etas[parity]
                found = _densities(experiment, parity, method, eta)
                rows += _panel(ax, *found, [SHORT[parity], method, level, eta])
                ax.set_title(f"{SHORT[parity]}, {method}, η = {eta:g}", loc="left", fontsize="small")
            line[0].set_ylabel(f"{level}\ndensity")
        for ax in axes[-1]:
            ax.set_xlabel("risk score")
        handles, labels = axes[0][-1].get_legend_handles_labels()
        labels = [label.replace(", negatives", " (EO: negatives)") for label in labels]
        drawn.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
        save(drawn, folder, NAME)
    head = ["parity", "method", "level", "eta", "stratum", "group", "bin_left", "bin_right", "density"]
    save_csv(folder, NAME, head, rows)


def _densities(experiment: Experiment, parity: str, method: str, eta: float) -> tuple[Any, np.ndarray]:
    """Average the test parts' densities over splits."""
    place = experiment.protocol.row(method).etas.index(eta)
    found = [
        risk_distribution(
            split["y"],
            split[f"{parity}/{method}/scores"][place],
            sensitive_features=split["group"],
            parity=parity,
            n_bins=N_BINS,
        )
        for split in experiment.splits
    ]
    return found[0], np.mean([each.density for each in found], axis=0)


def _panel(ax: Any, shape: Any, density: np.ndarray, names: list[Any]) -> list[list[Any]]:
    """Draw one outline per group and label; give the rows of the CSV."""
    rows = []
    for i, stratum in enumerate(shape.parity.strata):
        for j, group in enumerate(shape.groups):
            label = literal(f"{group}, {stratum}" if shape.parity.needs_label else group)
            if not shape.parity.needs_label:  # four fills would be mud
                ax.stairs(density[i, j], shape.edges, fill=True, color=COLORS[j], alpha=0.12)
            ax.stairs(
                density[i, j], shape.edges, color=COLORS[j], linestyle=DASHES[i], label=label, linewidth=1.3
            )
            rows += [
                [*names, stratum, group, left, right, value]
                for left, right, value in zip(shape.edges[:-1], shape.edges[1:], density[i, j], strict=True)
            ]
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    return rows
