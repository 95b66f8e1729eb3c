"""Accuracy against the gap at 0.5, along η: a panel for each classifier and parity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evenrisk.paper.figures._save import COLORS, TITLES, figure, mean_sd, save, save_csv, style
from evenrisk.paper.measures import COLUMNS
from evenrisk.paper.protocol import PARITIES, Row, zafar_name
from evenrisk.paper.summary import Experiment

CLASSIFIERS = {
    "LR": "logistic regression",
    "LSVM": "linear SVM",
    "KSVM": "kernel SVM",
    "MLP": "network (ours)",
    "LightGBM": "LightGBM (ours)",
}
PANEL = (3.4, 3.3)  # inches
KIND_COLORS = {"HA": "#0072B2", "GA": "#E69F00", "gap": "#009E73"}
MARKERS = {"HA": "o", "GA": "s", "gap": "D"}
NAME = "tradeoff"


def tradeoff(experiment: Experiment, folder: Path) -> None:
    """Draw and save the figure, and the arrays behind it."""
    used = {row.classifier for row in experiment.protocol.rows}
    classifiers = [name for name in CLASSIFIERS if name in used]
    with figure((max(len(classifiers), 2) * PANEL[0], len(PARITIES) * PANEL[1])) as drawn:
        axes = drawn.subplots(len(PARITIES), len(classifiers), sharex="row", sharey=True, squeeze=False)
        rows: list[list[Any]] = []
        for line, parity in zip(axes, PARITIES, strict=True):
            for ax, classifier in zip(line, classifiers, strict=True):
                rows += _panel(ax, experiment, parity, classifier)
            line[0].set_ylabel("accuracy")
        entries: dict[str, Any] = {}
        for ax in axes.flat:
            handles, labels = ax.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        drawn.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=6, frameon=False)
        save(drawn, folder, NAME)
    head = [
        "parity",
        "method",
        "eta_or_c",
        "accuracy_mean",
        "accuracy_sd",
        "gap_mean",
        "gap_sd",
        "max_gap_mean",
    ]
    save_csv(folder, NAME, head, rows)


def _panel(ax: Any, experiment: Experiment, parity: str, classifier: str) -> list[list[Any]]:
    """Draw the paths of one classifier; give the rows of the CSV."""
    from matplotlib.colors import to_rgb

    rows: list[list[Any]] = []
    paths = [row for row in experiment.protocol.rows if row.classifier == classifier]
    for row in paths:
        kind = row.name.partition("-")[2]
        (x, dx), (y, dy), (worst, _) = _path(experiment, parity, row)
        look = {"color": KIND_COLORS[kind], "marker": MARKERS[kind], "markersize": 3, "linewidth": 1.3}
        label = "gap (ours)" if kind == "gap" else kind
        every = max(len(x) // 12, 1)
        bars = {"ecolor": (*to_rgb(KIND_COLORS[kind]), 0.35), "elinewidth": 0.8, "errorevery": every}
        ax.errorbar(x, y, dy, dx, label=label, linestyle=style(row.name)["linestyle"], **look, **bars)
        rows += [
            [parity, row.name, eta, y[i], dy[i], x[i], dx[i], worst[i]] for i, eta in enumerate(row.etas)
        ]
    (x, dx), (y, dy), (worst, _) = _path(experiment, parity, paths[0])
    ax.plot(x[0], y[0], "^", color="#CC0000", markersize=9, label="η = 0 (baseline)", zorder=5)
    values = experiment.values(parity, zafar_name(parity))
    (zy, zx), (sy, sx) = mean_sd(values[:, [COLUMNS.index("accuracy"), COLUMNS.index("gap")]])
    ax.errorbar(zx, zy, sy, sx, fmt="*", color=COLORS["Zafar"], markersize=10, elinewidth=0.8, label="Zafar")
    ax.axhline(experiment.majority_rate, color="#888888", linewidth=0.8, linestyle=":", label="majority rate")
    ax.set_title(f"{CLASSIFIERS[classifier]}, {TITLES[parity].lower()}", loc="left", fontsize="small")
    ax.set_xlabel(f"gap at 0.5 ({'ΔDP' if parity == PARITIES[0] else 'ΔEO'})")
    ax.spines[["top", "right"]].set_visible(False)
    return rows


def _path(experiment: Experiment, parity: str, row: Row) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and sd over splits of gap, accuracy and max gap along η."""
    values = np.array([split[f"{parity}/{row.name}/test"] for split in experiment.splits])
    return [mean_sd(values[:, :, COLUMNS.index(name)]) for name in ("gap", "accuracy", "max_gap")]
