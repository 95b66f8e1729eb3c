"""ZafarDP, and what both baselines share; the bounded ZafarEO is in test_baselines_eo."""

import pickle
import sys

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bounds import dp_covariance, log_loss, people, slsqp, theta
from conftest import standardised
from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.datasets import load_compas
from evenrisk.exceptions import ConvergenceWarning, MissingSensitiveFeatures
from evenrisk.metrics import threshold_profile
from optional import need

BOTH = pytest.mark.parametrize("kind", [ZafarDP, ZafarEO])
pytestmark = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")


# ---------------------------------------------------------------- without a bound


@BOTH
def test_without_a_bound_it_is_scikit_learns(compas, kind):
    X, y, race = compas
    weight = np.where(race == "Caucasian", 2.0, 1.0)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weight)
    ours = kind(c=np.inf, tol=1e-8).fit(X, y, weight)
    assert ours.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert not hasattr(ours, "covariance_")
    assert not hasattr(ours, "groups_")
    measured = kind(c=np.inf, tol=1e-8).fit(X, y, weight, sensitive_features=race)
    assert np.abs(measured.covariance_).max() > 0.01
    assert measured.coef_ == pytest.approx(ours.coef_, abs=1e-6)


@BOTH
def test_a_bound_that_is_met_changes_nothing(compas, kind):
    if kind is ZafarEO:
        need("dccp")  # asked for whenever c is finite
    X, y, race = compas
    plain = kind(c=np.inf).fit(X, y, sensitive_features=race)
    slack = kind(c=float(np.abs(plain.covariance_).max()) * 1.0001).fit(X, y, sensitive_features=race)
    assert np.array_equal(slack.coef_, plain.coef_)


# ---------------------------------------------------------------- ZafarDP: witnesses


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("c", [0.3, 0.1, 0.01])
def test_dp_is_the_minimum_under_the_bound(c, groups, alpha):
    X, y, group, weight = people(groups=groups)
    clf = ZafarDP(c, alpha=alpha, tol=1e-9).fit(X, y, weight, sensitive_features=group)

    def covariance(at):
        return dp_covariance(X @ at[:-1] + at[-1], group, weight)

    best = slsqp(covariance, c, X, y, weight, alpha=alpha)
    value = log_loss(theta(clf), X, y, weight, alpha)[0]
    assert clf.objective_ == pytest.approx(value, rel=1e-10)
    assert value == pytest.approx(log_loss(best, X, y, weight, alpha)[0], rel=1e-7)
    assert theta(clf) == pytest.approx(best, abs=1e-3)
    assert clf.covariance_ == pytest.approx(covariance(theta(clf)), abs=1e-12)
    assert np.abs(clf.covariance_).max() <= c * (1 + 1e-6)


@pytest.mark.parametrize("groups", [2, 3])
def test_dp_is_what_cvxpy_finds(groups):
    cp = need("cvxpy")
    X, y, group, weight = people(groups=groups, seed=2)
    share = weight / weight.sum()
    w, b = cp.Variable(3), cp.Variable()
    g = X @ w + b
    bounds = []
    for k in range(groups):
        z = (group == k).astype(float)
        bounds.append(cp.abs((share * (z - share @ z)) @ g) <= 0.05)
    cp.Problem(cp.Minimize(share @ (cp.logistic(g) - cp.multiply(y, g))), bounds).solve(solver="CLARABEL")
    clf = ZafarDP(0.05, tol=1e-9).fit(X, y, weight, sensitive_features=group)
    assert clf.coef_[0] == pytest.approx(w.value, abs=1e-4)
    assert clf.intercept_[0] == pytest.approx(b.value, abs=1e-4)


def test_dp_with_no_bound_left_makes_the_means_equal():
    X, y, group, weight = people(groups=3)
    clf = ZafarDP(0, tol=1e-9).fit(X, y, weight, sensitive_features=group)
    g = clf.decision_function(X)
    means = [np.average(g[group == k], weights=weight[group == k]) for k in range(3)]
    assert np.ptp(means) < 1e-9
    assert np.ptp(g) > 0.1


