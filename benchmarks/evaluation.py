"""What the penalty costs: one evaluation against the unpenalised one, growth with rows, memory of a fit.

Every figure is a ratio to a rival in the same run: the unpenalised objective, a smaller problem, X itself.
"""

import json
import subprocess
import sys
import time

import numpy as np

from _machine import describe
from evenrisk.distances import DISTANCES
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, make_cells


def rows(n, d, seed=0):
    """Correlated, skewed features; two groups that differ; labels that depend on both."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1::3] += 0.5 * X[:, ::3][:, : X[:, 1::3].shape[1]]
    group = (rng.random(n) < 0.4).astype(np.int32)
    X[:, 0] += 0.5 * group
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] + 0.3 * X[:, 1]))).astype(np.int8)
    return X, y, group


def objectives(X, y, group, parity):
    """The unpenalised objective and one for each distance, on the same rows."""
    weight = np.broadcast_to(1.0, len(y))
    cells = make_cells(PARITIES[parity], y, group, 2, weight)
    made = {}
    for name in ("none", *DISTANCES):
        penalty = None if name == "none" else Penalty(DISTANCES[name], cells)
        scores = ScoreObjective(LOGISTIC, y, weight, penalty, 0.0 if name == "none" else 1.0)
        made[name] = LinearObjective(scores, X, alpha=0.0, fit_intercept=True)
    return made


def seconds(functions, theta, repeats):
    """Median time of each function, taken in turn so that a slow moment hits all alike."""
    taken = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function(theta)
            taken[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in taken.items()}


def cost_of_the_penalty(n=1_000_000, d=50, repeats=15):
    X, y, group = rows(n, d)
    theta = np.random.default_rng(1).normal(0, 0.2, d + 1)
    print(f"\n### One evaluation, {n:,} × {d} float64, median of {repeats}\n")
    print("| parity | unpenalised | " + " | ".join(DISTANCES) + " |")
    print("|---|---|" + "---|" * len(DISTANCES))
    for parity in ("demographic_parity", "equalized_odds"):
        t = seconds(objectives(X, y, group, parity), theta, repeats)
        ratios = " | ".join(f"{t[name] / t['none']:.2f}×" for name in DISTANCES)
        print(f"| {parity} | {1e3 * t['none']:.0f} ms | {ratios} |", flush=True)


def growth(d=20, repeats=5):
    print(f"\n### Cost per row from 10⁴ to 10⁷ rows × {d}, relative to 10⁵ rows (demographic parity)\n")
    print("| rows | " + " | ".join(("none", *DISTANCES)) + " |")
    print("|---|" + "---|" * (1 + len(DISTANCES)))
    per_row = {}
    theta = np.random.default_rng(1).normal(0, 0.2, d + 1)
    for n in (10_000, 100_000, 1_000_000, 10_000_000):
        X, y, group = rows(n, d)
        t = seconds(objectives(X, y, group, "demographic_parity"), theta, max(repeats, 2_000_000 // n))
        per_row[n] = {name: value / n for name, value in t.items()}
        del X
    for n, values in per_row.items():
        cells = " | ".join(f"{values[name] / per_row[100_000][name]:.2f}" for name in values)
        print(f"| {n:,} | {cells} |")


def fit_memory(n, d, distance):
    """In a process of its own: peak memory of a fit beyond what was there before, over the size of X."""
    from evenrisk import FairLogisticRegression

    X, y, group = rows(n, d)
    FairLogisticRegression(eta=1).fit(X[:1000], y[:1000], sensitive_features=group[:1000])  # imports
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    before = _status("VmRSS")
    clf = FairLogisticRegression(distance=distance, eta=1, tol=1e-3, max_iter=20)
    clf.fit(X, y, sensitive_features=group)
    print(json.dumps({"extra": _status("VmHWM") - before, "X": X.nbytes}))


def _status(field):
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return 1024 * int(line.split()[1])


def memory():
    print("\n### Peak memory of a fit beyond X, y and the groups, as a share of X\n")
    print("| rows × columns | " + " | ".join(DISTANCES) + " |")
    print("|---|" + "---|" * len(DISTANCES))
    for n, d in ((1_000_000, 50), (10_000_000, 20)):
        shares = []
        for distance in DISTANCES:
            command = [sys.executable, "-W", "ignore", __file__, "fit-memory", str(n), str(d), distance]
            out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            shares.append(f"{out['extra'] / out['X']:.1%}")
        print(f"| {n:,} × {d} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["fit-memory"]:
        fit_memory(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        print(describe())
        cost_of_the_penalty()
        growth()
        memory()
