"""How long fair boosted trees and networks take beside plain ones.

Median ratio of pairs of fits taken in turn, η = 10 under demographic parity, on Adult (one-hot, 70 %) and on
1,000,000 synthetic rows of 20 features, with one thread and with two.
"""

import statistics
import time
import warnings

import lightgbm
import numpy as np
import xgboost

from _data import adult, skewed, train_test
from _report import option_parser, print_heading, print_table, results_file
from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier
from evenrisk.neural_network import FairMLPClassifier


def plain_lightgbm(rounds, threads):
    return lightgbm.LGBMClassifier(n_estimators=rounds, n_jobs=threads, verbosity=-1)


def plain_xgboost(rounds, threads):
    return xgboost.XGBClassifier(n_estimators=rounds, n_jobs=threads)


def fair_lightgbm(rounds, threads):
    return FairLGBMClassifier(eta=10, n_estimators=rounds, n_jobs=threads)


def fair_xgboost(rounds, threads):
    return FairXGBClassifier(eta=10, n_estimators=rounds, n_jobs=threads)


def seconds(model, X, y, **more):
    start = time.perf_counter()
    model.fit(X, y, **more)
    return time.perf_counter() - start


def ratio(pairs):
    """Return the median seconds of each of a pair, and the median of their ratios."""
    plain, fair = (statistics.median(column) for column in zip(*pairs, strict=True))
    return plain, fair, statistics.median(fair / plain for plain, fair in pairs)


def boosters(tables, repeats):
    kinds = {"LightGBM": (plain_lightgbm, fair_lightgbm), "XGBoost": (plain_xgboost, fair_xgboost)}

    def lines():
        for (X, y, groups), rounds in tables:
            for threads in (1, 2):
                for name, (plain, fair) in kinds.items():
                    pairs = [
                        (
                            seconds(plain(rounds, threads), X, y),
                            seconds(fair(rounds, threads), X, y, sensitive_features=groups),
                        )
                        for _ in range(repeats + 1)
                    ][1:]  # the first pair warms caches up
                    figures = (f"{figure:.2f}" for figure in ratio(pairs))
                    yield [name, f"{len(y):,} × {X.shape[1]}", rounds, threads, *figures]

    print_heading("Boosted trees", "Target: LightGBM ≤ 2.5.")
    print_table(["model", "rows", "rounds", "threads", "plain, s", "fair, s", "ratio"], lines())


def networks(X, y, groups, repeats):
    def lines():
        for sizes in ((64,), (64, 64), (256, 256)):
            for dtype in (np.float64, np.float32):
                rows, pairs = X.astype(dtype), []
                for _ in range(2 * repeats + 1):
                    common = {
                        "hidden_layer_sizes": sizes,
                        "solver": "adam",
                        "max_iter": 10,
                        "random_state": 0,
                    }
                    fits = [FairMLPClassifier(eta=eta, n_iter_no_change=99, **common) for eta in (0, 10)]
                    pairs.append([seconds(fit, rows, y, sensitive_features=groups) / 10 for fit in fits])
                plain, fair, quotient = ratio(pairs[1:])
                yield [sizes, np.dtype(dtype), f"{1e3 * plain:.0f}", f"{1e3 * fair:.0f}", f"{quotient:.2f}"]

    print_heading("Networks", f"An epoch on {len(y):,} rows of Adult. Target: ≤ 1.4.")
    print_table(["network", "dtype", "plain epoch, ms", "fair epoch, ms", "ratio"], lines())


def main() -> None:
    parser = option_parser(__doc__, "100,000 synthetic rows, one repeat")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    train, _ = train_test(*adult(), 0)
    many = skewed(100_000 if args.quick else 1_000_000, 20)
    repeats = 1 if args.quick else 3
    with results_file(parser, args):
        boosters(((train, 200), (many, 50)), repeats)
        networks(*train, repeats)


if __name__ == "__main__":
    main()
