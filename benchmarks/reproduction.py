"""The target figures of the reproduction, read from the folder that `evenrisk reproduce` left behind.

evenrisk reproduce && python benchmarks/reproduction.py results
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.isotonic import IsotonicRegression

from evenrisk.paper import Experiment, Protocol, load_all
from evenrisk.paper.protocol import COLUMNS, PARITIES, zafar_name

ACCURACY, GAP, MAX_GAP = (COLUMNS.index(name) for name in ("accuracy", "gap", "max_gap"))


def show(values: np.ndarray) -> str:
    """Mean ± sd."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def paths(experiment: Experiment, parity: str, method: str, stage: str) -> np.ndarray:
    """The tables' columns along η (splits, etas, columns)."""
    return np.array([split[f"{parity}/{method}/{stage}"] for split in experiment.splits])


def table_rows(experiment: Experiment) -> None:
    """Every row's accuracy beside Zafar's."""
    for parity in PARITIES:
        zafar = experiment.values(parity, zafar_name(parity))[:, ACCURACY].mean()
        print(f"\n{parity}: accuracy minus {zafar_name(parity)}'s {zafar:.3f}")
        for row in experiment.protocol.rows:
            found = experiment.values(parity, row.name)
            matched = experiment.choices[parity, row.name].matched
            print(
                f"  {row.name:9} {found[:, ACCURACY].mean() - zafar:+.3f}"
                f"  accuracy {show(found[:, ACCURACY])}, gap {show(found[:, GAP])}, "
                f"max gap {show(found[:, MAX_GAP])}{'' if matched else '  (not matched)'}"
            )


def limits(experiment: Experiment, parity: str, gap: float, max_gap: float) -> None:
    """Accuracy of the kernel machine within limits: η chosen on validation, and read off the test curve."""
    print(
        f"\n{parity}: kernel machine, gap at 0.5 ≤ {gap}" + (f", max gap ≤ {max_gap}" if max_gap < 1 else "")
    )
    for method in ("KSVM-HA", "KSVM-GA", "KSVM-gap"):
        validation, test = (paths(experiment, parity, method, stage) for stage in ("validation", "test"))
        here = np.array([path[i] for path, i in zip(test, chosen(validation[:, :, GAP], gap), strict=True)])
        print(
            f"  {method:9} smallest η with validation gap ≤ {gap} in each split: accuracy "
            f"{show(here[:, ACCURACY])}, gap {show(here[:, GAP])}, max gap {show(here[:, MAX_GAP])}"
        )
        print(f"  {method:9} η read off the mean test curve: {read_off(test.mean(axis=0), gap, max_gap)}")


def chosen(gaps: np.ndarray, limit: float) -> np.ndarray:
    """Place of the smallest η whose validation gap (splits, etas), smoothed to fall, is within the limit."""
    falling = IsotonicRegression(increasing=False)
    order = np.arange(gaps.shape[1])
    within = np.array([falling.fit_transform(order, path) <= limit for path in gaps])
    return np.where(within.any(axis=1), within.argmax(axis=1), gaps.shape[1] - 1)


def read_off(mean: np.ndarray, gap: float, max_gap: float) -> str:
    """The first point within both limits, interpolated between neighbouring η."""
    at = np.linspace(0, len(mean) - 1, 2000)
    order = np.arange(len(mean))
    found = {i: np.interp(at, order, mean[:, i]) for i in (ACCURACY, GAP, MAX_GAP)}
    good = (found[GAP] <= gap) & (found[MAX_GAP] <= max_gap)
    if not good.any():
        return f"not reached (lowest gap {mean[:, GAP].min():.3f})"
    first = good.argmax()
    accuracy, gap, max_gap = (found[i][first] for i in (ACCURACY, GAP, MAX_GAP))
    return f"accuracy {accuracy:.3f}, gap {gap:.3f}, max gap {max_gap:.3f}"


def equal_max_gap(experiment: Experiment, parity: str) -> None:
    """Accuracy interpolated at equal max gap along the mean paths."""
    print(f"\n{parity}: accuracy at equal mean max gap")
    for target in (0.20, 0.18, 0.16, 0.14, 0.12, 0.11, 0.10):
        cells = []
        for method in ("KSVM-HA", "KSVM-gap"):
            mean = paths(experiment, parity, method, "test").mean(axis=0)
            order = np.argsort(mean[:, MAX_GAP])
            gaps, accuracy = mean[order, MAX_GAP], mean[order, ACCURACY]
            inside = gaps[0] <= target <= gaps[-1]
            cells.append(f"{method} {np.interp(target, gaps, accuracy):.3f}" if inside else f"{method}   –  ")
        print(f"  max gap {target:.2f}: " + ", ".join(cells))


def main(folder: Path) -> None:
    """Print everything."""
    settings = json.loads((folder / "results.json").read_text())["settings"]
    protocol = Protocol(seed=settings["seed"])
    experiment = Experiment(load_all(folder, protocol, settings["splits"]), protocol)
    table_rows(experiment)
    limits(experiment, "demographic_parity", 0.07, 0.10)
    limits(experiment, "equalized_odds", 0.115, 1.0)
    for parity in PARITIES:
        equal_max_gap(experiment, parity)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
