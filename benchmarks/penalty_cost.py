"""What the penalty costs: one evaluation, growth with rows, memory of a fit.

Every figure is a ratio within the same run: to the unpenalised objective, to a smaller problem, to X itself.
"""

import json
import subprocess
import sys

import numpy as np

from _data import gaussian
from _objective import linear_objective
from _report import option_parser, print_heading, print_table, results_file, time_in_turn
from evenrisk.distances import DISTANCES
from evenrisk.objective import Penalty
from evenrisk.parity import PARITIES as RULES
from evenrisk.parity import Contrasts, make_cells

PARITIES = ("demographic_parity", "equalized_odds")


def evaluations(X, y, groups, parity):
    """Return a call of the unpenalised objective and one for each distance, at the same θ."""
    theta = np.random.default_rng(1).normal(0, 0.2, X.shape[1] + 1)
    tasks = {}
    for distance in (None, *DISTANCES):
        settings = {"parity": parity, "distance": distance, "eta": 0.0 if distance is None else 1.0}
        objective = linear_objective(X, y, groups, **settings)
        tasks[distance or "none"] = lambda objective=objective: objective(theta)
    return tasks


def one_evaluation(n, d, repeats):
    """Print the time of value and gradient as a ratio to the unpenalised objective."""
    X, y, groups = gaussian(n, d)

    def lines():
        for parity in PARITIES:
            t, _ = time_in_turn(evaluations(X, y, groups, parity), repeats)
            ratios = (f"{t[name] / t['none']:.2f}×" for name in DISTANCES)
            yield [parity, f"{1e3 * t['none']:.0f} ms", *ratios]

    print_heading(
        f"One evaluation of value and gradient, {n:,} × {d} float64, median of {repeats}",
        "Ratio to the unpenalised objective. Target: ≤ 1.6×.",
    )
    print_table(["parity", "unpenalised", *DISTANCES], lines())


def comparisons(n, repeats):
    """Print the time of the gap penalty and its gradient for other comparisons than two groups."""
    rng = np.random.default_rng(0)
    g, weight = rng.normal(0, 1.5, n), np.ones(n)
    columns = np.stack([rng.integers(0, 2, n) + 2 * place for place in range(3)], axis=1)
    share = rng.dirichlet(np.ones(3), n)

    def cells(group, k, contrasts=None, share=None):
        rule = RULES["demographic_parity"]
        return make_cells(rule, None, group, k, weight, contrasts, share)

    def each(m):
        parts = (np.where(np.arange(2 * m) // 2 == place, np.arange(2 * m) % 2, -1) for place in range(m))
        return Contrasts.together([Contrasts.every_pair(2).of_classes(part) for part in parts])

    def finest(m):
        code = np.arange(2**m)
        return Contrasts.together(
            [Contrasts.every_pair(2).of_classes(code >> place & 1) for place in range(m)]
        )

    kinds = {
        "two groups": (cells(columns[:, 0], 2), 1.0),
        "ten cuts of an ordered attribute": (cells(rng.integers(0, 11, n), 11, Contrasts.cuts(11)), 1.3),
    }
    for m in (2, 3):
        bits = (columns[:, :m] % 2) @ (1 << np.arange(m))
        kinds[f"{m} columns, each on its own, as unions"] = (cells(bits, 2**m, finest(m)), 1 + 0.3 * (m - 1))
        own = cells(np.ascontiguousarray(columns[:, :m]), 2 * m, each(m))
        kinds[f"{m} columns, each on its own, as memberships"] = (own, 1 + 0.3 * (m - 1))
    probabilities = cells(np.tile(np.arange(3), (n, 1)), 3, None, share)
    kinds["probabilities of 3 groups"] = (probabilities, 1.6)

    def task(cells):
        penalty, gradient = Penalty(DISTANCES["gap"], cells), np.zeros(n)

        def evaluate():
            summed = penalty.sums(g)
            penalty.add_gradient(summed, penalty.derivative(summed.sums)[1], gradient)

        return evaluate

    t, _ = time_in_turn({name: task(each_cells) for name, (each_cells, _) in kinds.items()}, repeats)
    print_heading(
        f"Value and gradient of the gap penalty by who is compared, {n:,} rows, median of {repeats}",
        "Ratio to two groups.",
    )
    print_table(
        ["compared", "time", "ratio", "target"],
        (
            [name, f"{1e3 * t[name]:.0f} ms", f"{t[name] / t['two groups']:.2f}×", f"≤ {target:.1f}×"]
            for name, (_, target) in kinds.items()
        ),
    )


def growth(sizes, d, repeats=5):
    """Print the time per row for more and more rows, relative to 10⁵."""
    per_row = {}
    for n in sizes:
        tasks = evaluations(*gaussian(n, d), "demographic_parity")
        t, _ = time_in_turn(tasks, max(repeats, 2_000_000 // n))
        per_row[n] = {name: value / n for name, value in t.items()}
    print_heading(f"Cost per row, demographic parity, {d} columns, relative to 10⁵ rows (target: linear)")
    print_table(
        ["rows", "none", *DISTANCES],
        (
            [f"{n:,}", *(f"{value / per_row[100_000][name]:.2f}" for name, value in values.items())]
            for n, values in per_row.items()
        ),
    )


def memory(shapes):
    """Print the peak memory of a fit as a share of X, each in a process of its own."""

    def lines():
        for n, d in shapes:
            shares = []
            for distance in DISTANCES:
                command = [sys.executable, "-W", "ignore", __file__, "--fit", str(n), str(d), distance]
                out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                shares.append(f"{out['extra'] / out['X']:.1%}")
            yield [f"{n:,} × {d}", *shares]

    print_heading("Peak memory of a fit beyond X, y and the groups, as a share of X (target: ≤ 30 %)")
    print_table(["rows × columns", *DISTANCES], lines())


def fit_memory(n, d, distance):
    """Print the peak memory of a fit beyond what was there before, and the size of X, as JSON."""
    from evenrisk import FairLogisticRegression

    X, y, groups = gaussian(n, d)
    few = slice(20_000)
    FairLogisticRegression(eta=1).fit(X[few], y[few], sensitive_features=groups[few])  # imports, loads loops
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    before = _status("VmRSS")
    clf = FairLogisticRegression(distance=distance, eta=1, tol=1e-3, max_iter=20)
    clf.fit(X, y, sensitive_features=groups)
    print(json.dumps({"extra": _status("VmHWM") - before, "X": X.nbytes}))


def _status(field):
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return 1024 * int(line.split()[1])


def main() -> None:
    parser = option_parser(__doc__, "100,000 rows instead of a million, 3 repeats, growth to a million rows")
    parser.add_argument("--fit", nargs=3, help="(in a process of its own) rows, columns, distance")
    args = parser.parse_args()
    if args.fit:
        fit_memory(int(args.fit[0]), int(args.fit[1]), args.fit[2])
        return
    with results_file(parser, args):
        if args.quick:
            one_evaluation(100_000, 50, 3)
            comparisons(100_000, 5)
            growth((10_000, 100_000, 1_000_000), 20)
            memory(((100_000, 50),))
        else:
            one_evaluation(1_000_000, 50, 15)
            comparisons(1_000_000, 15)
            growth((10_000, 100_000, 1_000_000, 10_000_000), 20)
            memory(((1_000_000, 50), (10_000_000, 20)))


if __name__ == "__main__":
    main()
