"""The paper's figures, each as PNG and SVG with the arrays behind it as CSV; the same bytes on every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import replacing, write_text
from evenrisk.metrics import risk_distribution, threshold_profile
from evenrisk.paper.protocol import COLUMNS, GRID, PARITIES, Row, zafar_name
from evenrisk.paper.summary import Experiment
from evenrisk.paper.tables import csv_text

# no date, fixed ids in the SVG
_DETERMINISTIC = {"svg.hashsalt": "evenrisk", "svg.fonttype": "path"}
_LOOK = {"axes.titlesize": "medium", "axes.spines.top": False, "axes.spines.right": False}
# Okabe and Ito's palette: the classifier gives the colour, the approximation the dash
COLORS = {
    "Baseline": "#000000",
    "Zafar": "#D55E00",
    "LR": "#0072B2",
    "LSVM": "#009E73",
    "KSVM": "#CC79A7",
    "MLP": "#E69F00",
    "LightGBM": "#56B4E9",
}
DASHES: dict[str, Any] = {"HA": "-", "GA": (0, (5, 2)), "gap": (0, (1.2, 1.2))}
TITLES = {"demographic_parity": "Demographic parity", "equalized_odds": "Equalized odds"}
SHORT_TITLES = {"demographic_parity": "DP", "equalized_odds": "EO"}

# parity against threshold
BANDS = ("Baseline", "Zafar-DP", "Zafar-EO", "KSVM-HA")  # ten bands would hide one another
HEADLINE = ("Baseline", "Zafar-DP", "Zafar-EO", "KSVM-HA", "KSVM-gap")
PAPER_RANGE = (0.3, 0.7)
CURVE_FIGURES = {"parity_curves": None, "headline": HEADLINE}  # the paper's, and one with fewer lines

# accuracy against the gap
CLASSIFIERS = {
    "LR": "logistic regression",
    "LSVM": "linear SVM",
    "KSVM": "kernel SVM",
    "MLP": "network (ours)",
    "LightGBM": "LightGBM (ours)",
}
PANEL = (3.4, 3.3)  # inches
KIND_COLORS = {"HA": "#0072B2", "GA": "#E69F00", "gap": "#009E73"}
KIND_MARKERS = {"HA": "o", "GA": "s", "gap": "D"}

# risk distributions: η; under equalized odds there are two comparisons, so half of it has the same effect
LEVELS = {
    "baseline": {"demographic_parity": 0.0, "equalized_odds": 0.0},
    "moderate": {"demographic_parity": 0.16, "equalized_odds": 0.08},
    "strong": {"demographic_parity": 0.5, "equalized_odds": 0.25},
}
DISTRIBUTION_METHODS = ("LR-HA", "LR-GA")
N_BINS = 40
GROUP_COLORS = ("#0072B2", "#D55E00")
LABEL_DASHES = ("-", (0, (4, 1.5)))

CsvRows = list[list[Any]]
Curves = dict[tuple[str, str], np.ndarray]
NoiseFloor = tuple[np.ndarray, np.ndarray]


def parity_curves(experiment: Experiment, folder: Path) -> None:
    """Draw and save parity against threshold, with the spread over splits and the noise floor."""
    curves: Curves = {
        (parity, method): _curves(experiment, parity, method)
        for parity in PARITIES
        for method in experiment.methods(parity)
    }
    floors = {parity: experiment.by_chance(parity, "curve") for parity in PARITIES}
    for name, shown in CURVE_FIGURES.items():
        some = {key: values for key, values in curves.items() if shown is None or key[1] in shown}
        with _figure((11, 5.2 if shown is None else 4.4)) as figure:
            _draw_curves(figure, some, floors)
            _save(figure, folder, name)
    rows: CsvRows = []
    for (parity, method), values in curves.items():
        mean, sd = mean_and_sd(values)
        rows += [[parity, method, f"{t:.3f}", *each] for t, *each in zip(GRID, mean, sd, strict=True)]
    for parity, (mean, p95) in floors.items():
        rows += [[parity, "chance", f"{t:.3f}", *each] for t, *each in zip(GRID, mean, p95, strict=True)]
    _save_csv(folder, "parity_curves", ["parity", "method", "threshold", "gap_mean", "gap_sd_or_p95"], rows)


def _draw_curves(figure: Any, curves: Curves, floors: dict[str, NoiseFloor]) -> None:
    axes = figure.subplots(1, 2, sharey=True)
    for ax, parity in zip(axes, PARITIES, strict=True):
        shown = {method: values for (p, method), values in curves.items() if p == parity}
        _draw_curve_panel(ax, shown, floors[parity])
        ax.set_title(TITLES[parity] + (", mean of both labels" if parity != PARITIES[0] else ""), loc="left")
    axes[0].set_ylabel("gap between the groups")
    axes[0].set_ylim(bottom=0)
    handles, labels = axes[0].get_legend_handles_labels()
    labels = ["Zafar" if label.startswith("Zafar") else label for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6), frameon=False)


def _curves(experiment: Experiment, parity: str, method: str) -> np.ndarray:
    """Return the gap on GRID in every split (splits, thresholds), the paper's mean over strata."""
    return np.array(
        [
            threshold_profile(split["y"], s, sensitive_features=split["group"], parity=parity).at(GRID)
            for split, s in experiment.scores(parity, method)
        ]
    )


