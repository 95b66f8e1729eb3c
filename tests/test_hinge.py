"""The method of multipliers for the hinge: linear programs and dual certificates as witnesses."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import evenrisk._estimator._hinge as hinge_module
from evenrisk import FairLinearSVC
from evenrisk._estimator._hinge import HingeSolver
from evenrisk.distances import DISTANCES
from evenrisk.exceptions import CollapseWarning
from evenrisk.losses import HINGE
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from worlds import world as plain_world

NOISE = 1e-14


def world(seed=0, weighted=True):
    """With labels that the features know something about."""
    w = plain_world(seed=seed, weighted=weighted)
    noise = np.random.default_rng(seed).logistic(size=len(w.y))
    y = (w.X @ [1, -2, 0.3, 0.5] + noise > 0.8).astype(np.int64)
    return type(w)(**{**w.__dict__, "y": y})


def objective(w, *, alpha=0.0, fit_intercept=True, distance=None, eta=0.0):
    penalty = None if distance is None else Penalty(DISTANCES[distance], w.cells())
    scores = ScoreObjective(HINGE, w.y, w.weight, penalty, eta)
    return LinearObjective(scores, w.X, alpha=alpha, fit_intercept=fit_intercept)


def solve(F, *, tol=1e-7, max_iter=5000, start=None):
    start = np.zeros(F.n_features + F.fit_intercept) if start is None else start
    solver = HingeSolver(NOISE)
    return solver(F, start, tol=tol, max_iter=max_iter), solver


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_unregularised_hinge_is_a_linear_program(seed, fit_intercept, weighted):
    """min Σ share·ξ, ξ ≥ 0, ξ ≥ 1 − m: HiGHS finds the same value."""
    w = world(weighted=weighted, seed=seed)
    F = objective(w, fit_intercept=fit_intercept)
    X1 = np.column_stack([w.X, np.ones(len(w.X))])[:, : 4 + fit_intercept]
    n, m = X1.shape
    signed = sparse.csr_array((2 * w.y - 1)[:, None] * X1)
    program = linprog(
        np.r_[np.zeros(m), w.weight / w.weight.sum()],
        A_ub=-sparse.hstack([signed, sparse.eye_array(n)]),
        b_ub=-np.ones(n),
        bounds=[(None, None)] * m + [(0, None)] * n,
    )
    found, _ = solve(F)
    assert program.status == 0
    assert found.converged
    assert found.value == pytest.approx(program.fun, rel=1e-6)
    assert found.value == F(found.theta)[0]
    assert found.value < 0.9


@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_the_multipliers_are_a_dual_certificate(alpha):
    """Σ share·a − ‖Σ share·a·sign·x‖²/2λ bounds the minimum from below where Σ share·a·sign = 0."""
    w = world()
    found, solver = solve(objective(w, alpha=alpha))
    a, sign, share = solver.multipliers, 2 * w.y - 1, w.weight / w.weight.sum()
    assert a.min() >= 0
    assert a.max() <= 1
    assert abs((share * a * sign).sum()) <= 1e-6
    bound = (share * a).sum() - ((share * a * sign) @ w.X @ (w.X.T @ (share * a * sign))) / (2 * alpha)
    assert 0 <= found.value - bound + 1e-6 < 1e-5


@pytest.mark.parametrize("distance", DISTANCES)
def test_with_a_penalty_no_direction_leads_down(distance):
    F = objective(world(), alpha=1e-3, distance=distance, eta=0.3)
    start, _ = solve(F.with_eta(0.0))
    found, _ = solve(F, start=start.theta)
    rng = np.random.default_rng(0)
    directions = np.r_[np.eye(5), rng.standard_normal((40, 5))]
    around = [
        F(found.theta + step * v)[0] for v in directions for step in (1e-2, -1e-2, 1e-3, -1e-3, 1e-4, -1e-4)
    ]
    assert found.converged
    assert found.value < F(start.theta)[0] - 1e-4
    assert min(around) > found.value * (1 - 1e-7)


def test_remembered_multipliers_save_iterations():
    F = objective(world(), alpha=1e-3, distance="gap", eta=0.5)
    first, solver = solve(F.with_eta(0.45))
    again = solver(F, first.theta, tol=1e-7, max_iter=5000)
    fresh, _ = solve(F, start=first.theta)
    assert again.value == pytest.approx(fresh.value, rel=1e-5)
    assert again.n_iter < fresh.n_iter


@pytest.mark.parametrize("distance", DISTANCES)
def test_many_parameters_do_without_the_curvature_matrix(distance, monkeypatch):
    F = objective(world(), alpha=1e-3, distance=distance, eta=0.3)
    start = solve(F.with_eta(0.0))[0].theta
    whole, _ = solve(F, start=start)
    monkeypatch.setattr(hinge_module, "FULL_CURVATURE", 4)
    monkeypatch.setattr(LinearObjective, "curvature", None)
    assert solve(F, start=start)[0].value == pytest.approx(whole.value, rel=1e-5)


def test_max_iter_is_kept_and_warned_of():
    F = objective(world(), alpha=1e-3)
    for most in (1, 2, 7, 60):
        found, _ = solve(F, tol=1e-13, max_iter=most)
        assert found.n_iter <= most
        assert found.value == F(found.theta)[0]
    assert not solve(F, max_iter=3)[0].converged


def test_separable_rows_and_rows_without_news():
    w = world(weighted=False)
    apart = type(w)(**{**w.__dict__, "y": (w.X[:, 0] > 0).astype(np.int64)})
    found, _ = solve(objective(apart))
    assert found.converged
    assert found.value < 1e-9
    same = type(w)(**{**w.__dict__, "X": np.ones((240, 2))})
    found, _ = solve(objective(same))
    share = w.y.mean()
    assert found.converged
    assert found.value == pytest.approx(2 * min(share, 1 - share), rel=1e-6)


# ---------------------------------------------------------------- where GA drives the weights to 0


def test_a_collapse_ends_at_the_best_constant_and_wastes_no_time(compas):
    """GA does not change with the scale of w: at strong eta the hinge wants w = 0, where all scores tie."""
    X, y, race = compas
    with pytest.warns(CollapseWarning, match="squeezed together"):
        models = FairLinearSVC(distance="gaussian").fit_path(X, y, [0.2, 5, 20], sensitive_features=race)
    assert models[0].coef_.any()
    for model in models[1:]:
        assert not model.coef_.any()
        assert model.intercept_[0] == -1  # 47 % recidivate
        assert model.objective_ == pytest.approx(2 * y.mean(), rel=1e-9)
        assert model.penalty_ == 0
    assert models[1].n_iter_ < 1000
    assert models[2].n_iter_ == 0


def test_a_collapsed_model_is_no_start(compas):
    X, y, race = compas
    clf = FairLinearSVC(distance="gaussian", eta=20, warm_start=True)
    with pytest.warns(CollapseWarning):
        clf.fit(X, y, sensitive_features=race)
    clf.set_params(eta=0.1).fit(X, y, sensitive_features=race)
    fresh = FairLinearSVC(distance="gaussian", eta=0.1).fit(X, y, sensitive_features=race)
    assert np.array_equal(clf.coef_, fresh.coef_)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.ReversedRankingWarning")
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds", "equal_opportunity"])
@pytest.mark.parametrize("distance", DISTANCES)
def test_every_eta_converges_on_compas(compas, distance, parity):
    X, y, race = compas
    etas = [0, 0.05, 0.2, 1, 5, 20]  # a ConvergenceWarning is an error here
    models = FairLinearSVC(parity, distance=distance).fit_path(X, y, etas, sensitive_features=race)
    assert all(model.objective_ <= 1.1 for model in models)
    assert sum(model.n_iter_ for model in models) < 2000
