"""ZafarEO under a bound: the bound, the minimum, the norm guard, and what is said when something fails."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bounds import eo_covariance, log_loss, people, slsqp, theta
from conftest import standardised
from evenrisk.baselines import ZafarEO
from evenrisk.datasets import load_compas
from evenrisk.exceptions import CollapseWarning, ConvergenceWarning, MissingSensitiveFeatures
from evenrisk.metrics import threshold_profile
from optional import need

need("cvxpy")
need("dccp")

pytestmark = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")


def covariance_of(X, y, group, weight):
    return lambda at: eo_covariance(X @ at[:-1] + at[-1], y, group, weight)


@pytest.fixture(scope="module")
def on_compas(compas):
    """A plain fit, and one under a bound."""
    X, y, race = compas
    return (
        ZafarEO(np.inf).fit(X, y, sensitive_features=race),
        ZafarEO(0.005).fit(X, y, sensitive_features=race),
    )


# ---------------------------------------------------------------- the bound and the minimum


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("c", [0.02, 0.005])
def test_within_the_bound_and_as_good_as_the_best_of_many_starts(c, groups):
    X, y, group, weight = people(groups=groups)
    clf = ZafarEO(c, min_spread=0, tol=1e-7).fit(X, y, weight, sensitive_features=group)
    covariance = covariance_of(X, y, group, weight)
    rng = np.random.default_rng(0)
    best = slsqp(covariance, c, X, y, weight, starts=rng.standard_normal((12, 4)))
    value = log_loss(theta(clf), X, y, weight)[0]
    assert np.abs(covariance(theta(clf))).max() <= c * (1 + 1e-6)
    assert clf.covariance_ == pytest.approx(covariance(theta(clf)), abs=1e-12)
    assert clf.objective_ == pytest.approx(value, rel=1e-10)
    assert value <= log_loss(best, X, y, weight)[0] + 1e-3  # a local minimum


def test_on_compas_the_bound_holds_on_the_original_rows(compas, on_compas):
    X, y, race = compas
    plain, clf = on_compas
    covariance = eo_covariance(clf.decision_function(X), y, race, np.ones(len(y)))
    assert np.abs(covariance).max() <= 0.005 * (1 + 1e-6)
    assert clf.covariance_ == pytest.approx(covariance, abs=1e-12)
    assert np.abs(plain.covariance_).max() > 0.015

    def gap(model):
        s = model.predict_proba(X)[:, 1]
        return threshold_profile(y, s, sensitive_features=race, parity="equalized_odds").at(0.5)

    assert gap(clf) < 0.75 * gap(plain)


def test_better_than_merely_shrinking_the_plain_model(compas, on_compas):
    X, y, _ = compas
    plain, clf = on_compas
    shrunken = theta(plain) * 0.005 / np.abs(plain.covariance_).max()
    assert clf.objective_ < log_loss(shrunken, X, y, np.ones(len(y)))[0] - 0.01
    differ = clf.predict(X) != plain.predict(X)
    assert differ.mean() > 0.1


def test_a_ridge_is_part_of_the_objective():
    X, y, group, weight = people()
    clf = ZafarEO(0.01, alpha=0.1, min_spread=0, tol=1e-7).fit(X, y, weight, sensitive_features=group)
    covariance = covariance_of(X, y, group, weight)
    starts = np.random.default_rng(0).standard_normal((5, 4))
    best = slsqp(covariance, 0.01, X, y, weight, starts=starts, alpha=0.1)
    assert clf.objective_ == pytest.approx(log_loss(theta(clf), X, y, weight, 0.1)[0], rel=1e-10)
    assert clf.objective_ <= log_loss(best, X, y, weight, 0.1)[0] + 1e-3


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("c", [0, 1e-7, 1e-4])
def test_the_tightest_bounds_hold_too(c):
    X, y, group, weight = people()
    clf = ZafarEO(c).fit(X, y, weight, sensitive_features=group)
    assert np.abs(covariance_of(X, y, group, weight)(theta(clf))).max() <= c * (1 + 1e-6) + 1e-9


# ---------------------------------------------------------------- the norm guard


def test_the_guard_keeps_the_scores_apart():
    X, y, group, weight = people()
    plain = ZafarEO(np.inf).fit(X, y, weight)

    def spread(model):
        g = model.decision_function(X)
        return np.sqrt(np.average((g - np.average(g, weights=weight)) ** 2, weights=weight))

    free = ZafarEO(0.005, min_spread=0).fit(X, y, weight, sensitive_features=group)
    share = spread(free) / spread(plain)
    assert free.spread_ == pytest.approx(share, rel=1e-9)
    assert share < 0.65
    guarded = ZafarEO(0.005, min_spread=0.8).fit(X, y, weight, sensitive_features=group)
    assert spread(guarded) >= 0.8 * 0.99 * spread(plain)
    assert np.abs(guarded.covariance_).max() <= 0.005 * (1 + 1e-6)
    loose = ZafarEO(0.005, min_spread=0.9 * share).fit(X, y, weight, sensitive_features=group)
    assert loose.objective_ == pytest.approx(free.objective_, abs=1e-4)


def test_the_default_guard_holds_on_compas_where_it_is_needed(compas):
    X, y, race = compas
    X = np.round(2 * X) / 2  # fewer distinct rows
    guarded = ZafarEO(1e-4).fit(X, y, sensitive_features=race)
    free = ZafarEO(1e-4, min_spread=0).fit(X, y, sensitive_features=race)
    assert free.spread_ < 0.24
    assert guarded.spread_ >= 0.2475
    assert np.abs(guarded.covariance_).max() <= 1e-4 * (1 + 1e-6)


def test_a_guard_that_cannot_be_held_is_a_warning():
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((200, 1)), 1)
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    group = (X[:, 0] + rng.standard_normal(200) > 0).astype(int)
    # one weight and no intercept: the covariance is proportional to it, and shrinking is all there is
    with pytest.warns(
        CollapseWarning, match=r"min_spread=0.25 cannot be held together with c=0.001: .* deviation is 0\.\d+"
    ):
        clf = ZafarEO(0.001, fit_intercept=False).fit(X, y, sensitive_features=group)
    assert clf.spread_ < 0.25
    assert np.abs(clf.covariance_).max() <= 0.001 * (1 + 1e-6)


# ---------------------------------------------------------------- inputs of every kind


def test_weights_equal_repetition_and_order_changes_no_bit():
    X, y, group, weight = people()
    clf = ZafarEO(0.01).fit(X, y, weight, sensitive_features=group)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), weight.astype(int)))
    repeated = ZafarEO(0.01).fit(X[rows], y[rows], sensitive_features=group[rows])
    assert np.array_equal(clf.coef_, repeated.coef_)
    assert pickle.dumps(clf) == pickle.dumps(ZafarEO(0.01).fit(X, y, weight, sensitive_features=group))


def test_rows_too_many_to_merge_when_checked(monkeypatch):
    X, y, group, weight = people()
    merged = ZafarEO(0.01).fit(X, y, weight, sensitive_features=group)
    monkeypatch.setattr("evenrisk._estimator._contract.MERGE_ENTRIES", 0)
    whole = ZafarEO(0.01).fit(X, y, weight, sensitive_features=group)
    assert whole.coef_ == pytest.approx(merged.coef_, abs=1e-4)


def test_sparse_float32_strings_and_pickle():
    X, y, group, weight = people()
    clf = ZafarEO(0.01)
    expected = clone(clf).fit(X, y, weight, sensitive_features=group)
    assert clone(expected).get_params() == clf.get_params()
    single = clone(clf).fit(X.astype(np.float32), y, weight, sensitive_features=group)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.coef_ == pytest.approx(expected.coef_, abs=1e-3)
    names = np.array(["a", "b"])[group]
    thin = clone(clf).fit(sparse.csr_array(X), np.where(y, "yes", "no"), weight, sensitive_features=names)
    assert thin.coef_ == pytest.approx(expected.coef_, abs=1e-4)
    copy = pickle.loads(pickle.dumps(thin))
    assert np.array_equal(copy.predict(X), np.where(expected.decision_function(X) > 0, "yes", "no"))
    assert thin.groups_.tolist() == ["a", "b"]
    assert thin.covariance_.shape == (2, 2)


def test_units_do_not_matter():
    X, y, group, weight = people()
    scaled = ZafarEO(0.01).fit(X, y, weight, sensitive_features=group)
    raw = ZafarEO(0.01).fit(X * [1e4, 1, 1e-3] + [5e4, 0, 2], y, weight, sensitive_features=group)
    assert raw.objective_ == pytest.approx(scaled.objective_, abs=1e-5)


def test_in_a_pipeline_with_routing():
    X, y, race = load_compas()
    X, y, race = X[:600], y[:600], race[:600]
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), ZafarEO(0.01)).fit(X, y, sensitive_features=race)
    expected = ZafarEO(0.01).fit(standardised(X), y, sensitive_features=race)
    assert pipe[-1].coef_ == pytest.approx(expected.coef_, abs=1e-4)


# ---------------------------------------------------------------- what is refused, and what is said


@pytest.mark.parametrize("value", [-0.1, 1.5, "half", float("nan"), None])
def test_the_guard_is_a_share(value):
    X, y, group, _ = people()
    with pytest.raises(ValueError, match="`min_spread` must be a number from 0 to 1, got"):
        ZafarEO(min_spread=value).fit(X, y, sensitive_features=group)


def test_groups_are_required_and_every_cell_has_rows():
    X, y, group, _ = people()
    with pytest.raises(MissingSensitiveFeatures, match=r"required when c is finite, got None with c=0.005"):
        ZafarEO().fit(X, y)
    with pytest.raises(ValueError, match="got none in: group '1' among negatives"):
        ZafarEO().fit(X, np.where(group == 1, 1, y), sensitive_features=group)


def test_too_few_steps_are_a_warning_and_the_bound_still_holds(capfd):
    X, y, group, weight = people()
    with pytest.warns(ConvergenceWarning, match=r"had not settled within 2 convex–concave") as seen:
        clf = ZafarEO(0.005, max_iter=2).fit(X, y, weight, sensitive_features=group)
    assert seen[0].filename == __file__
    assert np.abs(clf.covariance_).max() <= 0.005 * (1 + 1e-6)
    assert capfd.readouterr() == ("", "")


def test_a_failing_solver_is_a_warning_and_the_bound_still_holds(monkeypatch):
    import cvxpy as cp
    from dccp.problem import DCCPIter

    X, y, group, weight = people()
    solve, calls = DCCPIter.solve, []

    def third_fails(self, **settings):
        calls.append(settings)
        if len(calls) == 3:
            raise cp.error.SolverError("no luck")
        return solve(self, **settings)

    monkeypatch.setattr(DCCPIter, "solve", third_fails)
    with pytest.warns(ConvergenceWarning, match=r"ended in a failure \(no luck\)"):
        clf = ZafarEO(0.005).fit(X, y, weight, sensitive_features=group)
    assert np.abs(clf.covariance_).max() <= 0.005 * (1 + 1e-6)
    assert calls[0]["solver"] == "CLARABEL"
