"""Whether the reproduction of the paper meets its target figures.

Read from the folder that `evenrisk reproduce` wrote: evenrisk reproduce && python
benchmarks/reproduction_targets.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.isotonic import IsotonicRegression

from _report import option_parser, print_heading, print_table, results_file
from evenrisk.paper import Experiment, Protocol, load_all
from evenrisk.paper.protocol import COLUMNS, PARITIES, zafar_name

ACCURACY, GAP, MAX_GAP = (COLUMNS.index(name) for name in ("accuracy", "gap", "max_gap"))
KERNEL_MACHINES = ("KSVM-HA", "KSVM-GA", "KSVM-gap")


def mean_sd(values: np.ndarray) -> str:
    """Return mean ± sd."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def paths(experiment: Experiment, parity: str, method: str, stage: str) -> np.ndarray:
    """Return the tables' columns along η (splits, etas, columns)."""
    return np.array([split[f"{parity}/{method}/{stage}"] for split in experiment.splits])


def table_rows(experiment: Experiment, parity: str) -> None:
    """Print every row of the paper's tables, and its accuracy beside Zafar's."""
    zafar = experiment.values(parity, zafar_name(parity))[:, ACCURACY].mean()

    def lines():
        for row in experiment.protocol.rows:
            found = experiment.values(parity, row.name)
            columns = [mean_sd(found[:, column]) for column in (ACCURACY, GAP, MAX_GAP)]
            matched = "yes" if experiment.choices[parity, row.name].matched else "no"
            yield [row.name, f"{found[:, ACCURACY].mean() - zafar:+.3f}", *columns, matched]

    print_heading(f"{parity}: the rows of the table; accuracy of {zafar_name(parity)} {zafar:.3f}")
    headings = ["row", f"accuracy minus {zafar_name(parity)}'s", "accuracy", "gap", "max gap", "matched"]
    print_table(headings, lines())


def limits(experiment: Experiment, parity: str, gap: float, max_gap: float) -> None:
    """Print the accuracy of the kernel machine within limits on the gaps."""

    def lines():
        for method in KERNEL_MACHINES:
            validation, test = (paths(experiment, parity, method, stage) for stage in ("validation", "test"))
            places = chosen(validation[:, :, GAP], gap)
            here = np.array([path[i] for path, i in zip(test, places, strict=True)])
            columns = [mean_sd(here[:, column]) for column in (ACCURACY, GAP, MAX_GAP)]
            yield [method, f"smallest η with validation gap ≤ {gap} in each split", *columns]
            yield [method, "read off the mean test curve", *read_off(test.mean(axis=0), gap, max_gap)]

    also = f", max gap ≤ {max_gap}" if max_gap < 1 else ""
    print_heading(f"{parity}: kernel machine, gap at 0.5 ≤ {gap}{also}")
    print_table(["method", "η", "accuracy", "gap", "max gap"], lines())


def chosen(gaps: np.ndarray, limit: float) -> np.ndarray:
    """Return the place of the smallest η whose validation gap, smoothed to fall, is within the limit.

    Gaps are (splits, etas); the last place where none is.
    """
    falling = IsotonicRegression(increasing=False)
    order = np.arange(gaps.shape[1])
    within = np.array([falling.fit_transform(order, path) <= limit for path in gaps])
    return np.where(within.any(axis=1), within.argmax(axis=1), gaps.shape[1] - 1)


def read_off(mean: np.ndarray, gap: float, max_gap: float) -> list[str]:
    """Return accuracy, gap and max gap of the first point within both limits, between neighbouring η."""
    at = np.linspace(0, len(mean) - 1, 2000)
    order = np.arange(len(mean))
    found = {i: np.interp(at, order, mean[:, i]) for i in (ACCURACY, GAP, MAX_GAP)}
    good = (found[GAP] <= gap) & (found[MAX_GAP] <= max_gap)
    if not good.any():
        return ["not reached", f"lowest {mean[:, GAP].min():.3f}", "–"]
    first = good.argmax()
    return [f"{found[i][first]:.3f}" for i in (ACCURACY, GAP, MAX_GAP)]


def equal_max_gap(experiment: Experiment, parity: str) -> None:
    """Print the accuracy interpolated at equal max gap along the mean paths."""

    def lines():
        for target in (0.20, 0.18, 0.16, 0.14, 0.12, 0.11, 0.10):
            cells = []
            for method in ("KSVM-HA", "KSVM-gap"):
                mean = paths(experiment, parity, method, "test").mean(axis=0)
                order = np.argsort(mean[:, MAX_GAP])
                gaps, accuracy = mean[order, MAX_GAP], mean[order, ACCURACY]
                inside = gaps[0] <= target <= gaps[-1]
                cells.append(f"{np.interp(target, gaps, accuracy):.3f}" if inside else "–")
            yield [f"{target:.2f}", *cells]

    print_heading(f"{parity}: accuracy at equal mean max gap")
    print_table(["max gap", "KSVM-HA", "KSVM-gap"], lines())


def main() -> None:
    parser = option_parser(__doc__, quick=None)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("results"))
    args = parser.parse_args()
    settings = json.loads((args.folder / "results.json").read_text())["settings"]
    protocol = Protocol(seed=settings["seed"])
    experiment = Experiment(load_all(args.folder, protocol, settings["splits"]), protocol)
    with results_file(parser, args):
        for parity in PARITIES:
            table_rows(experiment, parity)
        limits(experiment, "demographic_parity", 0.07, 0.10)
        limits(experiment, "equalized_odds", 0.115, 1.0)
        for parity in PARITIES:
            equal_max_gap(experiment, parity)


if __name__ == "__main__":
    main()
