"""What `frontier.py` says of its measurements: two tables for each data set and parity, and a picture.

Conventions
-----------
A frame has one row for each data set, parity, split, method and setting, with `max_gap`, `auc` and `accuracy`
on the test rows and, as `validation_…`, on the validation rows. ± is the standard error over splits.
"""

from itertools import pairwise

import numpy as np
import pandas as pd

COLUMNS = ("max_gap", "auc", "accuracy")


def choose(path: pd.DataFrame, target: float) -> pd.Series:
    """Of one method's settings in one split: the best AUC within the target, or else the smallest max gap.

    Both on validation rows.
    """
    within = path[path.validation_max_gap <= target]
    if len(within):
        return within.loc[within.validation_auc.idxmax()]
    return path.loc[path.validation_max_gap.idxmin()]


def frontier(path: pd.DataFrame) -> pd.DataFrame:
    """The settings that no other beats in both max gap and AUC on validation rows, least fair first.

    So a path may be a plane of settings, or turn back on itself, and no method is the worse for it.
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
    """Mean ± standard error of the numbers among the values, and of how many if not all."""
    known = np.asarray(values, dtype=float)
    n, known = len(known), known[~np.isnan(known)]
    if not len(known):
        return "–"
    error = f" ± {known.std(ddof=1) / np.sqrt(len(known)):.4f}" if len(known) > 1 else ""
    return f"{known.mean():.4f}{error}" + (f" ({len(known)} of {n})" if len(known) < n else "")


def splits_of(frame: pd.DataFrame) -> dict[str, list[pd.DataFrame]]:
    """The path of every split, by method, in order of appearance."""
    return {
        name: [path for _, path in part.groupby("split")]
        for name, part in frame.groupby("method", sort=False)
    }


def chosen_table(frame: pd.DataFrame, targets) -> list[str]:
    """What a user gets who asks for a max gap and chooses on validation rows."""
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
    """AUC at the same max gap on the test rows, interpolated along each split's path."""
    lines = ["| method | " + " | ".join(f"max gap {target}" for target in targets) + " |"]
    lines.append("|---" * (1 + len(targets)) + "|")
    for name, paths in splits_of(frame).items():
        fronts = [frontier(path) for path in paths]
        cells = [mean_and_error([at_gap(path, target, "auc") for path in fronts]) for target in targets]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def report(frame: pd.DataFrame, name: str, targets) -> str:
    """All tables of one data set, in markdown."""
    lines = []
    for parity, part in frame.groupby("parity", sort=False):
        heading = f"{name}, {parity.replace('_', ' ')}, {part.split.nunique()} splits"
        for aware, rows in part.groupby("aware"):
            who = "needs the attribute at prediction" if aware else "blind at prediction"
            lines += ["", f"### {heading}, {who}: chosen on validation rows", ""]
            lines += chosen_table(rows, targets)
            lines += ["", f"### {heading}, {who}: test AUC at equal test max gap", ""]
            lines += equal_gap_table(rows, targets)
    return "\n".join(lines)


def mean_paths(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard error over splits at each setting, by method; dominated settings are left out."""
    places = frame.groupby(["method", "place"], sort=False)
    keys = ["max_gap", "auc", "validation_max_gap", "validation_auc"]
    errors = places[["max_gap", "auc"]].sem().fillna(0.0)  # of one split there is none
    table = places[keys].mean().join(errors, rsuffix="_error").reset_index()
    return pd.concat([frontier(path) for _, path in table.groupby("method", sort=False)])


def draw(frame: pd.DataFrame, target: str) -> None:
    """Mean test AUC against mean test max gap along each blind method's path, one panel for each data set.

    Demographic parity; the frame is that of our methods, and what lies below it is named there.
    """
    import matplotlib.pyplot as plt

    from evenrisk.plots import TradeoffDisplay

    # the plain model is where every path starts
    frame = frame[~frame.aware & (frame.parity == "demographic_parity") & (frame.method != "plain LR")]
    panels = [(name, part) for name, part in frame.groupby("data", sort=False) if name != "synthetic"]
    looks = {name: (f"C{i % 10}", "os^DvPX<>*p"[i % 11]) for i, name in enumerate(frame.method.unique())}
    size = (6.5 * len(panels), 6)
    figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    names = {"x": "test max gap", "y": "AUC", "x_error": "max_gap_error", "y_error": "auc_error"}
    shown = {}
    for ax, (data, part) in zip(axes.flat, panels, strict=True):
        table = mean_paths(part).rename(columns={"auc": "AUC", "max_gap": "test max gap"})
        for name, path in table.groupby("method", sort=False):  # one by one: the same look in every panel
            color, marker = looks[name]
            style = {"color": color, "marker": marker, "markersize": 5, "linestyle": "-"}
            shown[name] = TradeoffDisplay.from_frame(path, **names, ax=ax, **style)[0].lines_[0]
        ax.get_legend().remove()
        ours = table[table.method.str.startswith("evenrisk")]
        floor, reach = ours.AUC.min() - 0.01, ours.AUC.max() + 0.01
        ax.set(ylim=(floor, reach), title=f"{data}, {part.split.nunique()} splits")
        below = table.method[floor > table.AUC].unique()
        if len(below):
            ax.text(0.98, 0.02, f"below this frame: {', '.join(below)}", ha="right", transform=ax.transAxes)
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(target, dpi=120)
    plt.close(figure)
