"""The tables and the picture of `frontier.py`: two tables for each data set and parity.

Conventions
-----------
A frame has one row for each data set, parity, split, method and setting, with `max_gap`, `auc` and `accuracy`
on the test rows and, as `validation_…`, on the validation rows. ± is the standard error over splits.
"""

from itertools import pairwise

import numpy as np
import pandas as pd

COLUMNS = ("max_gap", "auc", "accuracy")
DEEP = "MLP|LightGBM|XGBoost|FairGBM"  # networks and trees


def choose(path: pd.DataFrame, target: float) -> pd.Series:
    """Return the setting that validation rows choose among those of one method in one split.

    It is the one with the best AUC within the target, or else the one with the smallest max gap.
    """
    within = path[path.validation_max_gap <= target]
    if len(within):
        return within.loc[within.validation_auc.idxmax()]
    return path.loc[path.validation_max_gap.idxmin()]


def frontier(path: pd.DataFrame) -> pd.DataFrame:
    """Return the settings that no other beats in both max gap and AUC on validation rows, least fair first.

    So a path may be a plane of settings, or turn back on itself, at no disadvantage.
    """
    ordered = path.sort_values(["validation_max_gap", "validation_auc"], ascending=[True, False])
    best = ordered.validation_auc.cummax()
    return ordered[best > best.shift(fill_value=-np.inf)][::-1]


def at_gap(path: pd.DataFrame, target: float, column: str) -> float:
    """Interpolate along a path where the test's max gap first falls to the target; NaN if it never does."""
    gap, value = path.max_gap.to_numpy(), path[column].to_numpy()
    if gap[0] <= target:
        return float(value[0])
    for i, j in pairwise(range(len(gap))):
        if gap[j] <= target:
            return float(value[i] + (gap[i] - target) / (gap[i] - gap[j]) * (value[j] - value[i]))
    return np.nan


def mean_and_error(values) -> str:
    """Return mean ± standard error of the values that are not NaN, and how many they are if not all."""
    known = np.asarray(values, dtype=float)
    n, known = len(known), known[~np.isnan(known)]
    if not len(known):
        return "–"
    error = f" ± {known.std(ddof=1) / np.sqrt(len(known)):.4f}" if len(known) > 1 else ""
    return f"{known.mean():.4f}{error}" + (f" ({len(known)} of {n})" if len(known) < n else "")


def splits_of(frame: pd.DataFrame) -> dict[str, list[pd.DataFrame]]:
    """Return the path of every split, by method, in order of appearance."""
    return {
        name: [path for _, path in part.groupby("split")]
        for name, part in frame.groupby("method", sort=False)
    }


def chosen_table(frame: pd.DataFrame, targets) -> list[str]:
    """Return what a user gets who asks for a max gap and chooses on validation rows."""
    lines = [
        "| asked for | method | test max gap | AUC | accuracy | validation within |",
        "|---|---|---|---|---|---|",
    ]
    for target in targets:
        for name, paths in splits_of(frame).items():
            picks = pd.DataFrame([choose(path, target) for path in paths])
            cells = [mean_and_error(picks[column]) for column in COLUMNS]
            within = f"{(picks.validation_max_gap <= target).sum()} of {len(picks)}"
            lines.append(f"| {target} | {name} | {' | '.join(cells)} | {within} |")
    return lines


