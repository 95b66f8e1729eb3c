"""Whether our solvers end as low as the paper's momentum descent.

Both begin at the same point, the last η of the path below the one asked for; momentum takes 20,000 steps.
Logistic regression on all people of COMPAS, the hinge (by the method of multipliers) on a training part of
70 %; the features are standardised. Required: momentum at most 1e-4 relative below.
"""

import time
import warnings

import numpy as np

from _report import option_parser, print_heading, print_table, results_file
from evenrisk import FairKernelSVC, FairLinearSVC, FairLogisticRegression
from evenrisk.datasets import load_compas

PARITIES = {"DP": "demographic_parity", "EO": "equalized_odds"}
LOGISTIC_ETAS = {"gap": (1, 5, 20), "histogram": (0.1, 0.4, 2), "gaussian": (0.1, 0.4, 2)}
MACHINES = {"LSVM": FairLinearSVC, "KSVM": FairKernelSVC}
HINGE_ETAS = {
    ("LSVM", "histogram"): 0.2,
    ("LSVM", "gaussian"): 0.2,
    ("LSVM", "gap"): 5,
    ("KSVM", "histogram"): 2,
    ("KSVM", "gaussian"): 2,
    ("KSVM", "gap"): 10,
}


def people(share=1.0):
    """Return X, standardised, y and race of a random share of COMPAS."""
    X, y, race = load_compas()
    rows = np.random.default_rng(0).permutation(len(y))[: round(share * len(y))] if share < 1 else slice(None)
    X = X.iloc[rows]
    return ((X - X.mean()) / X.std()).to_numpy(), y.to_numpy()[rows], race.to_numpy()[rows]


def fit(model, X, y, race):
    """Return the objective that a fit ends at, and the seconds it takes."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sensitive_features=race)
    return model.objective_, time.perf_counter() - start


def logistic(rows, steps):
    def lines():
        for distance, etas in LOGISTIC_ETAS.items():
            for parity in PARITIES.values():
                for eta in etas:
                    settings = {"parity": parity, "distance": distance, "eta": eta}
                    ours, _ = fit(FairLogisticRegression(**settings, solver="lbfgs", max_iter=1000), *rows)
                    paper = FairLogisticRegression(**settings, solver="momentum", max_iter=steps)
                    theirs, _ = fit(paper, *rows)
                    cells = f"{ours:.6f}", f"{theirs:.6f}", f"{theirs / ours - 1:+.1e}"
                    yield [distance, parity, eta, *cells]

    print_heading(
        f"Log loss, {len(rows[1]):,} people: L-BFGS and momentum ({steps:,} steps, rate 0.1 → 0.0001)"
    )
    print_table(["distance", "parity", "η", "L-BFGS", "momentum", "difference"], lines())


def hinge(rows, steps):
    def lines():
        for (machine, distance), eta in HINGE_ETAS.items():
            for short, parity in PARITIES.items():
                settings = {"parity": parity, "distance": distance, "eta": eta}
                ours, seconds = fit(MACHINES[machine](**settings), *rows)
                paper = MACHINES[machine](**settings, solver="momentum", max_iter=steps)
                theirs, paper_seconds = fit(paper, *rows)
                cells = f"{ours:.6f}", f"{theirs:.6f}", f"{theirs / ours - 1:+.1e}"
                yield [machine, distance, eta, short, *cells, f"{seconds:.1f}", f"{paper_seconds:.1f}"]

    print_heading(f"Hinge, {len(rows[1]):,} people: the method of multipliers and momentum ({steps:,} steps)")
    headings = ["machine", "distance", "η", "parity", "multipliers", "momentum", "momentum / multipliers − 1"]
    print_table([*headings, "s", "momentum, s"], lines())


def main() -> None:
    parser = option_parser(__doc__, "500 steps of momentum")
    parser.add_argument("--only", choices=("logistic", "hinge"))
    args = parser.parse_args()
    steps = 500 if args.quick else 20_000
    with results_file(parser, args):
        if args.only != "hinge":
            logistic(people(), steps)
        if args.only != "logistic":
            hinge(people(0.7), steps)


if __name__ == "__main__":
    main()
