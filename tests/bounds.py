"""Witnesses for the constrained baselines, written from the papers' formulas, row by row."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


def people(n=300, groups=2, seed=1):
    """Rows on a coarse grid, unequal groups, weights: X, y, group, weight."""
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, n, p=np.array([0.5, 0.3, 0.2][:groups]) / sum([0.5, 0.3, 0.2][:groups]))
    X = np.round(rng.standard_normal((n, 3)) + [1.2, -0.8, 0.0] * group[:, None])
    y = (X @ [0.6, -0.4, 0.7] + rng.logistic(size=n) > 0.5).astype(int)
    return X, y, group, rng.integers(1, 4, n).astype(float)


def mean(values, weight):
    """Σ w·values/Σ w."""
    return float(weight @ values / weight.sum())


def log_loss(theta, X, y, weight, alpha=0.0):
    """Mean log loss + alpha/2·‖w‖² and its gradient; θ = (w, b)."""
    g = X @ theta[:-1] + theta[-1]
    slope = weight / weight.sum() * (expit(g) - y)
    ridge = alpha * np.append(theta[:-1], 0)
    value = mean(np.logaddexp(0, g) - y * g, weight) + 0.5 * ridge @ theta
    return value, np.append(X.T @ slope, slope.sum()) + ridge


def dp_covariance(g, group, weight):
    """Mean of (z − z̄)·g for every group."""
    return np.array([mean(((z := group == k) - mean(z, weight)) * g, weight) for k in np.unique(group)])


def eo_covariance(g, y, group, weight):
    """Mean of (z − z̄)·min(0, y'·g) over the rows of one label: false positives, then false negatives."""
    mistake = [np.where(y == 0, np.minimum(0, -g), 0), np.where(y == 1, np.minimum(0, g), 0)]
    return np.array([dp_covariance(each, group, weight) for each in mistake])


def slsqp(covariance, c, X, y, weight, *, starts=(), alpha=0.0):
    """Minimise the log loss under |covariance(θ)| ≤ c; the best θ of several starts."""
    bound = {"type": "ineq", "fun": lambda t: c - np.abs(np.ravel(covariance(t)))}
    found = []
    for start in (np.zeros(X.shape[1] + 1), *starts):
        theta = minimize(
            log_loss,
            start,
            (X, y, weight, alpha),
            jac=True,
            method="SLSQP",
            constraints=[bound],
            options={"maxiter": 200, "ftol": 1e-12},
        ).x
        if np.abs(covariance(theta)).max() <= c + 1e-8:
            found.append(theta)
    return min(found, key=lambda theta: log_loss(theta, X, y, weight, alpha)[0])


def theta(clf):
    """(w, b) of a fitted model."""
    return np.append(clf.coef_[0], clf.intercept_)
