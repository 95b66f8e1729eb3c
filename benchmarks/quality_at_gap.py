"""What fairness costs on unseen people: accuracy and AUC at a given gap, linear models and the network.

Random 70/30 splits, standardised on the training part. Each model goes along a path over η, and its quality
is read off the test curve where the gap first falls to the value asked for. A split whose path never gets
there is left out and counted. ± is the sd over splits.
"""

import warnings
from itertools import pairwise

import numpy as np
from sklearn.metrics import roc_auc_score

from _data import adult, compas, train_test
from _report import option_parser, print_heading, print_table, results_file
from evenrisk import FairLogisticRegression, GapDistance, threshold_profile
from evenrisk.neural_network import FairMLPClassifier

DP, EO = "demographic_parity", "equalized_odds"
LINEAR = {
    "gap": ("gap", np.geomspace(0.5, 50, 25)),
    "gap, rank scale": (GapDistance(scale="rank"), np.geomspace(0.1, 50, 25)),
    "histogram": ("histogram", np.geomspace(0.02, 2, 25)),
    "gaussian": ("gaussian", np.geomspace(0.02, 2, 25)),
}
ADULT_ETAS = np.geomspace(0.3, 300, 25)
GAP_ETAS, HISTOGRAM_ETAS = np.geomspace(0.5, 200, 20), np.geomspace(0.03, 10, 20)
ADAM = {"solver": "adam", "max_iter": 60}
NETWORKS = {
    "gap, as it comes": ("gap", GAP_ETAS, {}),
    "gap, Adam, 60 epochs": ("gap", GAP_ETAS, ADAM),
    "histogram, as it comes": ("histogram", HISTOGRAM_ETAS, {}),
    "histogram, Adam, 60 epochs": ("histogram", HISTOGRAM_ETAS, ADAM),
    "worst gap (rank, power 8), as it comes": (GapDistance(scale="rank", power=8), GAP_ETAS / 4, {}),
}


def measure(model, X, y, groups, parity):
    s = model.predict_proba(X)[:, 1]
    profile = threshold_profile(y, s, sensitive_features=groups, parity=parity)
    return {
        "accuracy": ((s > 0.5) == y).mean(),
        "auc": roc_auc_score(y, s),
        "gap": profile.at(0.5),
        "max_gap": profile.max_gap,
    }


def path(model, train, test, etas):
    """Return the measurements along a warm path over η, the unpenalised fit first."""
    X, y, groups = train
    fitted = model.fit_path(X, y, (0.0, *etas), sensitive_features=groups)
    return [measure(each, *test, model.parity) for each in fitted]


def at(points, target, column, on="max_gap"):
    """Interpolate along the path where `on` first falls to the target; NaN if it never does."""
    for before, after in pairwise(points):
        if after[on] <= target < before[on]:
            share = (before[on] - target) / (before[on] - after[on])
            return before[column] + share * (after[column] - before[column])
    return np.nan


def mean_sd(values):
    known = [value for value in values if not np.isnan(value)]
    sd = f" ± {np.std(known, ddof=1):.4f}" if len(known) > 1 else ""
    missing = f" ({len(values) - len(known)} of {len(values)} splits never reach it)"
    return (f"{np.mean(known):.4f}{sd}" if known else "–") + (missing if len(known) < len(values) else "")


def compas_plain(splits):
    def lines():
        for parity in (DP, EO):
            plain = [path(FairLogisticRegression(parity), *split, [])[0] for split in splits]
            yield [parity, *(mean_sd([p[key] for p in plain]) for key in plain[0])]

    print_heading(
        f"COMPAS, plain logistic regression, {len(splits)} splits",
        "Targets: accuracy .66–.69, ΔDP .23–.28, ΔEO .19–.24, max gap .26–.29. ΔDP and ΔEO are the gap at "
        "0.5; the max gap of equalized odds is the worse label's.",
    )
    print_table(["parity", "accuracy", "AUC", "gap", "max gap"], lines())


def compas_linear(splits, thin):
    def lines():
        for name, (distance, etas) in LINEAR.items():
            model = FairLogisticRegression(distance=distance)
            paths = [path(model, *split, etas[::thin]) for split in splits]
            yield [name, *(mean_sd([at(p, 0.10, key) for p in paths]) for key in ("accuracy", "auc"))]

    print_heading(
        f"COMPAS, logistic regression, demographic parity, at a test max gap of .10, {len(splits)} splits",
        "Target for the gap distance: accuracy ≥ .575.",
    )
    print_table(["distance", "accuracy", "AUC"], lines())


def compas_network(splits, thin):
    def lines():
        for parity, on in ((DP, "max_gap"), (EO, "gap")):
            for name, (distance, etas, settings) in NETWORKS.items():
                model = FairMLPClassifier(parity, distance=distance, random_state=0, **settings)
                paths = [path(model, *split, etas[::thin]) for split in splits]
                cells = (mean_sd([at(p, 0.10, key, on) for p in paths]) for key in ("accuracy", "auc"))
                yield [parity.replace("_", " "), name, *cells]

    print_heading(
        f"COMPAS, network, {len(splits)} splits on which nothing was chosen",
        "Demographic parity at a test max gap of .10 (targets: accuracy ≥ .600, AUC ≥ .645); equalized odds "
        "at a gap of .10 at 0.5 (target: accuracy ≥ .615).",
    )
    print_table(["parity", "attempt", "accuracy", "AUC"], lines())


def adult_linear(n_splits, thin):
    rows, model = adult(), FairLogisticRegression(alpha=1e-4)
    paths = [path(model, *train_test(*rows, seed), ADULT_ETAS[::thin]) for seed in range(n_splits)]
    auc, gap = (mean_sd([p[0][key] for p in paths]) for key in ("auc", "max_gap"))
    print_heading(
        f"Adult, logistic regression, gap distance, alpha = 1e-4, demographic parity, {n_splits} splits",
        f"Targets: AUC ≥ .862 at .055 and ≥ .856 at .035. Plain: AUC {auc}, max gap {gap}.",
    )
    print_table(
        ["test max gap", "AUC", "accuracy"],
        (
            [target, *(mean_sd([at(p, target, key) for p in paths]) for key in ("auc", "accuracy"))]
            for target in (0.105, 0.055, 0.035)
        ),
    )


def main() -> None:
    parser = option_parser(__doc__, "2 splits, every fourth eta")
    parser.add_argument("--only", choices=("linear", "network"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # strong ends of the paths collapse, as they should
    rows, thin = compas(), 4 if args.quick else 1
    n, n_adult = (2, 2) if args.quick else (20, 5)
    with results_file(parser, args):
        if args.only != "network":
            splits = [train_test(*rows, seed) for seed in range(n)]
            compas_plain(splits)
            compas_linear(splits, thin)
            adult_linear(n_adult, thin)
        if args.only != "linear":
            compas_network([train_test(*rows, seed) for seed in range(100, 100 + n)], thin)


if __name__ == "__main__":
    main()