def test_dp_goes_down_with_the_bound_on_compas(compas):
    X, y, race = compas
    gap, value = [], []
    for c in (np.inf, 0.1, 0.05, 0.02, 0.005, 0):
        clf = ZafarDP(c).fit(X, y, sensitive_features=race)
        s = clf.predict_proba(X)[:, 1]
        gap.append(threshold_profile(None, s, sensitive_features=race).at(0.5))
        value.append(clf.objective_)
        assert np.abs(dp_covariance(clf.decision_function(X), race, np.ones(len(y)))).max() <= c + 1e-9
    assert gap == sorted(gap, reverse=True)
    assert value == sorted(value)
    assert gap[0] > 0.2
    assert gap[-1] < 0.05


def test_dp_in_any_units_is_the_same():
    X, y, race = load_compas()
    raw = ZafarDP(0.03, tol=1e-9).fit(X, y, sensitive_features=race)
    scaled = ZafarDP(0.03, tol=1e-9).fit(standardised(X), y, sensitive_features=race)
    assert raw.predict_proba(X) == pytest.approx(scaled.predict_proba(standardised(X)), abs=1e-5)


def test_dp_where_the_groups_do_not_differ():
    X = np.array([[0.0], [1.0], [2.0], [3.0]] * 20)
    y, group = np.array([0, 1, 0, 1] * 20), np.repeat([0, 1], 40)
    bounded = ZafarDP(0).fit(X, y, sensitive_features=group)
    assert bounded.coef_ == pytest.approx(ZafarDP(np.inf).fit(X, y).coef_, abs=1e-6)
    assert np.abs(bounded.covariance_).max() < 1e-12


# ---------------------------------------------------------------- ZafarDP: inputs of every kind


def test_dp_sparse_stays_sparse_and_equals_dense(compas):
    X, y, race = compas
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense = ZafarDP(0.02, tol=1e-9).fit(X, y, sensitive_features=race)
    for kind in (sparse.csr_matrix, sparse.csc_array):
        found = ZafarDP(0.02, tol=1e-9).fit(kind(X), y, sensitive_features=race)
        assert found.coef_ == pytest.approx(dense.coef_, abs=1e-5)


def test_dp_of_a_wide_sparse_matrix():
    rng = np.random.default_rng(0)
    n, d = 2000, 100_000
    X = sparse.csr_array(
        (rng.standard_normal(4 * n), rng.integers(0, d, 4 * n), np.arange(0, 4 * n + 1, 4)), shape=(n, d)
    )
    group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    plain = ZafarDP(np.inf, alpha=0.1).fit(X, y, sensitive_features=group)
    c = float(np.abs(plain.covariance_).max()) / 3
    clf = ZafarDP(c, alpha=0.1).fit(X, y, sensitive_features=group)
    assert np.abs(clf.covariance_) == pytest.approx(c, rel=1e-6)


def test_dp_float32_stays_float32(compas):
    X, y, race = compas
    single = ZafarDP(0.02).fit(X.astype(np.float32), y, sensitive_features=race)
    double = ZafarDP(0.02).fit(X, y, sensitive_features=race)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.coef_ == pytest.approx(double.coef_, abs=1e-3)
    g = single.decision_function(X.astype(np.float32)).astype(float)
    assert np.abs(dp_covariance(g, race, np.ones(len(y)))).max() <= 0.02 + 1e-6


def test_dp_without_an_intercept_scores_zero_at_zero(compas):
    X, y, race = compas
    clf = ZafarDP(0.02, fit_intercept=False).fit(X, y, sensitive_features=race)
    assert clf.intercept_.tolist() == [0.0]
    assert clf.decision_function(np.zeros((1, 4)))[0] == 0
    assert np.abs(clf.covariance_) == pytest.approx(0.02, rel=1e-5)


def test_dp_of_rows_too_many_to_merge(compas, monkeypatch):
    X, y, race = compas
    merged = ZafarDP(0.02, tol=1e-9).fit(X, y, sensitive_features=race)
    monkeypatch.setattr("evenrisk._estimator._contract.MERGE_ENTRIES", 0)
    whole = ZafarDP(0.02, tol=1e-9).fit(X, y, sensitive_features=race)
    assert whole.coef_ == pytest.approx(merged.coef_, abs=1e-6)