def equal_gap_table(frame: pd.DataFrame, targets) -> list[str]:
    """Return the AUC at the same max gap on the test rows, interpolated along each split's path."""
    lines = ["| method | " + " | ".join(f"max gap {target}" for target in targets) + " |"]
    lines.append("|---" * (1 + len(targets)) + "|")
    for name, paths in splits_of(frame).items():
        fronts = [frontier(path) for path in paths]
        cells = [mean_and_error([at_gap(path, target, "auc") for path in fronts]) for target in targets]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def report(frame: pd.DataFrame, name: str, targets) -> str:
    """Return all tables of one data set, in Markdown."""
    lines = []
    for parity, part in frame.groupby("parity", sort=False):
        heading = f"{name}, {parity.replace('_', ' ')}, {part.split.nunique()} splits"
        for aware, rows in part.groupby("aware"):
            who = "with the attribute at prediction" if aware else "without the attribute at prediction"
            lines += ["", f"## {heading}, {who}: chosen on validation rows", ""]
            lines += chosen_table(rows, targets)
            lines += ["", f"## {heading}, {who}: test AUC at equal test max gap", ""]
            lines += equal_gap_table(rows, targets)
    return "\n".join(lines)


def mean_paths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard error over splits at each setting, without dominated settings."""
    places = frame.groupby(["method", "place"], sort=False)
    keys = ["max_gap", "auc", "validation_max_gap", "validation_auc"]
    errors = places[["max_gap", "auc"]].sem().fillna(0.0)  # of one split there is none
    table = places[keys].mean().join(errors, rsuffix="_error").reset_index()
    return pd.concat([frontier(path) for _, path in table.groupby("method", sort=False)])


def draw(frame: pd.DataFrame, target: str) -> None:
    """Mean test AUC against mean test max gap along the path of each method that does not ask
    for the attribute.

    A row of panels for each data set: linear models and kernel machines, then networks and trees. Demographic
    parity; a row's frame is that of our methods in it, and what lies below is named there.
    """
    import matplotlib.pyplot as plt

    # the plain model is where every path starts
    frame = frame[
        ~frame.aware & (frame.parity == "demographic_parity") & ~frame.method.str.startswith("plain")
    ]
    tables = [(name, part) for name, part in frame.groupby("data", sort=False) if name != "synthetic"]
    deep = frame.method.str.contains(DEEP)
    kinds = [list(frame.method[rows].unique()) for rows in (~deep, deep)]
    size = (13, 5 * len(tables) + 1)
    figure, axes = plt.subplots(
        len(tables), 2, figsize=size, squeeze=False, layout="constrained", sharey="row"
    )
    for line, (data, part) in zip(axes, tables, strict=True):
        table = mean_paths(part).rename(columns={"auc": "AUC", "max_gap": "test max gap"})
        ours = table[table.method.str.startswith("evenrisk")].AUC
        for ax, methods, kind in zip(
            line, kinds, ("linear models, kernel machine", "networks, trees"), strict=True
        ):
            _panel(ax, table, methods, ours.min() - 0.01, ours.max() + 0.01)
            ax.set_title(f"{data}, {part.split.nunique()} splits: {kind}")
    for column in axes.T:
        shown = {}
        for ax in column:
            handles, labels = ax.get_legend_handles_labels()
            shown |= dict(zip(labels, handles, strict=True))
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 2, "frameon": False}
        column[-1].legend(shown.values(), shown, **place)
    figure.savefig(target, dpi=120)
    plt.close(figure)


def _panel(ax, table: pd.DataFrame, methods: list[str], floor: float, ceiling: float) -> None:
    """Draw the paths of some methods."""
    from evenrisk.plots import TradeoffDisplay

    names = {"x": "test max gap", "y": "AUC", "x_error": "max_gap_error", "y_error": "auc_error"}
    below = []
    for i, name in enumerate(methods):  # one by one: the same look in every row
        path = table[table.method == name]
        style = {"color": f"C{i % 10}", "marker": "os^DvPX<>*p"[i % 11], "markersize": 5, "linestyle": "-"}
        if len(path):
            TradeoffDisplay.from_frame(path, **names, ax=ax, **style)
        if (floor > path.AUC).any():
            below.append(name)
    if ax.get_legend():
        ax.get_legend().remove()
    ax.set_ylim(floor, ceiling)
    if below:
        ax.text(0.98, 0.02, f"below this frame: {', '.join(below)}", ha="right", transform=ax.transAxes)
