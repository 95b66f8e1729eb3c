"""Newton and L-BFGS from the same start: the same minimum, on real rows."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from evenrisk import FairKernelSVC, FairLinearSVC, FairLogisticRegression
from evenrisk._estimator import _path as path_module
from evenrisk.datasets import load_adult, load_compas
from evenrisk.distances import DISTANCES, GapDistance
from evenrisk.objective import LinearObjective
from evenrisk.parity import PARITIES

ETAS = {"gap": 5.0, "histogram": 0.2, "gaussian": 0.2}
# COMPAS has a dozen priors and ages: its many ties leave several minima near one another
SEPARATED = {("compas", "gap", "equal_opportunity"): 1e-3}


def standardised(X, y, group, some=slice(None)):
    X = X.to_numpy(dtype=float)[some]
    sd = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1), y.to_numpy()[some], group.to_numpy()[some]


@pytest.fixture(scope="module")
def rows():
    """COMPAS, Adult, and 12,000 people of it."""
    adult = load_adult(one_hot=True)
    some = np.random.default_rng(0).permutation(len(adult.y))[:12_000]
    return {
        "compas": standardised(*load_compas()),
        "adult": standardised(*adult, some),
        "all of adult": standardised(*adult),
    }


def fit(rows, solver, parity="demographic_parity", weight=None, **settings):
    X, y, group = rows
    clf = FairLogisticRegression(parity, solver=solver, alpha=1e-4, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)  # strong penalties end under the majority rate
        return clf.fit(X, y, weight, sensitive_features=group)


def steepness(rows, clf):
    """The largest entry of the objective's gradient at the fit, from a problem set up afresh."""
    X, y, group = rows
    problem = clf._problem(clf._check_rows(X, y, None, group))
    return np.abs(problem(np.append(clf.coef_, clf.intercept_))[1]).max()


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("name", ["compas", "adult"])
def test_newton_and_lbfgs_end_at_the_same_objective(rows, name, distance, parity):
    settings = {"distance": distance, "eta": ETAS[distance], "parity": parity}
    quasi, second = (fit(rows[name], solver, **settings) for solver in ("lbfgs", "newton"))
    apart = SEPARATED.get((name, distance, parity), 1e-4)
    assert second.objective_ == pytest.approx(quasi.objective_, rel=apart)
    for clf in (quasi, second):
        assert steepness(rows[name], clf) <= clf.tol
    assert second.n_iter_ <= quasi.n_iter_ + 5


def test_a_strong_penalty_takes_newton_a_fraction_of_the_steps(rows):
    settings = {"eta": 10, "parity": "equalized_odds", "tol": 1e-4}
    assert fit(rows["all of adult"], "newton", **settings).n_iter_ <= 60
    assert fit(rows["all of adult"], "lbfgs", **settings).n_iter_ > 60


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_weights_and_sparse_rows(rows, solver, distance):
    X, y, race = (a[:1500] for a in rows["compas"])
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    settings = {"distance": distance, "eta": ETAS[distance], "tol": 1e-8}
    weighted = fit((X, y, race), solver, weight=weight, **settings)
    times = weight.astype(int)
    repeated = fit((X.repeat(times, 0), y.repeat(times), race.repeat(times)), solver, **settings)
    stored = fit((sparse.csr_array(X), y, race), solver, weight=weight, **settings)
    for other in (repeated, stored):
        assert other.objective_ == pytest.approx(weighted.objective_, rel=1e-9)
        assert other.coef_ == pytest.approx(weighted.coef_, abs=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_a_penalty_newton_is_scikit_learns(rows, weighted):
    X, y, _ = rows["adult"]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    ours = FairLogisticRegression(eta=0, alpha=1e-4, solver="newton", tol=1e-8).fit(X, y, weight)
    theirs = LogisticRegression(C=1 / (1e-4 * weight.sum()), solver="newton-cholesky", tol=1e-8)
    theirs.fit(X, y, weight)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-4)  # of 0.6: theirs stops earlier


@pytest.mark.parametrize("machine", [FairLinearSVC, FairKernelSVC])
@pytest.mark.parametrize("distance", DISTANCES)
def test_machines_with_the_squared_hinge(rows, machine, distance):
    X, y, race = (a[:800] for a in rows["compas"])
    settings = {"distance": distance, "eta": 0.1, "loss": "squared_hinge"}
    values = [
        machine(solver=solver, **settings).fit(X, y, sensitive_features=race).objective_
        for solver in ("lbfgs", "newton", "auto")
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-4)


def test_auto_takes_newton_where_it_pays(rows, capsys, monkeypatch):
    def solvers():
        fit(tuple(a[:500] for a in rows["compas"]), "auto", eta=1, verbose=1)
        lines = capsys.readouterr().err.splitlines()
        return {line.split()[0] for line in lines} - {"eta"}

    assert solvers() == {"lbfgs", "newton"}  # the unpenalised fit needs no second order
    for limit in ("FEW_FEATURES", "FEW_PAIRS"):
        with monkeypatch.context() as patch:
            patch.setattr(path_module, limit, 0)
            assert solvers() == {"lbfgs"}


