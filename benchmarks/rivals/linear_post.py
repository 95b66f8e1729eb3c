"""LinearPost: the best blind decision at one cut-off, from a model of the risk and one of the group.

Xian and Zhao (arXiv 2405.04025), written from the formulas. With r(x) = P(y = 1|x) and, for each stratum h
and group a, u_ha(x) = P(a, h|x) / E P(a, h|x), so that E[p(x)·u_ha(x)] is the rate of yes in that cell, the
decision p(x) in [0, 1] solves a linear program over the training rows::

    min E[p·(1 − 2r)]   so that   |E[p·(u_h1 − u_h0)]| ≤ bound in every stratum h

Its dual variables λ make the decision a linear score of these probabilities, yes where
m(x) = 2r(x) − 1 − Σ_h λ_h·(u_h1(x) − u_h0(x)) > 0. The score here is sigmoid(4m), in the order of m. As
for our BlindRepair, predictions of training rows are out of fold. Under equalized odds P(a, y|x) is one model
of four classes.
"""

from itertools import groupby

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from rivals._protocol import PARITIES, TREE_SIZES, Rival, Score, plain_model, plain_trees

BOUNDS = (1.0, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.003)


def path_of(make):
    """Return the path of base models that `make(size, n, seed)` returns; a setting is (size, bound)."""

    def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
        scores = []
        for size, some in groupby(settings, key=lambda setting: setting[0]):
            base = make(size, len(y), seed)
            joint = 2 * y + groups
            target = groups if parity == "demographic_parity" else joint
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            folds = list(folds.split(X, joint))
            r, u = (_out_of_fold(base, X, each, folds) for each in (y, target))
            models = clone(base).fit(X, y), clone(base).fit(X, target)
            scale = u.mean(axis=0)
            contrasts = _contrasts(u / scale)
            for _, bound in some:
                duals = solve(r[:, 1], contrasts, bound)
                scores.append(_score(models, scale, duals))
        return scores

    return path


def _out_of_fold(base, X, target, folds) -> np.ndarray:
    return cross_val_predict(base, X, target, cv=folds, method="predict_proba")


def _contrasts(u) -> np.ndarray:
    """Return u_h1 − u_h0 (n, h): one stratum of two groups, or two where there are four classes."""
    return u[:, 1::2] - u[:, ::2]


def solve(r, contrasts, bound) -> np.ndarray:
    """Return the dual variables λ (h,) of the linear program."""
    if contrasts.shape[1] == 1:
        return np.array([_one_dual(2 * r - 1, contrasts[:, 0], bound)])
    # times n: coefficients of 1/n would be as small as the solver's tolerances
    rates = np.vstack([contrasts.T, -contrasts.T])
    limits = np.full(len(rates), bound * len(r))
    found = linprog(1 - 2 * r, A_ub=rates, b_ub=limits, bounds=(0, 1), method="highs")
    if found.status != 0:
        raise RuntimeError(found.message)
    upper, lower = np.split(-found.ineqlin.marginals, 2)  # at least 0, and one of them is 0
    return upper - lower


def _one_dual(a, c, bound) -> float:
    """Return the λ that minimises E max(0, a − λc) + bound·|λ|, the dual of one constraint, by sorting.

    Its slope is −E max(0, c) − bound on the far left, and rises by |c|/n at each a/c and by 2·bound at 0.
    """
    matters = c != 0
    kinks = np.append(a[matters] / c[matters], 0.0)
    rises = np.append(np.abs(c[matters]) / len(c), 2 * bound)
    order = np.argsort(kinks, kind="stable")
    slope = np.cumsum(rises[order]) - np.maximum(c, 0).mean() - bound
    return float(kinks[order[np.argmax(slope >= 0)]])


def margin(r, contrasts, duals) -> np.ndarray:
    """Return m(x); the decision is yes where it is positive."""
    return 2 * r - 1 - contrasts @ duals


def _score(models, scale, duals) -> Score:
    risk, group = models

    def score(X, groups) -> np.ndarray:
        contrasts = _contrasts(group.predict_proba(X) / scale)
        return expit(4 * margin(risk.predict_proba(X)[:, 1], contrasts, duals))

    return score


def _settings(sizes):
    return dict.fromkeys(PARITIES, tuple((size, bound) for size in sizes for bound in BOUNDS))


LINEAR_POST = Rival("LinearPost (LR)", path_of(lambda size, n, seed: plain_model(n)), _settings([None]))
LINEAR_POST_TREES = Rival(
    "LinearPost (LightGBM)", path_of(lambda size, n, seed: plain_trees(*size, seed)), _settings(TREE_SIZES)
)
