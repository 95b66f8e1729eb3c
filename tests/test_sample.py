"""A sample of the rows for the first points of a path, and the minimum where a fit then ends."""

import numpy as np
import pytest

from evenrisk import FairLinearSVC, FairLogisticRegression
from evenrisk.objective import LinearObjective, _linear, sample_rows


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_has_enough_rows_of_every_kind_and_their_weight(weighted):
    rng = np.random.default_rng(5)
    kind = rng.choice(6, 50_000, p=[0.5, 0.3, 0.15, 0.0495, 0.0005, 0])
    weight = rng.choice([0.0, 0.5, 3.0], len(kind)) if weighted else np.ones(len(kind))
    index, factor = sample_rows(kind.__getitem__, 6, weight, 4000, 400)
    assert (np.diff(index) > 0).all()
    assert weight[index].all()
    count, present = np.bincount(kind[index], minlength=6), np.bincount(kind, weight > 0, 6)
    assert (count >= np.minimum(present, 400)).all()
    assert 2000 < count.sum() < 6000
    total = np.bincount(kind, weight, 6)
    np.testing.assert_allclose(np.bincount(kind[index], weight[index] * factor, 6), total, rtol=1e-12)
    again = sample_rows(kind.__getitem__, 6, weight, 4000, 400)
    np.testing.assert_array_equal(index, again[0])
    np.testing.assert_array_equal(factor, again[1])


def test_a_sample_is_drawn_evenly():
    index, factor = sample_rows(np.zeros(100_000, int).__getitem__, 1, np.ones(100_000), 5000, 10)
    assert len(index) == 5000
    np.testing.assert_allclose(factor, 20)
    in_tenths = np.bincount(index // 10_000)
    assert (np.abs(in_tenths - 500) < 5 * np.sqrt(450)).all()


def many_rows(n=60_000):
    """Rows with a column that four people have, a label that 7 % have and a group of 60 people."""
    rng = np.random.default_rng(3)
    group = np.where(np.arange(n) % 1000 == 7, 2, rng.integers(0, 2, n))
    X = rng.normal(size=(n, 5)) + 0.4 * group[:, None] * np.array([1, 0, 0.5, 0, 0])
    X[:, 4] = 0
    X[rng.choice(n, 4, replace=False), 4] = 1
    y = rng.random(n) < 1 / (1 + np.exp(3 - X[:, :4] @ np.array([1.0, -0.6, 0.3, 0.2])))
    return X, y.astype(int), group


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", ["gap", "histogram", "gaussian"])
def test_a_fit_that_begins_with_a_sample_ends_at_the_same_minimum(monkeypatch, parity, distance):
    X, y, group = many_rows()
    kept = group < 2  # sixty people leave several minima
    eta = {"gap": 1.0, "histogram": 0.05, "gaussian": 0.2}[
        distance
    ]  # not so strong that there are several minima
    clf = FairLogisticRegression(parity, distance=distance, eta=eta, alpha=1e-4, tol=1e-9)
    monkeypatch.setattr(_linear, "LEAST_SAVING", np.inf)
    whole = clf.fit(X[kept], y[kept], sensitive_features=group[kept])
    coef, objective = whole.coef_.copy(), whole.objective_
    monkeypatch.setattr(_linear, "LEAST_SAVING", 2)
    calls = []
    call = LinearObjective.__call__
    monkeypatch.setattr(
        LinearObjective, "__call__", lambda self, theta: calls.append(self.X.shape[0]) or call(self, theta)
    )
    clf.fit(X[kept], y[kept], sensitive_features=group[kept])
    assert len({*calls}) == 2
    assert calls[0] < 30_000
    np.testing.assert_allclose(clf.coef_, coef, atol=1e-5)
    assert clf.objective_ == pytest.approx(objective, abs=1e-10)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_machine_with_rare_kinds_of_rows_is_as_good_with_a_sample(monkeypatch, loss):
    X, y, group = many_rows()
    clf = FairLinearSVC(loss=loss, eta=1.0, alpha=1e-3, class_weight="balanced")
    monkeypatch.setattr(_linear, "LEAST_SAVING", np.inf)
    objective = clf.fit(X, y, sensitive_features=group).objective_
    monkeypatch.setattr(_linear, "LEAST_SAVING", 2)
    assert clf.fit(X, y, sensitive_features=group).objective_ <= objective * (1 + 1e-4)


def test_a_path_asked_for_at_zero_is_exact_there(monkeypatch):
    X, y, group = many_rows()
    clf = FairLogisticRegression(alpha=1e-4, tol=1e-9)
    monkeypatch.setattr(_linear, "LEAST_SAVING", 2)
    path = clf.fit_path(X, y, [0.0, 0.5, 20.0], sensitive_features=group)
    monkeypatch.setattr(_linear, "LEAST_SAVING", np.inf)
    exact = clf.fit_path(X, y, [0.0, 0.5, 20.0], sensitive_features=group)
    np.testing.assert_allclose(path[0].coef_, exact[0].coef_, atol=1e-5)
    assert path[2].objective_ == pytest.approx(exact[2].objective_, rel=1e-3)
