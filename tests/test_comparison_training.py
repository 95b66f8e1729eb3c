"""Who is compared in training: every estimator, against penalties of two groups at a time."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics import log_loss

from attributes import KINDS, penalty, people
from evenrisk import (
    Comparison,
    FairLogisticRegression,
    GapDistance,
    GaussianDistance,
    HistogramDistance,
)
from evenrisk._xp import sigmoid
from evenrisk.distances import evaluate
from evenrisk.parity import PARITIES, Contrasts, make_cells

pytestmark = [
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning"),
]
kinds = pytest.mark.parametrize("name", KINDS)
parities = pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
P = people()
P = replace(P, X=P.X * [1.0, 2.0, 0.5])  # of one size
KEPT = P.take(P.race != "d")
DISTANCES = {
    "gap": (GapDistance(), 3.0),
    "gap-rank": (GapDistance(scale="rank", power=8), 1.0),
    "histogram": (HistogramDistance(bandwidth=0.1), 0.1),
    "gaussian": (GaussianDistance(), 0.1),
}
distances = pytest.mark.parametrize("distance", DISTANCES)


def fitted(kind, p=P, weighted=True, model=None, **settings):
    """Fit a model with a kind of comparison."""
    model = FairLogisticRegression(tol=1e-8) if model is None else model
    model = clone(model).set_params(comparison=kind.comparison, **settings)
    weight = p.weight if weighted else None
    return model.fit(p.X, p.y, sample_weight=weight, sensitive_features=kind.features)


def theta(model):
    return np.append(model.coef_[0], model.intercept_)


def rows_of(features, index):
    """Some rows of a kind's features."""
    if isinstance(features, dict):
        return {title: column[index] for title, column in features.items()}
    return features[index]


# ---------------------------------------------------------------- the objective


@kinds
@parities
@distances
def test_the_penalty_is_the_mean_of_two_groups_at_a_time(name, parity, distance):
    kind = KINDS[name](P, P.weight)
    instance, eta = DISTANCES[distance]
    model = fitted(kind, parity=parity, distance=instance, eta=eta)
    g = model.decision_function(P.X)
    expected = penalty(kind, instance, g, P.y, P.weight, parity)
    assert model.penalty_ == pytest.approx(expected, rel=1e-6)
    loss = log_loss(P.y, sigmoid(g), sample_weight=P.weight)  # of all rows, compared or not
    assert model.objective_ == pytest.approx(loss + eta * expected, rel=1e-6)


@kinds
@parities
def test_the_fit_is_where_a_brute_force_objective_is_flat_and_lower_than_around(name, parity):
    kind = KINDS[name](P, P.weight)
    distance, eta = DISTANCES["histogram"]
    model = fitted(kind, parity=parity, distance=distance, eta=eta)

    def objective(w):
        g = P.X @ w[:-1] + w[-1]
        loss = log_loss(P.y, sigmoid(g), sample_weight=P.weight)
        return loss + eta * penalty(kind, distance, g, P.y, P.weight, parity)

    at, step = theta(model), 1e-4
    slopes = [(objective(at + step * one) - objective(at - step * one)) / (2 * step) for one in np.eye(4)]
    assert np.abs(slopes).max() < 2e-5
    around = [objective(at + 0.02 * one * sign) for one in np.eye(4) for sign in (1, -1)]
    assert min(around) > objective(at)


def test_who_is_excluded_counts_in_the_loss_and_in_nothing_else():
    """SciPy, on a loss of all rows and a penalty of those whose race is known."""
    race = P.some("race", 3)
    known = np.array([each is not None for each in race])
    kept = P.take(known)
    kind, (distance, eta) = KINDS["every"](kept, kept.weight), DISTANCES["gaussian"]

    def objective(w):
        g = P.X @ w[:-1] + w[-1]
        loss = log_loss(P.y, sigmoid(g), sample_weight=P.weight)
        return loss + eta * penalty(kind, distance, g[known], kept.y, kept.weight, "demographic_parity")

    who = Comparison(unknown="exclude")
    model = FairLogisticRegression(distance=distance, eta=eta, tol=1e-9, comparison=who)
    model.fit(P.X, P.y, sample_weight=P.weight, sensitive_features=race)
    # the Gaussian distance has several minima: from near the fit, SciPy must come back to it
    start = theta(model) * 1.05
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
    assert model.objective_ == pytest.approx(objective(theta(model)), rel=1e-9)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-7)
    assert theta(model) == pytest.approx(found.x, abs=2e-3)
    dropped = fitted(kind, kept, distance=distance, eta=eta)
    assert np.abs(theta(dropped) - theta(model)).max() > 0.01


@kinds
def test_weights_equal_repetition(name):
    kind, times = KINDS[name](P, P.weight), P.weight.astype(int)
    again = np.repeat(np.arange(len(times)), times)
    comparison = replace_min_rows(kind.comparison)
    weighted = fitted(kind._replace(comparison=comparison), parity="equalized_odds", eta=2)
    repeated = fitted(
        kind._replace(features=rows_of(kind.features, again), comparison=comparison),
        P.take(again),
        weighted=False,
        parity="equalized_odds",
        eta=2,
    )
    assert theta(weighted) == pytest.approx(theta(repeated), abs=1e-5)
    assert weighted.comparison_ == repeated.comparison_


def replace_min_rows(comparison):
    """A number of rows does count rows."""
    one = isinstance(comparison, Comparison) and comparison.min_rows
    return replace(comparison, min_rows=None, min_share=0.04) if one else comparison


