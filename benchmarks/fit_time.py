"""How long a fair fit, a path and a budget search take beside scikit-learn and fairlearn.

All solvers stop at the same gradient: largest entry 1e-4, checked afterwards. Every ratio is of medians over
repeats that take turns, in one run. Groups are whole numbers: names would cost us a sort, and scikit-learn's
plain fit nothing.
"""

import warnings

import numpy as np
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import _data
from _objective import linear_objective
from _report import option_parser, print_heading, print_table, results_file, time_in_turn
from evenrisk import BudgetSearchCV, FairLogisticRegression
from rivals._fairlearn import old_pandas

ALPHA, TOL, ETA = 1e-4, 1e-4, 10.0


def adult():
    """Return Adult, one-hot and standardised."""
    X, y, sex = _data.adult()
    return _data.standardised(X), y, sex


def plain(X, y, groups, solver="lbfgs"):
    return LogisticRegression(C=1 / (ALPHA * len(y)), tol=TOL, max_iter=10_000, solver=solver).fit(X, y)


def fair(X, y, groups, **settings):
    settings = {"eta": ETA, "alpha": ALPHA, "tol": TOL} | settings
    return FairLogisticRegression(**settings).fit(X, y, sensitive_features=groups)


def exponentiated(X, y, groups):
    base = LogisticRegression(C=1 / (ALPHA * len(y)), tol=TOL, max_iter=10_000)
    with old_pandas():
        return ExponentiatedGradient(base, DemographicParity(difference_bound=0.01)).fit(
            X, y, sensitive_features=groups
        )


def objective_of(model, X, y, groups):
    """Return the objective that a fair model minimises."""
    settings = {"parity": model.parity, "distance": model.distance, "eta": model.eta, "alpha": ALPHA}
    return linear_objective(X, y, groups, **settings)


def largest_slope(model, X, y, groups):
    """Return the largest entry of the fair objective's gradient at a fitted model."""
    return np.abs(objective_of(model, X, y, groups)(np.append(model.coef_, model.intercept_))[1]).max()


def largest_plain_slope(model, X, y):
    s = 1 / (1 + np.exp(-(X @ model.coef_[0] + model.intercept_[0])))
    r = (s - y) / len(y)
    return max(np.abs(X.T @ r + ALPHA * model.coef_[0]).max(), abs(r.sum()))


def one_fit(tables, repeats):
    def lines():
        for name, load in tables:
            rows = load()
            tasks = {
                "lbfgs": lambda r=rows: plain(*r),
                "newton": lambda r=rows: plain(*r, solver="newton-cholesky"),
                "fair": lambda r=rows: fair(*r),
            }
            t, models = time_in_turn(tasks, repeats)
            reached = largest_plain_slope(models["lbfgs"], *rows[:2]), largest_slope(models["fair"], *rows)
            assert max(reached) <= 1.001 * TOL, reached
            t |= time_in_turn({"EG": lambda r=rows: exponentiated(*r)}, 1)[0]
            yield [
                name,
                *(f"{t['lbfgs']:.2f} s", models["lbfgs"].n_iter_[0], f"{t['newton']:.2f} s"),
                *(f"{t['fair']:.2f} s", models["fair"].n_iter_),
                *(f"**{t['fair'] / t['lbfgs']:.2f}**", f"{t['fair'] / t['newton']:.2f}"),
                *(f"{t['EG']:.1f} s", f"**{t['EG'] / t['fair']:.0f}**"),
            ]

    print_heading(
        f"One fair fit (gap, demographic parity, eta = {ETA:g}), gradient {TOL:g}",
        "Targets: fair / lbfgs at most 1.5 (on Adult 2.5); EG (ExponentiatedGradient) / fair at least 12.",
    )
    headings = ["rows", "scikit-learn, lbfgs", "its iterations", "newton-cholesky", "fair", "its iterations"]
    print_table([*headings, "fair / lbfgs", "fair / newton-cholesky", "EG", "EG / fair"], lines())


def path_and_search(tables, repeats):
    etas = np.geomspace(0.1, ETA, 20)

    def lines():
        for name, load in tables:
            X, y, groups = load()
            clf = FairLogisticRegression(alpha=ALPHA, tol=TOL)
            search = BudgetSearchCV(clf, max_gap=0.05, random_state=0)
            tasks = {
                "plain": lambda X=X, y=y: plain(X, y, None),
                "fit": lambda X=X, y=y, g=groups: fair(X, y, g),
                "path": lambda X=X, y=y, g=groups, clf=clf: clf.fit_path(X, y, etas, sensitive_features=g),
                "search": lambda X=X, y=y, g=groups, search=search: search.fit(X, y, sensitive_features=g),
            }
            t, _ = time_in_turn(tasks, repeats)
            yield [
                *(name, f"{t['fit']:.2f} s", f"{t['path']:.2f} s", f"**{t['path'] / t['fit']:.1f}**"),
                f"{t['search']:.1f} s ({len(search.path_)} eta)",
                f"**{t['search'] / t['plain']:.0f}**",
            ]

    print_heading(
        "A warm path of 20 eta (0.1 to 10) and a budget search (5 folds, 0.05)",
        "Targets: path / fit at most 8; search / scikit-learn's fit at most 60.",
    )
    headings = ["rows", "one fit", "path", "path / fit", "search", "search / scikit-learn's fit"]
    print_table(headings, lines())


def iterations(etas):
    """Print how many iterations our solvers and SciPy's L-BFGS-B take from the same unpenalised fit."""
    X, y, sex = adult()
    start = FairLogisticRegression(eta=0, alpha=ALPHA, tol=TOL).fit(X, y)

    def lines():
        for eta in etas:
            settings = {"parity": "equalized_odds", "eta": eta}
            newton, lbfgs = (fair(X, y, sex, solver=solver, **settings) for solver in ("newton", "lbfgs"))
            scipys = minimize(
                objective_of(newton, X, y, sex),
                np.append(start.coef_, start.intercept_),
                jac=True,
                method="L-BFGS-B",
                options={"gtol": TOL, "ftol": 0, "maxiter": 20_000, "maxfun": 40_000},
            )
            values = ", ".join(f"{value:.5f}" for value in (newton.objective_, lbfgs.objective_, scipys.fun))
            yield [f"{eta:g}", newton.n_iter_, lbfgs.n_iter_, scipys.nit, values]

    print_heading(
        f"Adult, equalized odds, gap: iterations of the whole path to a gradient of {TOL:g} (target: ≤ 60)"
    )
    print_table(["eta", "newton", "lbfgs (ours)", "L-BFGS-B (SciPy)", "objectives"], lines())


def main() -> None:
    parser = option_parser(__doc__, "30,000 rows instead of a million")
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # a strong penalty may end under the majority rate
    sizes = [(30_000, 40)] if args.quick else [(300_000, 40), (1_000_000, 50)]
    made = [(f"{n:,} × {d}", lambda n=n, d=d: _data.collinear(n, d)) for n, d in sizes]
    with results_file(parser, args):
        one_fit([*made, ("Adult, one-hot", adult)], 3 if args.quick else 5)
        path_and_search([*made[:1], ("Adult, one-hot", adult)], 1 if args.quick else 3)
        iterations((3, 10) if args.quick else (3, 10, 30, 100))


if __name__ == "__main__":
    main()