def _draw_curve_panel(ax: Any, curves: dict[str, np.ndarray], floor: NoiseFloor) -> None:
    ax.axvspan(*PAPER_RANGE, color="#f4f4f4", lw=0, zorder=0)
    chance = {"facecolor": "none", "edgecolor": "#777777", "hatch": "//////", "linewidth": 0.5}
    ax.fill_between(GRID, floor[0], floor[1], label="by chance: mean to 95 % point", **chance)
    for method, values in curves.items():
        mean, sd = mean_and_sd(values)
        line = style(method)
        if method in BANDS:
            shade = {"color": line["color"], "alpha": 0.15, "lw": 0}
            ax.fill_between(GRID, np.maximum(mean - sd, 0), mean + sd, **shade)
        ax.plot(GRID, mean, label=method, **line)
    ax.set_xlabel("threshold on the risk score (shaded: the paper's range)")
    ax.set_xlim(0, 1)


def tradeoff(experiment: Experiment, folder: Path) -> None:
    """Draw and save accuracy against the gap at 0.5, along η: a panel for each classifier and parity."""
    used = {row.classifier for row in experiment.protocol.rows}
    classifiers = [name for name in CLASSIFIERS if name in used]
    rows: CsvRows = []
    with _figure((max(len(classifiers), 2) * PANEL[0], len(PARITIES) * PANEL[1])) as figure:
        axes = figure.subplots(len(PARITIES), len(classifiers), sharex="row", sharey=True, squeeze=False)
        for line, parity in zip(axes, PARITIES, strict=True):
            for ax, classifier in zip(line, classifiers, strict=True):
                rows += _draw_tradeoff_panel(ax, experiment, parity, classifier)
            line[0].set_ylabel("accuracy")
        entries: dict[str, Any] = {}
        for ax in axes.flat:
            handles, labels = ax.get_legend_handles_labels()
            entries |= dict(zip(labels, handles, strict=True))
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=6, frameon=False)
        _save(figure, folder, "tradeoff")
    head = ["parity", "method", "eta_or_c", "accuracy_mean", "accuracy_sd"]
    _save_csv(folder, "tradeoff", [*head, "gap_mean", "gap_sd", "max_gap_mean"], rows)