def test_dp_weights_equal_repetition_and_order_changes_no_bit():
    X, y, group, weight = people()
    clf = ZafarDP(0.05).fit(X, y, weight, sensitive_features=group)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), weight.astype(int)))
    repeated = ZafarDP(0.05).fit(X[rows], y[rows], sensitive_features=group[rows])
    assert np.array_equal(clf.coef_, repeated.coef_)
    assert pickle.dumps(clf) == pickle.dumps(ZafarDP(0.05).fit(X, y, weight, sensitive_features=group))


def test_dp_clone_pickle_and_labels_of_any_kind():
    X, y, group, _ = people()
    clf = ZafarDP(0.05, alpha=0.01, tol=1e-7)
    fitted = clone(clf).fit(X, np.where(y, "yes", "no"), sensitive_features=np.where(group, "b", "a"))
    assert clone(fitted).get_params() == clf.get_params()
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict(X), np.where(fitted.decision_function(X) > 0, "yes", "no"))
    assert fitted.groups_.tolist() == ["a", "b"]
    assert fitted.covariance_ == pytest.approx([-0.05, 0.05], rel=1e-5)


def test_dp_in_a_pipeline_with_routing():
    X, y, race = load_compas()
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), ZafarDP(0.02)).fit(X, y, sensitive_features=race)
    expected = ZafarDP(0.02).fit(StandardScaler().fit_transform(X), y, sensitive_features=race)
    assert np.array_equal(pipe[-1].coef_, expected.coef_)


def test_a_second_fit_forgets_the_first(compas):
    X, y, race = compas
    clf = ZafarDP(0.02).fit(X, y, sensitive_features=race)
    clf.set_params(c=np.inf).fit(X, y)
    assert not hasattr(clf, "covariance_")
    assert not hasattr(clf, "groups_")


# ---------------------------------------------------------------- what is refused, and what is said


@BOTH
@pytest.mark.parametrize("c", [-0.1, float("nan"), "0.1", None, True])
def test_bounds_that_are_none(compas, kind, c):
    X, y, race = compas
    with pytest.raises(ValueError, match=r"`c` must be a number of at least 0, or np.inf for no bound, got "):
        kind(c=c).fit(X, y, sensitive_features=race)


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", -1), ("tol", 0), ("max_iter", 0), ("max_iter", 2.5), ("fit_intercept", "yes")],
)
def test_other_settings_are_checked(compas, kind, name, value):
    X, y, race = compas
    with pytest.raises(ValueError, match=f"`{name}` must be .* got {value!r}"):
        kind(np.inf, **{name: value}).fit(X, y, sensitive_features=race)


def test_a_forgotten_attribute_is_never_silent(compas):
    X, y, _ = compas
    with pytest.raises(
        MissingSensitiveFeatures, match=r"required when c is finite, got None with c=0.05.* set c=np.inf"
    ):
        ZafarDP().fit(X, y)


def test_a_group_must_have_company(compas):
    X, y, _ = compas
    with pytest.raises(ValueError, match=r"2 or more groups, got 1"):
        ZafarDP().fit(X, y, sensitive_features=np.zeros(len(y)))


def test_dp_no_convergence_is_a_warning(compas):
    X, y, race = compas
    with pytest.warns(ConvergenceWarning) as seen:
        clf = ZafarDP(0.02, max_iter=3).fit(X, y, sensitive_features=race)
    assert "fit without the bound stopped after 3 iterations" in str(seen[0].message)
    assert "fit under |covariance| <= 0.02 stopped after 3 iterations" in str(seen[1].message)
    assert seen[0].filename == seen[1].filename == __file__
    assert np.abs(clf.covariance_).max() <= 0.02 * (1 + 1e-6)


@pytest.mark.parametrize("package", ["cvxpy", "dccp"])
def test_eo_without_its_packages_says_which_extra(compas, monkeypatch, package):
    X, y, race = compas
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"needs cvxpy and dccp: pip install cvxpy dccp, or"):
        ZafarEO().fit(X, y, sensitive_features=race)
    ZafarEO(np.inf).fit(X, y, sensitive_features=race)
    ZafarDP().fit(X, y, sensitive_features=race)
