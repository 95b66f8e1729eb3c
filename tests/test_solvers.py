"""Solvers on functions whose minimum is known."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from evenrisk._estimator import intermediate_etas
from evenrisk.solvers import RENEW, lbfgs, momentum, newton
from evenrisk.solvers.descent import ridged_inverse

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((6, 6)) * [1, 1, 1, 0.1, 0.1, 3]
A, MINIMUM = ROOT.T @ ROOT + 0.01 * np.eye(6), RNG.standard_normal(6)


def quadratic(theta):
    return 0.5 * (theta - MINIMUM) @ A @ (theta - MINIMUM) + 3.0, A @ (theta - MINIMUM)


def test_lbfgs_finds_the_minimum_to_the_last_digits():
    found = lbfgs(quadratic, np.zeros(6), tol=1e-12)
    assert found.converged
    assert found.theta == pytest.approx(MINIMUM, abs=1e-8)
    assert found.value == pytest.approx(3.0, rel=1e-14)


@pytest.mark.parametrize("preconditioner", [np.linalg.inv(A), 1 / np.diag(A)], ids=["matrix", "diagonal"])
def test_a_preconditioner_saves_iterations_and_changes_nothing_else(preconditioner):
    plain, helped = (
        lbfgs(quadratic, np.zeros(6), tol=1e-9, preconditioner=m) for m in (None, preconditioner)
    )
    assert helped.theta == pytest.approx(plain.theta, abs=1e-6)
    assert helped.n_iter <= plain.n_iter
    if preconditioner.ndim == 2:
        assert helped.n_iter <= 4


def test_lbfgs_on_a_curved_valley_agrees_with_scipy():
    start = np.array([-1.2, 1.0, 0.5, -0.7])
    found = lbfgs(lambda t: (rosen(t), rosen_der(t)), start, tol=1e-9)
    reference = minimize(rosen, start, jac=rosen_der, method="BFGS", options={"gtol": 1e-9})
    assert found.converged
    assert found.theta == pytest.approx(reference.x, abs=1e-6)


def test_lbfgs_reaches_gradients_that_values_cannot_show():
    def far_from_zero(theta):  # the value's rounding is 1e-10, its fall near the minimum far below
        value, gradient = quadratic(theta)
        return value + 1e6, gradient

    assert lbfgs(far_from_zero, np.zeros(6), tol=1e-9).gradient_norm <= 1e-9


def test_momentum_that_runs_away_gives_its_start_back():
    """Each step is 5e9 times too long; in float64 the 17th would overflow."""
    start = np.array([1.0, -2.0])
    found = momentum(lambda theta: (float(theta @ theta) * 1e11, 2e11 * theta), start, max_iter=1000)
    assert not found.converged
    assert found.n_iter < 10
    assert found.theta.tolist() == [1, -2]
    assert (found.value, found.gradient_norm) == (5e11, 4e11)


def test_lbfgs_recovers_from_steps_that_overflow():
    def steep(theta):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sum(np.exp(theta) - 2 * theta)), np.exp(theta) - 2

    found = lbfgs(steep, np.array([-600.0, 3.0]), tol=1e-9)
    assert found.theta == pytest.approx(np.log([2, 2]), abs=1e-6)


def test_lbfgs_says_when_it_did_not_converge():
    found = lbfgs(lambda t: (rosen(t), rosen_der(t)), np.array([-1.2, 1.0]), tol=1e-9, max_iter=3)
    assert not found.converged
    assert found.n_iter == 3


def test_lbfgs_knows_when_rounding_has_the_last_word():
    rng = np.random.default_rng(1)

    def rounded(theta):  # gradients good to 1e-7 only: 1e-12 is out of reach
        value, gradient = quadratic(theta)
        return float(np.float32(value)), gradient + 1e-7 * rng.standard_normal(6)

    found = lbfgs(rounded, np.zeros(6), tol=1e-12, noise=1e-6)
    assert found.converged
    assert found.gradient_norm > 1e-12
    assert found.theta == pytest.approx(MINIMUM, abs=1e-3)


# ---------------------------------------------------------------- newton


def valley(theta):
    """Rosenbrock's, a sum of squares: r = (10(x₁ − x₀²), 1 − x₀), so that Gauss–Newton's matrix is 2JᵀJ."""
    return rosen(theta), rosen_der(theta)


def valley_curvature(theta):
    J = np.array([[-20 * theta[0], 10.0], [-1.0, 0.0]])
    return 2 * J.T @ J


def test_newton_solves_a_quadratic_at_once():
    found = newton(quadratic, np.zeros(6), curvature=lambda theta: A, tol=1e-9)
    assert found.converged
    assert found.theta == pytest.approx(MINIMUM, abs=1e-6)
    assert found.n_iter <= 4  # the first step is a careful one


def test_newton_follows_a_curved_valley_in_fewer_steps_than_lbfgs():
    start = np.array([-1.2, 1.0])
    found = newton(valley, start, curvature=valley_curvature, tol=1e-9)
    reference = minimize(rosen, start, jac=rosen_der, method="BFGS", options={"gtol": 1e-9})
    assert found.converged
    assert found.theta == pytest.approx(reference.x, abs=1e-6)
    assert found.n_iter < lbfgs(valley, start, tol=1e-9).n_iter


def test_the_steps_correct_a_curvature_that_is_wrong():
    found = newton(quadratic, np.zeros(6), curvature=lambda theta: np.diag(np.diag(A)), tol=1e-9)
    assert found.converged
    assert found.theta == pytest.approx(MINIMUM, abs=1e-6)


def test_the_curvature_is_taken_anew_now_and_then():
    asked = []

    def wrong(theta):
        asked.append(theta)
        return np.eye(6)

    found = newton(quadratic, np.zeros(6), curvature=wrong, tol=1e-11, renew=4)
    assert found.converged
    assert len(asked) == -(-found.n_iter // 4) > 1
    assert asked[0] == pytest.approx(np.zeros(6))
    assert RENEW > 4


SINGULAR = {
    "flat directions": np.diag([1.0, 2, 3, 0, 0, 0]),
    "nothing": np.zeros((6, 6)),
    "not quite positive": A - 1e-9 * np.eye(6) * np.linalg.eigvalsh(A)[-1],
    "indefinite": np.diag([1.0, -2, 3, 1, 1, 1]),
    "not a number": np.full((6, 6), np.nan),
    "infinite": np.full((6, 6), np.inf),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_newton_lives_with_any_matrix(name):
    found = newton(quadratic, np.zeros(6), curvature=lambda theta: SINGULAR[name], tol=1e-8)
    assert found.converged
    assert found.theta == pytest.approx(MINIMUM, abs=1e-5)


def test_momentum_finds_the_minimum():
    found = momentum(quadratic, np.zeros(6), tol=1e-9, max_iter=20_000)
    assert found.theta == pytest.approx(MINIMUM, abs=1e-3)
    assert not momentum(quadratic, np.zeros(6), tol=1e-9, max_iter=5).converged


def test_momentum_follows_the_papers_schedule():
    """Three steps by hand: rate 0.1, √(0.1·0.0001), 0.0001 and momentum 0.9."""
    theta, v = 2.0, 0.0
    for rate in (0.1, (0.1 * 0.0001) ** 0.5, 0.0001):
        v = 0.9 * v - rate * theta
        theta += v
    found = momentum(lambda t: (float(t @ t) / 2, t.copy()), np.array([2.0]), tol=1e-9, max_iter=3)
    assert found.theta[0] == pytest.approx(theta, rel=1e-12)


def test_intermediate_etas_stop_below_eta():
    assert intermediate_etas(0) == []
    assert intermediate_etas(0.01) == []
    assert intermediate_etas(1) == pytest.approx([0.01, 0.01 * 10**0.5, 0.1, 10**-0.5])
    assert intermediate_etas(3)[: len(intermediate_etas(1))] == intermediate_etas(1)


@pytest.mark.parametrize("solver", [lbfgs, momentum, partial(newton, curvature=lambda theta: A)])
def test_verbose_logs_every_iteration(solver, capsys):
    found = solver(quadratic, np.zeros(6), tol=1e-3, max_iter=20, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == found.n_iter
    assert f"{found.gradient_norm:.3e}" in err.splitlines()[-1]


@pytest.mark.parametrize("solver", [lbfgs, momentum, partial(newton, curvature=lambda theta: A)])
def test_the_start_is_left_as_it_was(solver):
    start = np.zeros(6)
    solver(quadratic, start, max_iter=10)
    assert not start.any()


def test_an_inverse_does_not_depend_on_units():
    factor = RNG.standard_normal((9, 4))
    H, unit = factor.T @ factor, np.array([1e-7, 1.0, 1e4, 1.0])
    scale = np.outer(unit, unit)
    assert ridged_inverse(H * scale, 1e-10) * scale == pytest.approx(np.linalg.inv(H), rel=1e-6)
    singular = np.ones((3, 3))  # the ridge grows until there is an inverse
    assert np.isfinite(ridged_inverse(singular, 1e-30)).all()
