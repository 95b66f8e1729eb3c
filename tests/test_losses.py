"""Laws over one list of all losses."""

import numpy as np
import pytest
from sklearn.metrics import hinge_loss, log_loss

from evenrisk.losses import HINGE, LOGISTIC, SQUARED_HINGE
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
