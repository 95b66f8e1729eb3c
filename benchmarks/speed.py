"""What fairness costs in time: one fair fit, a path and a budget search, beside scikit-learn and fairlearn.

All solvers stop at the same gradient: largest entry 1e-4, checked afterwards. Every ratio is of medians over
repeats that take turns, in one run. Groups are whole numbers; reading strings costs scikit-learn's user
nothing and ours a sort.
"""

import argparse
import sys
import time
import warnings
from statistics import median

import numpy as np
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from _machine import describe
from evenrisk import BudgetSearchCV, FairLogisticRegression
from evenrisk.datasets import load_adult
from rivals._fairlearn import old_pandas

ALPHA, TOL, ETA = 1e-4, 1e-4, 10.0


def synthetic(n, d, seed=0):
    """Correlated, skewed columns: neighbours correlate at 0.95, every second one is exponentiated."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.35).astype(np.int64)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.95 * X[:, j - 1] + (1 - 0.95**2) ** 0.5 * X[:, j]
    X[:, : d // 3] += 0.4 * group[:, None]
    g = X @ (rng.normal(size=d) / d**0.5) - 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-g))).astype(np.int64)
    np.exp(0.8 * X[:, ::2], out=X[:, ::2])
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X, y, group


def adult():
    X, y, sex = load_adult(one_hot=True)
    X, sd = X.to_numpy(dtype=float), X.to_numpy(dtype=float).std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1)
    return X, y.to_numpy(), (sex.to_numpy() == "Male").astype(np.int64)


def plain(X, y, group, solver="lbfgs"):
    return LogisticRegression(C=1 / (ALPHA * len(y)), tol=TOL, max_iter=10_000, solver=solver).fit(X, y)


def fair(X, y, group, **settings):
    settings = {"eta": ETA, "alpha": ALPHA, "tol": TOL} | settings
    return FairLogisticRegression(**settings).fit(X, y, sensitive_features=group)


def exponentiated(X, y, group):
    base = LogisticRegression(C=1 / (ALPHA * len(y)), tol=TOL, max_iter=10_000)
    with old_pandas():
        return ExponentiatedGradient(base, DemographicParity(difference_bound=0.01)).fit(
            X, y, sensitive_features=group
        )


def timed(repeats, *tasks):
    """Median seconds of each task, taking turns, and what each gave last."""
    seconds = [[] for _ in tasks]
    results = [None] * len(tasks)
    for _ in range(repeats):
        for i, task in enumerate(tasks):
            start = time.perf_counter()
            results[i] = task()
            seconds[i].append(time.perf_counter() - start)
    return [median(s) for s in seconds], results


def steepest(model, X, y, group):
    """Largest entry of the fair objective's gradient at a fitted model."""
    checked = FairLogisticRegression(model.parity, distance=model.distance, eta=model.eta, alpha=ALPHA)
    objective = checked._problem(checked._check_fit(X, y, None, group)).objective
    return np.abs(objective(np.append(model.coef_, model.intercept_))[1]).max()


def steepest_plain(model, X, y):
    s = 1 / (1 + np.exp(-(X @ model.coef_[0] + model.intercept_[0])))
    r = (s - y) / len(y)
    return max(np.abs(X.T @ r + ALPHA * model.coef_[0]).max(), abs(r.sum()))


def one_fit(tables, repeats):
    print(f"\n### One fair fit (gap, demographic parity, eta = {ETA:g}), gradient {TOL:g}\n")
    head = ("rows", "scikit-learn, lbfgs", "its iterations", "newton-cholesky", "fair", "its iterations")
    print(f"| {' | '.join(head)} | fair / lbfgs | fair / newton-cholesky | EG | EG / fair |\n|{'---|' * 10}")
    for name, load in tables:
        rows = load()
        (base, newton, ours), (model, _, fitted) = timed(
            repeats,
            lambda r=rows: plain(*r),
            lambda r=rows: plain(*r, solver="newton-cholesky"),
            lambda r=rows: fair(*r),
        )
        reached = steepest_plain(model, *rows[:2]), steepest(fitted, *rows)
        assert max(reached) <= 1.001 * TOL, reached
        (theirs,), _ = timed(1, lambda r=rows: exponentiated(*r))
        print(
            f"| {name} | {base:.2f} s | {model.n_iter_[0]} | {newton:.2f} s | {ours:.2f} s "
            f"| {fitted.n_iter_} | **{ours / base:.2f}** | {ours / newton:.2f} | {theirs:.1f} s "
            f"| **{theirs / ours:.0f}** |",
            flush=True,
        )


def path_and_budget(tables, repeats):
    print("\n### A warm path of 20 eta (0.1 to 10) and a budget search (5 folds, 0.05)\n")
    print("| rows | one fit | path | path / fit | search | search / scikit-learn's fit |")
    print("|---|---|---|---|---|---|")
    for name, load in tables:
        print(f"| {name} | {path_and_budget_of(*load(), repeats)} |", flush=True)


def path_and_budget_of(X, y, group, repeats) -> str:
    clf = FairLogisticRegression(alpha=ALPHA, tol=TOL)
    search = BudgetSearchCV(clf, max_gap=0.05, random_state=0)
    etas = np.geomspace(0.1, ETA, 20)
    (base, one, path, found), _ = timed(
        repeats,
        lambda: plain(X, y, group),
        lambda: fair(X, y, group),
        lambda: clf.fit_path(X, y, etas, sensitive_features=group),
        lambda: search.fit(X, y, sensitive_features=group),
    )
    searched = f"{found:.1f} s ({len(search.path_)} eta) | **{found / base:.0f}**"
    return f"{one:.2f} s | {path:.2f} s | **{path / one:.1f}** | {searched}"


def iterations(etas):
    """SciPy's L-BFGS-B, as it comes, on the same objective from the same unpenalised fit."""
    print(f"\n### Adult, equalized odds, gap: iterations of the whole path to a gradient of {TOL:g}\n")
    print("| eta | newton | lbfgs (ours) | L-BFGS-B (SciPy) | objectives |\n|---|---|---|---|---|")
    X, y, sex = adult()
    start = FairLogisticRegression(eta=0, alpha=ALPHA, tol=TOL).fit(X, y)
    for eta in etas:
        settings = {"parity": "equalized_odds", "eta": eta}
        newton, lbfgs = (fair(X, y, sex, solver=solver, **settings) for solver in ("newton", "lbfgs"))
        objective = newton._problem(newton._check_fit(X, y, None, sex)).objective
        plain = minimize(
            objective,
            np.append(start.coef_, start.intercept_),
            jac=True,
            method="L-BFGS-B",
            options={"gtol": TOL, "ftol": 0, "maxiter": 20_000, "maxfun": 40_000},
        )
        values = ", ".join(f"{value:.5f}" for value in (newton.objective_, lbfgs.objective_, plain.fun))
        print(f"| {eta:g} | {newton.n_iter_} | {lbfgs.n_iter_} | {plain.nit} | {values} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="30,000 rows instead of a million")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # a strong penalty may end under the majority rate
    print(describe(), flush=True)
    sizes = [(30_000, 40)] if args.quick else [(300_000, 40), (1_000_000, 50)]
    made = [(f"{n:,} × {d}", lambda n=n, d=d: synthetic(n, d)) for n, d in sizes]
    repeats = 3 if args.quick else 5
    one_fit([*made, ("Adult, one-hot", adult)], repeats)
    path_and_budget([*made[:1], ("Adult, one-hot", adult)], 1 if args.quick else 3)
    iterations((3, 10) if args.quick else (3, 10, 30, 100))
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