@kinds
def test_float32_is_close_to_float64(name):
    kind = KINDS[name](P, P.weight)
    double = fitted(kind, eta=2, tol=1e-6)
    narrow = replace(P, X=P.X.astype(np.float32))
    single = fitted(kind, narrow, eta=2, tol=1e-4)
    assert single.coef_.dtype == np.float32
    assert theta(single) == pytest.approx(theta(double), abs=0.01)


@kinds
def test_rows_without_weight_are_not_there(name):
    weight = np.where(np.arange(len(P.y)) % 5 == 0, 0.0, P.weight)
    kept = weight > 0
    features, comparison, _ = KINDS[name](P, P.weight)
    model = FairLogisticRegression(eta=2, tol=1e-8, comparison=comparison)
    whole = clone(model).fit(P.X, P.y, sample_weight=weight, sensitive_features=features)
    some = clone(model).fit(
        P.X[kept], P.y[kept], sample_weight=weight[kept], sensitive_features=rows_of(features, kept)
    )
    assert theta(whole) == pytest.approx(theta(some), abs=1e-6)
    assert whole.comparison_ == some.comparison_


@pytest.mark.parametrize("solver", ["lbfgs", "momentum"])
@pytest.mark.parametrize("name", ["each and crossed", "ordered", "probabilities"])
def test_other_solvers_get_as_low(name, solver):
    kind = KINDS[name](P, P.weight)
    newton = fitted(kind, eta=2, solver="newton")
    other = fitted(kind, eta=2, solver=solver, tol=1e-4, max_iter=20_000)
    assert other.objective_ == pytest.approx(newton.objective_, abs=2e-4)


# ---------------------------------------------------------------- one kind is another


def same_fit(one, other, p=P, exact=False, **settings):
    """Whether two ways to compare the same people are one fit."""
    for parity in ("demographic_parity", "equalized_odds"):
        models = [
            FairLogisticRegression(parity, comparison=comparison, eta=3, tol=1e-9, **settings).fit(
                p.X, p.y, sample_weight=p.weight, sensitive_features=features
            )
            for features, comparison in (one, other)
        ]
        first, second = map(theta, models)
        if exact:
            assert first.tobytes() == second.tobytes()
        else:
            assert first == pytest.approx(second, abs=1e-7)


def test_shares_of_0_and_1_are_hard_groups():
    table = pd.get_dummies(P.race).astype(float)
    same_fit((table, "probabilities"), (P.race, "crossed"))
    same_fit((table, Comparison(probabilities=True, against="rest")), (P.race, "rest"))


@pytest.mark.parametrize("columns", ["each", "each and crossed"])
def test_one_attribute_each_is_crossed(columns):
    same_fit((P.race, columns), (P.race, "crossed"), exact=True)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_group_that_is_never_probable_is_not_there(distance):
    with_nobody = np.column_stack([P.share, np.zeros(len(P.y))])
    instance = DISTANCES[distance][0]
    same_fit((with_nobody, "probabilities"), (P.share, "probabilities"), distance=instance)


def test_one_cut_is_two_groups():
    two = np.where(P.age > 43, "over", "below")
    same_fit(({"age": P.age}, Comparison(ordered={"age": [43]})), (two, "crossed"))


def test_of_two_groups_the_rest_is_the_other():
    same_fit((P.sex, "rest"), (P.sex, "crossed"))
    same_fit((P.sex, Comparison(reference="m")), (P.sex, "crossed"))


def test_unknown_as_a_group_is_a_group_of_that_name():
    race = P.some("race", 6)
    named = np.array([each or "unknown" for each in race])
    same_fit((race, Comparison(unknown="group")), (named, "crossed"))


def test_a_small_group_is_excluded():
    race = P.race.astype(object)
    race[P.race == "d"] = None
    same_fit((P.race, Comparison(min_rows=20)), (race, Comparison(unknown="exclude")))


@parities
def test_the_rest_is_relabelled_groups_contrast_by_contrast(parity):
    """The penalty of a fit against the rest is the mean of the penalties of fits with two groups."""
    rule, code = PARITIES[parity], np.unique(P.race, return_inverse=True)[1]
    model = FairLogisticRegression(parity, comparison="rest", eta=3)
    model.fit(P.X, P.y, sample_weight=P.weight, sensitive_features=P.race)
    found = []
    for place, race in enumerate("abcd"):
        contrast = Contrasts.rest(4).some(np.arange(4) == place)
        one = make_cells(rule, P.y, code, 4, P.weight, contrast)
        two = np.where(P.race == race, race, "others")
        relabelled = FairLogisticRegression(parity, eta=3)
        relabelled.fit(P.X, P.y, sample_weight=P.weight, sensitive_features=two)
        value, slope = evaluate(GapDistance(), relabelled.decision_function(P.X), one)
        assert value == pytest.approx(relabelled.penalty_, rel=1e-9)
        of_two = make_cells(rule, P.y, (two == "others").astype(int), 2, P.weight)
        expected = evaluate(GapDistance(), relabelled.decision_function(P.X), of_two)[1]
        assert slope == pytest.approx(expected, rel=1e-9, abs=1e-15)
        found.append(evaluate(GapDistance(), model.decision_function(P.X), of_two)[0])
    assert model.penalty_ == pytest.approx(np.mean(found), rel=1e-9)