@pytest.mark.parametrize(("age", "n_matrices"), [(path_module.RENEW - 1, 0), (path_module.RENEW, 1)])
def test_a_kept_matrix_is_taken_again_when_it_is_old_or_at_another_theta(rows, monkeypatch, age, n_matrices):
    taken = []
    parts = LinearObjective.curvature_parts
    monkeypatch.setattr(LinearObjective, "curvature_parts", lambda *a: taken.append(1) or parts(*a))
    X, y, group = (a[:500] for a in rows["compas"])
    clf = FairLogisticRegression(eta=1)
    problem = clf._problem(clf._check_rows(X, y, None, group))
    kept = path_module.CurvatureCache(problem)
    start = np.full(problem.n_parameters, 0.1)
    kept.parts, kept.n_iter_since, kept.last_theta = parts(problem, start), age, start.copy()
    kept.minimise(problem, start, tol=1e-3, max_iter=1)
    assert len(taken) == n_matrices
    kept.n_iter_since = 0
    kept.minimise(problem, start + 0.1, tol=1e-3, max_iter=1)
    assert len(taken) == n_matrices + 1


def test_a_kept_matrix_serves_the_start_of_a_point_alone(rows, monkeypatch):
    """Whatever else a solver asks for at that point is at another θ."""
    X, y, group = (a[:300] for a in rows["compas"])
    clf = FairLogisticRegression(eta=2)
    problem = clf._problem(clf._check_rows(X, y, None, group))
    start = np.full(problem.n_parameters, 0.1)
    kept, found = path_module.CurvatureCache(problem), []

    def two_matrices(fun, theta, *, curvature):
        found.extend(curvature(at) for at in (theta, theta + 0.5))
        return path_module.Solution(theta, 0.0, 0.0, 1, converged=True)

    monkeypatch.setattr(path_module, "newton", two_matrices)
    kept.parts, kept.last_theta = problem.curvature_parts(start), start.copy()
    kept.minimise(problem, start)
    for matrix, at in zip(found, (start, start + 0.5), strict=True):
        loss_curvature, gram = problem.curvature_parts(at)
        assert matrix == pytest.approx(loss_curvature + 2 * 2 * gram + kept.damping, rel=1e-12)
    assert np.abs(found[1] - found[0]).max() > 1e-3


@pytest.mark.parametrize(("etas", "n_intermediate"), [([1, 3.9], 0), ([1, 4.1], 1), ([0.1, 20], 4)])
def test_a_path_has_intermediate_points_where_the_next_step_would_be_too_wide(
    rows, capsys, etas, n_intermediate
):
    X, y, group = (a[:300] for a in rows["compas"])
    FairLogisticRegression(verbose=1, tol=1e-3).fit_path(X, y, etas, sensitive_features=group)
    seen = [
        float(line.split()[1]) for line in capsys.readouterr().err.splitlines() if line.startswith("eta ")
    ]
    assert seen[0] == 0
    assert sum(etas[0] < eta < etas[1] for eta in seen) == n_intermediate


def test_a_path_computes_few_matrices(rows, monkeypatch):
    """Points of a path share the parts of the matrix: fewer are computed than there are values of eta."""
    taken = []
    parts = LinearObjective.curvature_parts
    monkeypatch.setattr(LinearObjective, "curvature_parts", lambda *a: taken.append(1) or parts(*a))
    X, y, sex = rows["adult"]
    clf = FairLogisticRegression(alpha=1e-4, tol=1e-4)
    models = clf.fit_path(X, y, np.geomspace(0.1, 10, 20), sensitive_features=sex)
    assert sum(model.n_iter_ for model in models) > 20
    assert 1 <= len(taken) <= 8


def test_rare_columns_do_not_run_off(rows):
    """Countries with one or two people each, and no ridge: far out on the sigmoid nothing bends any more."""
    X, y, group = rows["adult"]
    some = np.random.default_rng(0).permutation(len(y))[:4000]
    X = X[some] / np.where(X[some].std(axis=0) > 0, X[some].std(axis=0), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        clf = FairLogisticRegression(eta=100.0, solver="newton").fit(
            X, y[some], sensitive_features=group[some]
        )
    assert np.abs(clf.coef_).max() < 20
    assert np.abs(clf.decision_function(X)).max() < 200


def test_the_rank_scale_is_served_too(rows):
    settings = {"distance": GapDistance(scale="rank"), "eta": 0.3}
    quasi, second = (fit(rows["adult"], solver, **settings) for solver in ("lbfgs", "newton"))
    assert second.objective_ == pytest.approx(quasi.objective_, rel=1e-4)
    assert second.n_iter_ < quasi.n_iter_
