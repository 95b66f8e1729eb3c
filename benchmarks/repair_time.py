"""How long a repair takes: a path beside the cross-fitting, a budget search beside a fair LightGBM's.

Adult, all rows, demographic parity, LightGBM as it comes (100 trees). The path is a second call with
`warm_start`, so that the base models are there; the rest of the first call is their fits and the choice of
the plane model's size.
"""

import warnings

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.base import clone

from _data import adult
from _report import option_parser, print_heading, print_table, results_file, time_in_turn
from evenrisk import BlindRepair, BudgetSearchCV, FairLGBMClassifier, GapDistance

ETAS = np.geomspace(0.1, 100, 20)
DISTANCES = {"gap": "gap", "worst gap": GapDistance(power=8)}


def trees():
    return LGBMClassifier(verbosity=-1)


def path_beside_cross_fitting(rows, repeats):
    X, y, groups = rows

    def lines():
        for name, distance in DISTANCES.items():
            repair = BlindRepair(trees(), distance=distance, eta=0, warm_start=True, random_state=0)
            cold = {"fit": lambda repair=repair: clone(repair).fit(X, y, sensitive_features=groups)}
            first, fitted = time_in_turn(cold, repeats)
            warm = fitted["fit"]
            second, _ = time_in_turn(
                {
                    "again": lambda warm=warm: warm.fit(X, y, sensitive_features=groups),
                    "path": lambda warm=warm: warm.fit_path(X, y, ETAS, sensitive_features=groups),
                },
                repeats,
            )
            base = first["fit"] - second["again"]
            yield [name, f"{base:.1f} s", f"{second['path']:.1f} s", f"**{second['path'] / base:.2f}**"]

    print_heading(
        f"A path of {len(ETAS)} eta beside the cross-fitting, {len(y):,} rows, median of {repeats}",
        "Target: at most 0.5.",
    )
    print_table(["distance", "cross-fitting", "path", "path / cross-fitting"], lines())


def search_beside_fair_trees(rows):
    X, y, groups = rows
    searches = {
        "BlindRepair(LGBMClassifier())": BudgetSearchCV(
            BlindRepair(trees(), random_state=0), 0.05, random_state=0
        ),
        "FairLGBMClassifier()": BudgetSearchCV(FairLGBMClassifier(random_state=0), 0.05, random_state=0),
    }
    tasks = {
        name: lambda search=search: search.fit(X, y, sensitive_features=groups)
        for name, search in searches.items()
    }
    t, found = time_in_turn(tasks, 1)
    print_heading(
        "A search for a max gap of 0.05 (5 folds), once each",
        "Target: at most a third of the fair LightGBM's.",
    )
    print_table(
        ["estimator", "time", "eta fitted", "ratio"],
        (
            [
                name,
                f"{t[name]:.0f} s",
                len(found[name].path_),
                f"**{t[name] / t['FairLGBMClassifier()']:.2f}**",
            ]
            for name in searches
        ),
    )


def main() -> None:
    parser = option_parser(__doc__, "3,000 rows, once")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    rows = adult()
    if args.quick:
        some = np.random.default_rng(0).permutation(len(rows[1]))[:3000]
        rows = tuple(column[some] for column in rows)
    with results_file(parser, args):
        path_beside_cross_fitting(rows, 1 if args.quick else 3)
        search_beside_fair_trees(rows)


if __name__ == "__main__":
    main()
