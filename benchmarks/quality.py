"""What fairness costs: accuracy and AUC at a given max gap on unseen people, along each split's η path."""

import warnings
from itertools import pairwise

import numpy as np
from sklearn.metrics import roc_auc_score

from _machine import describe
from evenrisk import FairLogisticRegression, GapDistance, threshold_profile
from evenrisk.datasets import load_adult, load_compas

COMPAS_PATHS = {
    "gap": ("gap", np.geomspace(0.5, 50, 25)),
    "gap, rank scale": (GapDistance(scale="rank"), np.geomspace(0.1, 50, 25)),
    "histogram": ("histogram", np.geomspace(0.02, 2, 25)),
    "gaussian": ("gaussian", np.geomspace(0.02, 2, 25)),
}
ADULT_ETAS = np.geomspace(0.3, 300, 25)


def split(X, y, groups, seed):
    """70/30 at random, standardised on the training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [round(0.3 * len(order))])
    mean, sd = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(sd > 0, sd, 1)
    return (X[train], y[train], groups[train]), (X[test], y[test], groups[test])


def measure(model, X, y, groups, parity):
    s = model.predict_proba(X)[:, 1]
    profile = threshold_profile(y, s, sensitive_features=groups, parity=parity)
    return {
        "accuracy": ((s > 0.5) == y).mean(),
        "auc": roc_auc_score(y, s),
        "gap": profile.at(0.5),
        "max_gap": profile.max_gap,
    }


def path(train, test, etas, parity="demographic_parity", **settings):
    """Measure every point of a warm path over η, the unpenalised fit first."""
    X, y, groups = train
    model = FairLogisticRegression(parity, eta=0, warm_start=True, **settings)
    points = []
    for eta in (0, *etas):
        model.set_params(eta=eta).fit(X, y, sensitive_features=groups)
        points.append(measure(model, *test, parity))
    return points


def at_gap(points, target, column):
    """Interpolate along the path where max gap first comes down to the target; NaN if it never does."""
    for before, after in pairwise(points):
        if after["max_gap"] <= target:
            share = (before["max_gap"] - target) / (before["max_gap"] - after["max_gap"])
            return before[column] + share * (after[column] - before[column])
    return np.nan


def show(values):
    return f"{np.nanmean(values):.4f} ± {np.nanstd(values, ddof=1):.4f}" + (
        f" ({np.isnan(values).sum()} splits never reach it)" if np.isnan(values).any() else ""
    )


def compas(n_splits=20):
    X, y, race = load_compas()
    X, y, race = X.to_numpy(), y.to_numpy(), race.to_numpy()
    splits = [split(X, y, race, seed) for seed in range(n_splits)]
    print(f"\n### COMPAS, {n_splits} splits: plain logistic regression\n")
    for parity in ("demographic_parity", "equalized_odds"):
        plain = [path(train, test, [], parity)[0] for train, test in splits]
        print(f"* {parity}: " + ", ".join(f"{key} {show([p[key] for p in plain])}" for key in plain[0]))
    print(f"\n### COMPAS, {n_splits} splits, demographic parity, at a test max gap of .10\n")
    print("| distance | accuracy | AUC |\n|---|---|---|")
    for name, (distance, etas) in COMPAS_PATHS.items():
        paths = [path(train, test, etas, distance=distance) for train, test in splits]
        columns = [show([at_gap(p, 0.10, key) for p in paths]) for key in ("accuracy", "auc")]
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


def adult(n_splits=5):
    X, y, sex = load_adult(one_hot=True)
    X, y, sex = X.to_numpy(), y.to_numpy(), sex.to_numpy()
    print(f"\n### Adult, {n_splits} splits, demographic parity, gap distance, alpha = 1e-4\n")
    paths = [path(*split(X, y, sex, seed), ADULT_ETAS, alpha=1e-4) for seed in range(n_splits)]
    print(
        f"Plain: AUC {show([p[0]['auc'] for p in paths])}, max gap {show([p[0]['max_gap'] for p in paths])}\n"
    )
    print("| test max gap | AUC | accuracy |\n|---|---|---|")
    for target in (0.105, 0.055, 0.035):
        columns = [show([at_gap(p, target, key) for p in paths]) for key in ("auc", "accuracy")]
        print(f"| {target} | {' | '.join(columns)} |")


def solvers():
    """L-BFGS against the paper's momentum descent, from the same start: relative difference of objectives."""
    X, y, race = load_compas()
    X = ((X - X.mean()) / X.std()).to_numpy()
    print("\n### COMPAS: momentum's objective over L-BFGS's, minus 1 (20,000 steps, rate 0.1 → 0.0001)\n")
    print("| distance | parity | η | L-BFGS | momentum | difference |\n|---|---|---|---|---|---|")
    for distance, etas in (("gap", (1, 5, 20)), ("histogram", (0.1, 0.4, 2)), ("gaussian", (0.1, 0.4, 2))):
        for parity in ("demographic_parity", "equalized_odds"):
            for eta in etas:
                values = []
                for solver, steps in (("lbfgs", 1000), ("momentum", 20_000)):
                    model = FairLogisticRegression(
                        parity, distance=distance, eta=eta, solver=solver, max_iter=steps
                    )
                    values.append(model.fit(X, y, sensitive_features=race).objective_)
                print(
                    f"| {distance} | {parity} | {eta} | {values[0]:.6f} | {values[1]:.6f} "
                    f"| {values[1] / values[0] - 1:+.1e} |",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # strong ends of the paths collapse, as they should
    print(describe())
    compas()
    adult()
    solvers()
