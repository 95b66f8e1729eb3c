"""Whether a budget is kept on people the search has not seen.

Random 70/30 splits of COMPAS and Adult, and 1000 rows drawn from 200,000 synthetic ones, of which all others
show the true gap. A budget is broken where the test max gap exceeds it by more than sampling alone explains,
0.82·√(1/n₀ + 1/n₁), n the test cells of the worst stratum (a perfectly fair score's mean max gap is about
that). ± is the standard error over splits.
"""

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from _data import adult, compas, skewed, train_test
from _report import option_parser, print_table, results_file
from evenrisk import BudgetSearchCV, FairKernelSVC, FairLogisticRegression, threshold_profile


@dataclass(frozen=True)
class Case:
    """A search to repeat on many splits."""

    data: str
    name: str
    estimators: tuple[Any, ...]  # of which the one with the best held-out AUC at its own eta is taken
    max_gap: float
    confidence: float | None
    n_splits: int
    n_train: int | None = None  # None is 70 %

    @property
    def parity(self) -> str:
        return self.estimators[0].parity


def logistic(parity="demographic_parity", alpha=0.0):
    return (FairLogisticRegression(parity, alpha=alpha, tol=1e-4),)


def machine(alpha):
    return FairKernelSVC(distance="histogram", loss="squared_hinge", alpha=alpha, tol=1e-4)


EO = "equalized_odds"
ALPHAS = (3e-4, 1e-3, 3e-3, 1e-2)
CASES = (
    Case("COMPAS", "logistic", logistic(), 0.10, 0.9, 50),
    Case("COMPAS", "logistic", logistic(), 0.15, 0.9, 50),
    Case("COMPAS", "logistic, equalized odds", logistic(EO), 0.15, 0.9, 50),
    Case("COMPAS", "logistic", logistic(), 0.10, None, 50),
    Case("COMPAS", "kernel machine, as it comes", (FairKernelSVC(tol=1e-4),), 0.10, None, 20),
    Case("COMPAS", "kernel machine, alpha chosen", tuple(map(machine, ALPHAS)), 0.10, None, 20),
    Case("Adult", "logistic", logistic(alpha=1e-4), 0.05, 0.9, 50),
    Case("Adult", "logistic", logistic(alpha=1e-4), 0.05, None, 10),
    Case("Adult", "logistic, equalized odds", logistic(EO, 1e-4), 0.10, 0.9, 10),
    Case("synthetic", "logistic", logistic(alpha=1e-4), 0.15, 0.9, 100, 1000),
    Case("synthetic", "logistic", logistic(alpha=1e-4), 0.15, None, 100, 1000),
)


LOAD = {"COMPAS": compas, "Adult": adult, "synthetic": lambda: skewed(200_000)}


def one_split(case, rows, seed, n_jobs):
    (X, y, groups), (X_test, y_test, groups_test) = train_test(*rows, seed, case.n_train)
    settings = {"confidence": case.confidence, "random_state": seed, "n_jobs": n_jobs}
    searches = [
        BudgetSearchCV(each, case.max_gap, **settings).fit(X, y, sensitive_features=groups)
        for each in case.estimators
    ]
    search = max(searches, key=lambda each: (each.budget_met_, held_out_auc(each)))
    score = search.decision_function(X_test)
    profile = threshold_profile(y_test, score, sensitive_features=groups_test, parity=case.parity)
    return {
        "met": search.budget_met_,
        "held_out": search.max_gap_,
        "test": profile.max_gap,
        "broken": profile.max_gap > case.max_gap + chance(profile, y_test, groups_test),
        "auc": roc_auc_score(y_test, score),
        "accuracy": ((score > 0) == y_test).mean(),
    }


def held_out_auc(search):
    return search.path_.auc[search.path_.eta == search.eta_].item()


def chance(profile, y, groups):
    """Return 0.82·√(1/n₀ + 1/n₁) of the stratum whose gap is the largest."""
    worst = profile.gap_by_stratum.max(axis=1).argmax()
    rows = profile.parity.stratum(y) == worst
    counts = np.unique(groups[rows], return_counts=True)[1]
    return 0.82 * np.sqrt((1 / counts).sum())


def mean_error(values):
    """Return mean ± standard error."""
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.4f}"


def line(case, n_splits, n_jobs):
    """Return a line of the table."""
    rows, found = LOAD[case.data](), []
    for seed in range(n_splits):
        found.append(one_split(case, rows, seed, n_jobs))
        print(f"{case.data}, {case.name}: {seed + 1} of {n_splits}", file=sys.stderr, flush=True)
    met = [row for row in found if row["met"]]
    broken = f"{sum(row['broken'] for row in met)} of {len(met)}"
    means = (mean_error([row[key] for row in found]) for key in ("held_out", "test", "auc", "accuracy"))
    asked = [f"{case.data}, {case.name}", case.max_gap, case.confidence, n_splits]
    return [*asked, f"{len(met) / n_splits:.2f}", broken, *means]


def main() -> None:
    parser = option_parser(__doc__, "three splits of each")
    parser.add_argument("--data", choices=list(LOAD), help="only this data set")
    parser.add_argument("--jobs", type=int, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # a budget out of reach is counted, no warning needed
    chosen = [case for case in CASES if args.data in (None, case.data)]
    headings = ["data, model", "budget", "confidence", "splits", "met", "of these broken"]
    headings += ["held-out max gap", "test max gap", "AUC", "accuracy"]
    with results_file(parser, args):
        print_table(
            headings,
            (line(case, 3 if args.quick else case.n_splits, args.jobs) for case in chosen),
        )


if __name__ == "__main__":
    main()