def _draw_tradeoff_panel(ax: Any, experiment: Experiment, parity: str, classifier: str) -> CsvRows:
    """Draw the paths of one classifier; return the rows of the CSV."""
    from matplotlib.colors import to_rgb

    rows: CsvRows = []
    paths = [row for row in experiment.protocol.rows if row.classifier == classifier]
    for row in paths:
        kind = row.name.partition("-")[2]
        (x, dx), (y, dy), (worst, _) = _along_eta(experiment, parity, row)
        look = {"color": KIND_COLORS[kind], "marker": KIND_MARKERS[kind], "markersize": 3, "linewidth": 1.3}
        label = "gap (ours)" if kind == "gap" else kind
        every = max(len(x) // 12, 1)
        bars = {"ecolor": (*to_rgb(KIND_COLORS[kind]), 0.35), "elinewidth": 0.8, "errorevery": every}
        ax.errorbar(x, y, dy, dx, label=label, linestyle=style(row.name)["linestyle"], **look, **bars)
        rows += [
            [parity, row.name, eta, y[i], dy[i], x[i], dx[i], worst[i]] for i, eta in enumerate(row.etas)
        ]
    (x, dx), (y, dy), (worst, _) = _along_eta(experiment, parity, paths[0])
    ax.plot(x[0], y[0], "^", color="#CC0000", markersize=9, label="η = 0 (baseline)", zorder=5)
    values = experiment.values(parity, zafar_name(parity))
    (zy, zx), (sy, sx) = mean_and_sd(values[:, [COLUMNS.index("accuracy"), COLUMNS.index("gap")]])
    ax.errorbar(zx, zy, sy, sx, fmt="*", color=COLORS["Zafar"], markersize=10, elinewidth=0.8, label="Zafar")
    ax.axhline(experiment.majority_rate, color="#888888", linewidth=0.8, linestyle=":", label="majority rate")
    ax.set_title(f"{CLASSIFIERS[classifier]}, {TITLES[parity].lower()}", loc="left", fontsize="small")
    ax.set_xlabel(f"gap at 0.5 (Δ{SHORT_TITLES[parity]})")
    return rows


def _along_eta(experiment: Experiment, parity: str, row: Row) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return mean and sd over splits of gap, accuracy and max gap along η."""
    values = np.array([split[f"{parity}/{row.name}/test"] for split in experiment.splits])
    return [mean_and_sd(values[:, :, COLUMNS.index(name)]) for name in ("gap", "accuracy", "max_gap")]


def risk_distributions(experiment: Experiment, folder: Path) -> None:
    """Draw and save the risks of logistic regression at three strengths, for each distance and parity."""
    rows: CsvRows = []
    columns = [(parity, method) for parity in PARITIES for method in DISTRIBUTION_METHODS]
    with _figure((11, 7)) as figure:
        axes = figure.subplots(len(LEVELS), len(columns), sharex=True)
        for line, (level, etas) in zip(axes, LEVELS.items(), strict=True):
            for ax, (parity, method) in zip(line, columns, strict=True):
                eta, short = etas[parity], SHORT_TITLES[parity]
                shape, density = _densities(experiment, parity, method, eta)
                rows += _draw_densities(ax, shape, density, [short, method, level, eta])
                ax.set_title(f"{short}, {method}, η = {eta:g}", loc="left", fontsize="small")
            line[0].set_ylabel(f"{level}\ndensity")
        for ax in axes[-1]:
            ax.set_xlabel("risk score")
        handles, labels = axes[0][-1].get_legend_handles_labels()
        labels = [label.replace(", negatives", " (EO: negatives)") for label in labels]
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
        _save(figure, folder, "risk_distributions")
    head = ["parity", "method", "level", "eta", "stratum", "group", "bin_left", "bin_right", "density"]
    _save_csv(folder, "risk_distributions", head, rows)


def _densities(experiment: Experiment, parity: str, method: str, eta: float) -> tuple[Any, np.ndarray]:
    """Return a split's distribution, for its bins, and the test parts' densities averaged over splits."""
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


def _draw_densities(ax: Any, shape: Any, density: np.ndarray, names: list[Any]) -> CsvRows:
    """Draw one outline per group and label; return the rows of the CSV."""
    rows: CsvRows = []
    for i, stratum in enumerate(shape.parity.strata):
        for j, group in enumerate(shape.groups):
            label = f"{group}, {stratum}" if shape.parity.needs_label else group
            look = {"color": GROUP_COLORS[j], "linestyle": LABEL_DASHES[i], "label": label, "linewidth": 1.3}
            if not shape.parity.needs_label:  # four fills would be mud
                ax.stairs(density[i, j], shape.edges, fill=True, color=GROUP_COLORS[j], alpha=0.12)
            ax.stairs(density[i, j], shape.edges, **look)
            rows += [
                [*names, stratum, group, left, right, value]
                for left, right, value in zip(shape.edges[:-1], shape.edges[1:], density[i, j], strict=True)
            ]
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    return rows


def style(method: str) -> dict[str, Any]:
    family, _, kind = method.partition("-")
    return {"color": COLORS[family], "linestyle": DASHES.get(kind, "-"), "linewidth": 1.7}


def mean_and_sd(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd over splits, the first axis; one split has no spread."""
    return values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0)


@contextmanager
def _figure(size: tuple[float, float]) -> Iterator[Any]:
    """Make a figure under fixed settings."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_DETERMINISTIC | _LOOK):
        yield Figure(figsize=size, layout="constrained")


def _save(figure: Any, folder: Path, name: str) -> None:
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        with replacing(folder / f"{name}.{kind}") as file:
            figure.savefig(file, format=kind, dpi=150, metadata=metadata)


def _save_csv(folder: Path, name: str, header: Sequence[str], rows: CsvRows) -> None:
    """Write the arrays behind a figure, with full precision."""
    write_text(folder / f"{name}.csv", csv_text([header, *rows]))
