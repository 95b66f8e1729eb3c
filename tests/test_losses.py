"""Laws over one list of all losses."""

import numpy as np
import pytest
from sklearn.metrics import hinge_loss, log_loss

from evenrisk.losses import HINGE, LOGISTIC, SQUARED_HINGE, SmoothedHinge
from optional import need

LOSSES = {loss.name: loss for loss in (LOGISTIC, HINGE, SQUARED_HINGE)}
each = pytest.mark.parametrize("name", LOSSES)
RNG = np.random.default_rng(0)
G = RNG.normal(0, 3, 200)
Y = RNG.integers(0, 2, 200)


@each
def test_gradient_is_the_numerical_derivative(name):
    loss, h = LOSSES[name], 1e-6
    numerical = (loss.value_gradient(Y, G + h)[0] - loss.value_gradient(Y, G - h)[0]) / (2 * h)
    assert loss.value_gradient(Y, G)[1] == pytest.approx(numerical, abs=1e-7)


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_curvature_is_the_numerical_derivative_of_the_gradient(name):
    loss, h = LOSSES[name], 1e-6
    numerical = (loss.value_gradient(Y, G + h)[1] - loss.value_gradient(Y, G - h)[1]) / (2 * h)
    assert loss.curvature(Y, G) == pytest.approx(numerical, abs=1e-7)


@each
def test_losses_are_convex_and_non_negative(name):
    value, _ = LOSSES[name].value_gradient(Y, G)
    assert (value >= 0).all()
    assert (LOSSES[name].curvature(Y, G) >= 0).all()


def test_values_equal_scikit_learns():
    s = 1 / (1 + np.exp(-G))
    assert LOGISTIC.value_gradient(Y, G)[0].mean() == pytest.approx(log_loss(Y, s), rel=1e-10)
    assert HINGE.value_gradient(Y, G)[0].mean() == pytest.approx(hinge_loss(Y, G), rel=1e-12)
    assert SQUARED_HINGE.value_gradient(Y, G)[0] == pytest.approx(HINGE.value_gradient(Y, G)[0] ** 2)


@each
@pytest.mark.parametrize("sign", [-1, 1])
def test_extreme_scores_neither_overflow_nor_vanish(name, sign):
    g = np.array([sign * 800.0, sign * 1e-300, 0.0])
    with np.errstate(all="raise", under="ignore"):
        value, gradient = LOSSES[name].value_gradient(np.array([1, 0, 1]), g)
        curvature = LOSSES[name].curvature(np.array([1, 0, 1]), np.clip(g, -700, 700))
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    assert np.isfinite(curvature).all()


@each
def test_float32_and_torch(name):
    torch = need("torch")
    for y, g in ((Y.astype(np.int8), G.astype(np.float32)), (Y, G)):
        value, gradient = LOSSES[name].value_gradient(y, g)
        assert value.dtype == gradient.dtype == g.dtype
        t_value, t_gradient = LOSSES[name].value_gradient(torch.from_numpy(y), torch.from_numpy(g))
        assert str(t_value.dtype) == str(t_gradient.dtype) == f"torch.{g.dtype}"
        assert t_value.numpy() == pytest.approx(value, rel=1e-5)
        assert t_gradient.numpy() == pytest.approx(gradient, rel=1e-5)
        curvature = LOSSES[name].curvature(torch.from_numpy(y), torch.from_numpy(g))
        assert curvature.numpy() == pytest.approx(LOSSES[name].curvature(y, g), rel=1e-4)


# The smoothed hinge: μ from rough to fine, multipliers a of every kind, margins from near the kink to far

A = np.where(RNG.random(200) < 0.4, RNG.integers(0, 2, 200), RNG.random(200))
NEAR = (2 * Y - 1) * (1 + 10 ** RNG.uniform(-4, 0.5, 200) * RNG.standard_normal(200))
each_mu = pytest.mark.parametrize("mu", [1.0, 0.1, 1e-3])


@each_mu
def test_the_smoothed_hinge_is_the_maximum_it_is_defined_as(mu):
    u = np.linspace(0, 1, 20_001)[:, None]
    slack = 1 - (2 * Y - 1) * NEAR
    expected = (u * slack - mu / 2 * (u - A) ** 2).max(axis=0)
    value = SmoothedHinge(mu, A).value_gradient(Y, NEAR)[0]
    assert value == pytest.approx(expected, abs=mu * 1e-8)


@each_mu
def test_the_smoothed_hinges_derivatives_are_numerical_derivatives(mu):
    loss, h = SmoothedHinge(mu, A), 1e-6 * mu
    up, down = (loss.value_gradient(Y, NEAR + sign * h) for sign in (1, -1))
    assert loss.value_gradient(Y, NEAR)[1] == pytest.approx((up[0] - down[0]) / (2 * h), abs=1e-6)
    u = A + (1 - (2 * Y - 1) * NEAR) / mu
    apart = np.minimum(np.abs(u), np.abs(u - 1)) > 1e-4  # from where the curvature jumps
    assert apart.sum() > 190
    numerical = (up[1] - down[1]) / (2 * h)
    assert loss.curvature(Y, NEAR)[apart] == pytest.approx(numerical[apart], abs=1e-4 / mu)
    assert 0 < np.count_nonzero(loss.curvature(Y, NEAR)) < 200


@each_mu
def test_the_smoothed_hinge_lies_below_the_hinge_and_touches_it_where_a_is_its_slope(mu):
    hinge, smoothed = (loss.value_gradient(Y, NEAR)[0] for loss in (HINGE, SmoothedHinge(mu, A)))
    assert (smoothed <= hinge + 1e-15).all()
    assert (hinge - smoothed <= mu / 2 * np.maximum(A, 1 - A) ** 2 + 1e-15).all()
    slope = (hinge > 0).astype(float)
    exact = SmoothedHinge(mu, slope)
    assert exact.value_gradient(Y, NEAR)[0] == pytest.approx(hinge, abs=1e-15)
    assert np.array_equal(exact.slope(Y, NEAR), slope)


def test_rows_of_the_smoothed_hinge_take_their_own_multipliers():
    loss = SmoothedHinge(0.1, A)
    parts = [loss.rows(rows).value_gradient(Y[rows], NEAR[rows]) for rows in (slice(0, 70), slice(70, 200))]
    for whole, pieces in zip(loss.value_gradient(Y, NEAR), zip(*parts, strict=True), strict=True):
        assert np.array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_smoothed_hinge_in_float32_and_torch(dtype):
    torch = need("torch")
    y, g, a = Y.astype(np.int8), NEAR.astype(dtype), A.astype(dtype)
    ours, theirs = SmoothedHinge(0.1, a), SmoothedHinge(0.1, torch.from_numpy(a))
    t_y, t_g = torch.from_numpy(y), torch.from_numpy(g).requires_grad_()
    value, gradient = ours.value_gradient(y, g)
    t_value, t_gradient = theirs.value_gradient(t_y, t_g)
    t_value.sum().backward()
    assert value.dtype == gradient.dtype == ours.curvature(y, g).dtype == dtype
    assert str(t_value.dtype) == str(t_gradient.dtype) == f"torch.{np.dtype(dtype)}"
    assert t_value.detach().numpy() == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert t_gradient.detach().numpy() == pytest.approx(gradient, rel=1e-5, abs=1e-6)
    assert t_g.grad.numpy() == pytest.approx(gradient, rel=1e-4, abs=1e-5)
    assert theirs.curvature(t_y, t_g).detach().numpy() == pytest.approx(ours.curvature(y, g), rel=1e-5)
