"""Fair boosted trees and networks beside plain ones: time for the same rounds, and whether they go down.

Time: median ratio of pairs of fits taken in turn, on Adult (one-hot, 70 %) and on 1,000,000 synthetic rows of
20 features, with one thread and with two. The objective: 500 rounds on Adult from η = 1 to 100.
"""

import argparse
import statistics
import time
import warnings

import lightgbm
import numpy as np
import xgboost

from _machine import describe
from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier
from evenrisk.neural_network import FairMLPClassifier
from frontier import adult, synthetic
from quality import split


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


def ratios(name, plain, fair, data, rounds, threads, repeats):
    """One line of the table."""
    X, y, groups = data
    pairs = [
        (
            seconds(plain(rounds, threads), X, y),
            seconds(fair(rounds, threads), X, y, sensitive_features=groups),
        )
        for _ in range(repeats + 1)
    ][1:]  # the first pair warms caches up
    a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(fair / plain for plain, fair in pairs)
    print(
        f"| {name} | {len(y):,} × {X.shape[1]} | {rounds} | {threads} | {a:.2f} | {b:.2f} | {ratio:.2f} |",
        flush=True,
    )


def times(quick):
    train, _ = split(*adult(), 0)
    million = synthetic(100_000 if quick else 1_000_000, 20)
    repeats = 1 if quick else 3
    print("\n| model | rows | rounds | threads | plain, s | fair, s | ratio |\n|---|---|---|---|---|---|---|")
    for data, rounds in ((train, 200), (million, 50)):
        for threads in (1, 2):
            ratios("LightGBM", plain_lightgbm, fair_lightgbm, data, rounds, threads, repeats)
            ratios("XGBoost", plain_xgboost, fair_xgboost, data, rounds, threads, repeats)
    epochs(train, repeats)


def epochs(train, repeats):
    """A network's epoch, against the same one without a penalty."""
    X, y, groups = train
    print("\n| network | dtype | plain epoch, ms | fair epoch, ms | ratio |\n|---|---|---|---|---|")
    for sizes in ((64,), (64, 64), (256, 256)):
        for dtype in (np.float64, np.float32):
            rows, pairs = X.astype(dtype), []
            for _ in range(2 * repeats + 1):
                common = {"hidden_layer_sizes": sizes, "solver": "adam", "max_iter": 10, "random_state": 0}
                fits = [FairMLPClassifier(eta=eta, n_iter_no_change=99, **common) for eta in (0, 10)]
                pairs.append([seconds(fit, rows, y, sensitive_features=groups) / 10 for fit in fits])
            a, b = (1e3 * statistics.median(column) for column in zip(*pairs[1:], strict=True))
            ratio = statistics.median(fair / plain for plain, fair in pairs[1:])
            print(f"| {sizes} | {np.dtype(dtype)} | {a:.0f} | {b:.0f} | {ratio:.2f} |", flush=True)


def falls():
    """The largest change of the training objective from one round to the next."""
    (X, y, groups), _ = split(*adult(), 0)
    print("\n| model | parity | distance | η | first | last | largest change in 500 rounds |")
    print("|---" * 7 + "|")
    for kind in (FairLGBMClassifier, FairXGBClassifier):
        for parity in ("demographic_parity", "equalized_odds"):
            for distance in ("gap", "histogram"):
                for eta in (1, 10, 100):
                    model = kind(
                        parity, distance=distance, eta=eta, n_estimators=500, learning_rate=0.1, n_jobs=1
                    )
                    curve = model.fit(X, y, sensitive_features=groups).objective_curve_
                    told = f"{kind.__name__} | {parity.replace('_', ' ')} | {distance} | {eta}"
                    change = np.diff(curve).max()
                    print(f"| {told} | {curve[0]:.4f} | {curve[-1]:.4f} | {change:+.1e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 rows, one repeat, no 500 rounds")
    parser.add_argument("--only", choices=("times", "falls"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(describe())
    if args.only != "falls":
        times(args.quick)
    if args.only != "times" and not args.quick:
        falls()
