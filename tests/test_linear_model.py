"""FairLogisticRegression: the contract, and witnesses that we did not write."""

import pickle
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from conftest import standardised
from evenrisk import (
    BudgetSearchCV,
    FairKernelSVC,
    FairLinearSVC,
    FairLogisticRegression,
    GapDistance,
    Parity,
    threshold_profile,
)
from evenrisk._xp import sigmoid
from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.datasets import load_compas
from evenrisk.distances import DISTANCES, evaluate
from evenrisk.exceptions import (
    CollapseWarning,
    ConvergenceWarning,
    MajorityRateWarning,
    ReversedRankingWarning,
)
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.objective._linear import Columns
from evenrisk.parity import PARITIES, make_cells
from optional import need
from worlds import in_pieces

PENALISED = {"gap": 3.0, "histogram": 0.1, "gaussian": 0.1}


def objective(clf, X, y, groups):
    """The paper's objective at any θ, built afresh from the parts."""
    code = np.unique(groups, return_inverse=True)[1]
    weight = np.ones(len(y))
    cells = make_cells(PARITIES[clf.parity], y, code, code.max() + 1, weight)
    scores = ScoreObjective(LOGISTIC, y, weight, Penalty(DISTANCES[clf.distance], cells), clf.eta)
    return LinearObjective(scores, X, alpha=clf.alpha, fit_intercept=True)


def theta(clf):
    return np.append(clf.coef_[0], clf.intercept_)


def gradient_norm(X, y, model, alpha):
    s = model.predict_proba(X)[:, 1]
    in_w = X.T @ (s - y) / len(y) + alpha * model.coef_[0]
    return max(np.abs(in_w).max(), abs((s - y).mean()))


# ---------------------------------------------------------------- without a penalty: scikit-learn


@pytest.mark.parametrize("alpha", [0.0, 1e-4])
def test_eta_zero_is_scikit_learns_on_compas(compas, alpha):
    X, y, _ = compas
    C = np.inf if alpha == 0 else 1 / (alpha * len(y))
    reference = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(X, y)
    ours = FairLogisticRegression(eta=0, alpha=alpha, tol=1e-9).fit(X, y)
    assert gradient_norm(X, y, reference, alpha) < 1e-9
    assert gradient_norm(X, y, ours, alpha) < 1.001e-9
    assert ours.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)


def test_eta_zero_is_scikit_learns_on_adult(adult):
    X, y, _ = adult
    C = 1 / (1e-4 * len(y))
    reference = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(X, y)
    ours = FairLogisticRegression(eta=0, alpha=1e-4, tol=1e-9).fit(X, y)
    assert gradient_norm(X, y, reference, 1e-4) < 1e-9
    assert gradient_norm(X, y, ours, 1e-4) < 1.001e-9
    assert ours.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)


CLASS_WEIGHTS = {"balanced": "balanced", "one label": {"yes": 5}, "both": {"no": 0.2, "yes": 3.0}}


def class_factors(class_weight, labels, weight):
    """Factors of "no" and "yes", counted afresh."""
    if class_weight == "balanced":
        mass = np.array([weight[labels == label].sum() for label in ("no", "yes")])
        return mass.sum() / (2 * mass)
    return np.array([class_weight.get(label, 1.0) for label in ("no", "yes")])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CLASS_WEIGHTS)
def test_class_weights_are_scikit_learns(compas, name, weighted):
    X, y, _ = (a[:1000] for a in compas)
    labels, settings = np.where(y == 1, "yes", "no"), {"class_weight": CLASS_WEIGHTS[name]}
    weight = np.random.default_rng(0).integers(0, 4, 1000).astype(float) if weighted else np.ones(1000)
    total = weight @ class_factors(CLASS_WEIGHTS[name], labels, weight)[y]
    reference = LogisticRegression(C=1 / (0.01 * total), solver="newton-cholesky", tol=1e-12, **settings)
    reference.fit(X, labels, sample_weight=weight)
    ours = FairLogisticRegression(eta=0, alpha=0.01, tol=1e-9, **settings).fit(X, labels, weight)
    assert theta(ours) == pytest.approx(theta(reference), abs=1e-6)
    assert ours.to_sklearn().class_weight == CLASS_WEIGHTS[name]
    plain = FairLogisticRegression(eta=0, alpha=0.01).fit(X, labels, weight)
    assert np.abs(theta(plain) - theta(ours)).max() > 0.1


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", PENALISED)
def test_class_weights_leave_the_comparison_of_groups_alone(compas, distance, parity):
    """The minimum of Σ wᵢcᵢℓᵢ/Σ wᵢcᵢ + η·E_f, E_f of cells with the weights w."""
    X, y, race = (a[:1000] for a in compas)
    labels = np.where(y == 1, "yes", "no")
    weight = np.random.default_rng(1).uniform(0.5, 2, 1000)
    settings = {"distance": distance, "eta": PENALISED[distance], "alpha": 0.01, "tol": 1e-7}
    clf = FairLogisticRegression(parity, class_weight={"yes": 4}, **settings)
    clf.fit(X, labels, weight, sensitive_features=race)
    cells = make_cells(PARITIES[parity], y, np.unique(race, return_inverse=True)[1], 2, weight)
    loss_weight = weight * np.where(y == 1, 4, 1)

    def F(t):
        g = X @ t[:-1] + t[-1]
        log_loss = np.average(np.logaddexp(0, g) - y * g, weights=loss_weight)
        return log_loss + 0.005 * t[:-1] @ t[:-1] + clf.eta * evaluate(DISTANCES[distance], g, cells)[0]

    found, h = theta(clf), 1e-5
    assert clf.objective_ == pytest.approx(F(found), rel=1e-9)
    assert clf.penalty_ == pytest.approx(
        evaluate(DISTANCES[distance], clf.decision_function(X), cells)[0], rel=1e-9
    )
    slopes = [(F(found + h * axis) - F(found - h * axis)) / (2 * h) for axis in np.eye(len(found))]
    assert np.abs(slopes).max() < 1e-6


def test_class_weights_keep_the_contract(compas):
    X, y, race = (a[:600] for a in compas)
    times = np.random.default_rng(0).integers(0, 4, 600)
    clf = FairLogisticRegression(eta=3, class_weight="balanced")
    weighted = clone(clf).fit(X, y, times, sensitive_features=race)
    many = [np.repeat(a, times, axis=0) for a in (X, y, race)]
    repeated = clone(clf).fit(*many[:2], sensitive_features=many[2])
    assert np.array_equal(weighted.coef_, repeated.coef_)
    (on_path,) = clf.fit_path(X, y, [3], times, sensitive_features=race)
    assert np.array_equal(on_path.coef_, weighted.coef_)
    again = weighted.set_params(warm_start=True).fit(X, y, times, sensitive_features=race)
    assert again.n_iter_ <= 2
    assert again.coef_ == pytest.approx(repeated.coef_, abs=1e-4)
    scaled = clone(clf).set_params(class_weight={0: 10, 1: 10}).fit(X, y, sensitive_features=race)
    plain = clone(clf).set_params(class_weight=None).fit(X, y, sensitive_features=race)
    assert scaled.coef_ == pytest.approx(plain.coef_, abs=1e-6)  # a mean has no units


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "`class_weight` must be None, 'balanced' or a dict of labels and weights, got 'even'"),
        ([1, 2], "`class_weight` must be None, 'balanced' or a dict of labels and weights, got [1, 2]"),
        ({"yes": 2}, "`class_weight` must have labels of y (0, 1), got 'yes'"),
        ({0: 1, 1: 2, 2: 3}, "`class_weight` must have labels of y (0, 1), got 2"),
        ({1: 0}, "`class_weight[1]` must be a finite number above 0, got 0"),
        ({0: np.nan}, "`class_weight[0]` must be a finite number above 0, got nan"),
        ({0: "2"}, "`class_weight[0]` must be a finite number above 0, got '2'"),
    ],
)
def test_bad_class_weights(compas, class_weight, message):
    X, y, _ = (a[:100] for a in compas)
    for kind in (FairLogisticRegression, FairLinearSVC, FairKernelSVC):
        with pytest.raises(ValueError) as error:
            kind(eta=0, class_weight=class_weight).fit(X, y)
        assert str(error.value) == message


def test_units_of_the_features_do_not_matter():
    X, y, race = load_compas()
    raw = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=race)
    scaled = FairLogisticRegression(eta=3).fit(standardised(X), y, sensitive_features=race)
    assert raw.predict_proba(X) == pytest.approx(scaled.predict_proba(standardised(X)), abs=1e-3)


# ---------------------------------------------------------------- columns that say nothing new


def few_people(n=300):
    """Standardised rows, labels, two groups, weights."""
    rng = np.random.default_rng(8)
    group = rng.integers(0, 2, n)
    X = standardised(rng.standard_normal((n, 3)) + 0.6 * group[:, None] * [1, 0, 0.5])
    y = (X @ [1, -0.7, 0.3] - 0.4 + rng.logistic(size=n) > 0).astype(int)
    return X, y, group, rng.uniform(0.2, 3, n)


logistic = partial(FairLogisticRegression, max_iter=3000)
SOLVERS = ("auto", "newton", "lbfgs", "momentum")
MODELS = {
    **{f"{s}, eta={eta}": partial(logistic, eta=eta, solver=s) for s in SOLVERS for eta in (0, 1)},
    "histogram": partial(logistic, eta=0.1, distance="histogram"),
    "gaussian": partial(logistic, eta=0.1, distance="gaussian"),
    "calibrated": partial(logistic, eta=1, calibration="isotonic"),
    "ZafarDP": partial(ZafarDP, c=0.01),
    "ZafarEO": partial(ZafarEO, c=np.inf),
    "ridge": partial(logistic, eta=1, alpha=0.01),
    "plain machine": partial(FairLinearSVC, eta=0),
    "hinge": partial(FairLinearSVC, eta=1),
    "squared hinge": partial(FairLinearSVC, eta=1, loss="squared_hinge"),
}
# a ridge sees how many columns say the same, and momentum wants them standardised
SINGULAR = [name for name in list(MODELS)[:13] if "momentum" not in name]
CONSTANT = [1, 1e6, 0.1, -3, 0, 1 + 1e-12 * np.random.default_rng(0).standard_normal(300)]
KINDS = [np.asarray, sparse.csr_array, np.float32]


@pytest.mark.parametrize("name", MODELS)
def test_a_constant_column_changes_no_bit_and_has_no_coefficient(name):
    X, y, group, weight = few_people()
    for i, value in enumerate(CONSTANT):
        kind, w = KINDS[i % 3], weight if i % 2 else None
        rows = kind(X), kind(np.insert(X, 1, value, axis=1))
        plain, ours = (MODELS[name]().fit(Z, y, w, sensitive_features=group) for Z in rows)
        assert ours.coef_.tolist() == np.insert(plain.coef_, 1, 0.0, axis=1).tolist()
        assert (ours.intercept_, ours.n_iter_) == (plain.intercept_, plain.n_iter_)
        risk = plain.predict_proba(rows[0])  # added up in another order
        assert ours.predict_proba(rows[1]) == pytest.approx(risk, abs=1e-6 if kind is np.float32 else 1e-12)


@pytest.mark.parametrize("name", SINGULAR)
def test_collinear_columns_change_no_risk_and_share_the_coefficient(name):
    X, y, group, weight = few_people()
    kinds = np.eye(3)[np.random.default_rng(1).integers(0, 3, len(y))]
    cases = [
        (X, np.column_stack([X, X[:, 0]])),
        (X, np.column_stack([X, 1e3 * X[:, 2] + 1e5])),
        (X, np.column_stack([X, X.sum(axis=1)])),
        (np.column_stack([X, kinds[:, 1:]]), np.column_stack([X, kinds])),
        (np.column_stack([X, X**2]), np.column_stack([np.ones(len(y)), X, X**2, X**2])),
    ]
    for i, case in enumerate(cases):
        rows = [KINDS[i % 2](Z) for Z in case]
        plain, ours = (MODELS[name]().fit(Z, y, weight, sensitive_features=group) for Z in rows)
        s = plain.predict_proba(rows[0]), ours.predict_proba(rows[1])
        assert s[1] == pytest.approx(s[0], abs=2e-3 if name == "calibrated" else 1e-5)
        assert np.abs(ours.coef_).max() < 1.5 * np.abs(plain.coef_).max() + 0.5


@pytest.mark.parametrize("name", [*SINGULAR, "ridge", "EO bound"])
def test_the_rounding_of_collinear_columns_far_from_zero_is_not_fitted(name):
    """In float32 the column is off by a 64 at 1e9: coefficients of thousands would cancel around it."""
    if name == "EO bound":
        need("dccp")
    models = {**MODELS, "EO bound": partial(ZafarEO, c=0.01)}
    X, y, group, weight = few_people()
    X = X.astype(np.float32)
    sums = X[:, 0] - X[:, 2], X[:, 0] - 2 * X[:, 2]
    for kind in (np.asarray, sparse.csr_array):
        near = np.column_stack([1e6 * sums[0], X, sums[1], 1e3 * sums[0]]).astype(np.float32)
        rows = kind(near), kind(near + np.array([1e9, 0, 0, 0, 1000, 1e6], dtype=np.float32))
        plain, ours = (models[name]().fit(Z, y, weight, sensitive_features=group) for Z in rows)
        risk = plain.predict_proba(rows[0])
        assert ours.predict_proba(rows[1]) == pytest.approx(risk, abs=1e-2 if name == "calibrated" else 1e-3)
        assert np.abs(ours.coef_).max() < 3


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_two_columns_far_from_zero_that_say_the_same_do_not_cancel(kind):
    """No clean column says what they say: the finer one stays, and the coarser is made from it."""
    X, y, group, _ = few_people()
    near = np.column_stack([X[:, 1:], X[:, 0]]).astype(np.float32)
    both = np.column_stack([1e6 * X[:, 0] + 2e9, X[:, 1:], 1e3 * X[:, 0] + 1e6]).astype(np.float32)
    plain, ours = (logistic(eta=1).fit(kind(Z), y, sensitive_features=group) for Z in (near, both))
    assert ours.predict_proba(kind(both)) == pytest.approx(plain.predict_proba(kind(near)), abs=2e-3)
    assert np.abs(ours.coef_).max() < 3


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_column_far_from_zero_may_differ_from_the_others_by_little(kind):
    """A hundredth of its own beside another column is no rounding: it stays, and its coefficient is found."""
    X, y, group, _ = few_people(3000)
    own = X[:, 0] + 0.01 * X[:, 1]
    near, far = (kind(np.column_stack([X[:, :1], own + at]).astype(np.float32)) for at in (0, 500))
    plain, ours = (logistic(eta=0).fit(Z, y, sensitive_features=group) for Z in (near, far))
    assert plain.coef_[0, 1] < -50
    assert ours.coef_ == pytest.approx(plain.coef_, rel=0.02)
    assert ours.decision_function(far) == pytest.approx(plain.decision_function(near), abs=0.05)


def test_a_bound_is_not_met_by_the_rounding_of_collinear_columns():
    """The covariances of the two are collinear to 1e-13 only, and coefficients of 1e11 would use that."""
    X, y, group, _ = few_people()
    X[:, 2] = np.round(3 * X[:, 2]) + 40
    for kind in KINDS[:2]:
        rows = kind(X), kind(np.column_stack([X, 1e3 * X[:, 2] + 5e5]))
        plain, ours = (ZafarDP(c=0.02).fit(Z, y, sensitive_features=group) for Z in rows)
        assert np.abs(plain.covariance_).max() == pytest.approx(0.02)
        assert ours.predict_proba(rows[1]) == pytest.approx(plain.predict_proba(rows[0]), abs=1e-5)
        assert np.abs(ours.coef_).max() < 1


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("name", [*SINGULAR, "hinge", "squared hinge"])
def test_a_column_far_from_zero_counts_for_all_it_has(name, kind):
    X, y, group, _ = few_people()
    rare = np.zeros(len(y))
    rare[np.r_[np.flatnonzero(y == 1)[:4], np.flatnonzero(y == 0)[:2]]] = 1
    settings = {"alpha": 1e-6} if "hinge" in name else {}
    near = kind(np.column_stack([X, rare]))
    ours = MODELS[name](**settings).fit(near, y, sensitive_features=group)
    for far in (1e3, 1e8):
        rows = kind(np.column_stack([X, rare + far]))
        moved = MODELS[name](**settings).fit(rows, y, sensitive_features=group)
        assert moved.coef_ == pytest.approx(ours.coef_, rel=1e-9)
        assert moved.predict_proba(rows) == pytest.approx(ours.predict_proba(near), abs=1e-7)
        assert moved.n_iter_ == ours.n_iter_
    if name.endswith("eta=0"):
        reference = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-9).fit(near, y)
        assert ours.coef_ == pytest.approx(reference.coef_, abs=1e-4)


def test_float32_keeps_what_it_can_say_of_a_far_column():
    X, y, _, _ = few_people()
    rows = np.column_stack([X, 3000 + X[:, 0] + X[:, 1] ** 2]).astype(np.float32)
    exact = rows.astype(np.float64)
    expected = logistic(eta=0).fit(exact, y).predict_proba(exact)
    assert logistic(eta=0).fit(rows, y).predict_proba(rows) == pytest.approx(expected, abs=2e-4)


def test_a_budget_is_met_by_the_same_eta_with_a_column_of_ones():
    X, y, group, _ = few_people()
    more = np.column_stack([X, np.ones(len(y))])
    plain, ours = (
        BudgetSearchCV(FairLogisticRegression(), max_gap=0.2, cv=2, random_state=0).fit(
            Z, y, sensitive_features=group
        )
        for Z in (X, more)
    )
    assert (ours.eta_, ours.max_gap_) == (plain.eta_, plain.max_gap_)
    paths = [FairLogisticRegression().fit_path(Z, y, [0, 2], sensitive_features=group) for Z in (X, more)]
    for one, other in zip(*paths, strict=True):
        assert [*one.coef_[0], 0, one.intercept_] == [*other.coef_[0], other.intercept_]


@pytest.mark.parametrize("name", [*MODELS, "ZafarEO, bounded"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_where_no_column_varies_everybody_has_one_risk(name, fit_intercept):
    model = MODELS.get(name, partial(ZafarEO, c=0.001))
    if name == "ZafarEO, bounded":
        need("cvxpy")
        need("dccp")
    _, y, group, weight = few_people(200)
    for rows in (np.full((len(y), 3), [1.1, -0.7, 2.3]), sparse.csr_array(np.full((len(y), 1), -2.0))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            warnings.simplefilter(
                "ignore", MajorityRateWarning
            )  # without an intercept 0.5 may be out of reach
            clf = model(fit_intercept=fit_intercept).fit(rows, y, weight, sensitive_features=group)
        s = clf.predict_proba(rows)[:, 1]
        assert (s == s[0]).all()
        if isinstance(clf, FairLogisticRegression) and clf.alpha == 0:
            assert s[0] == pytest.approx(np.average(y, weights=weight), abs=1e-2)
        if isinstance(clf, ZafarEO):
            assert clf.spread_ == 1


def test_the_warning_after_a_fit_to_constant_columns_names_them():
    _, y, group, _ = few_people()
    with pytest.warns(CollapseWarning, match="no column of X varies"):
        FairLogisticRegression().fit(np.ones((len(y), 2)), y, sensitive_features=group)


def test_columns_are_judged_by_the_rows_that_carry_weight(monkeypatch):
    monkeypatch.setattr("evenrisk._xp.BLOCK_ROWS", 4)
    weight = np.array([1.0, 1, 1, 1, 1, 1, 0, 1, 1])
    X = np.column_stack(
        [
            [5.0, 5, 5, 5, 5, 5, 9, 5, 5],  # differs in a row of weight 0
            [5.0, 5, 5, 5, 5, 5, 5, 5, 9],  # differs in the last block
            [500.0, 501, 500, 501, 500, 500, 500, 500, 500],
            [0.0, 1, 0, 0, 0, 0, 0, 0, 0],
            [-1e308, 1e308, 0, 0, 0, 0, 0, 0, 0],
            [-7.0, -7, -7, -7, -7, -7, -7, -7, -7 * (1 + 1e-10)],
        ]
    )
    for kind in (np.asarray, sparse.csr_array, sparse.csr_matrix):
        columns = Columns.from_rows(kind(X), weight, fit_intercept=True)
        assert columns.kept.tolist() == [False, True, True, True, True, True]
        assert columns.origin.tolist() == [5, 0, 500, 0, 0, -7 * (1 + 1e-10)]
        Z = columns.transform(kind(X), weight)
        Z = Z.toarray() if sparse.issparse(Z) else Z
        assert Z[:, [0, 1, 2, 3]].tolist() == (X - columns.origin)[:, [1, 2, 3, 4]].tolist()
    near_in_the_first_block_only = np.array([[500.0, 501, 500, 501, 700]]).T
    assert Columns.from_rows(near_in_the_first_block_only, np.ones(5), fit_intercept=True).origin == 0
    everything = Columns.from_rows(X, weight, fit_intercept=False)
    assert everything.kept.all()
    assert everything.transform(X, weight) is X


def test_entries_given_twice_are_moved_once():
    """Row 0 is 300 + 1, in two entries."""
    X = sparse.csr_array((np.array([300.0, 1, 300, 302]), np.array([0, 0, 0, 0]), np.array([0, 2, 3, 4])))
    columns = Columns.from_rows(X, np.ones(3), fit_intercept=True)
    assert columns.transform(X, np.ones(3)).toarray().ravel().tolist() == [1, 0, 2]
    assert X.nnz == 4


def test_a_warm_start_is_the_same_function_from_another_origin(compas):
    X, y, _ = compas
    far = np.column_stack([X + 1e4, np.ones(len(y))])
    clf = FairLogisticRegression(eta=0, warm_start=True).fit(far, y)
    assert clf.n_iter_ > 3
    again = clf.decision_function(far)
    clf.fit(far, y)
    assert clf.n_iter_ <= 1
    assert clf.decision_function(far) == pytest.approx(again, abs=1e-5)


# ---------------------------------------------------------------- with a penalty: calculus


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("distance", PENALISED)
def test_the_fitted_point_is_stationary(compas, distance, parity):
    X, y, race = compas
    clf = FairLogisticRegression(parity, distance=distance, eta=PENALISED[distance], alpha=0.01, tol=1e-7)
    clf.fit(X, y, sensitive_features=race)
    F = objective(clf, X, y, race)
    value, gradient = F(theta(clf))
    assert np.abs(gradient).max() < 1.5e-7
    assert clf.objective_ == pytest.approx(value, rel=1e-10)
    # and a minimum along every axis, by values alone
    for axis in np.eye(len(gradient)):
        assert F(theta(clf) + 1e-3 * axis)[0] > value
        assert F(theta(clf) - 1e-3 * axis)[0] > value
    code = np.unique(race, return_inverse=True)[1]
    cells = make_cells(PARITIES[parity], y, code, 2, np.ones(len(y)))
    E_f = evaluate(DISTANCES[distance], clf.decision_function(X), cells)[0]
    assert clf.penalty_ == pytest.approx(E_f, rel=1e-9)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", PENALISED)
def test_momentum_and_lbfgs_agree_from_the_same_start(compas, distance, parity):
    X, y, race = compas
    settings = {"distance": distance, "eta": PENALISED[distance]}
    quasi = FairLogisticRegression(parity, **settings, solver="lbfgs").fit(X, y, sensitive_features=race)
    paper = FairLogisticRegression(parity, **settings, solver="momentum", max_iter=3000, tol=1e-4)
    paper.fit(X, y, sensitive_features=race)
    assert paper.objective_ == pytest.approx(quasi.objective_, rel=1e-4)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize(("distance", "eta"), [("gap", 6), ("histogram", 0.4), ("gaussian", 0.25)])
def test_the_penalty_closes_the_gap_on_unseen_people(compas, distance, eta, parity):
    X, y, race = compas
    train = np.random.default_rng(0).random(len(y)) < 0.7
    gap, area = {}, {}
    for strength in (0, eta):
        clf = FairLogisticRegression(parity, distance=distance, eta=strength)
        clf.fit(X[train], y[train], sensitive_features=race[train])
        s = clf.predict_proba(X[~train])[:, 1]
        profile = threshold_profile(y[~train], s, sensitive_features=race[~train], parity=parity)
        gap[strength], area[strength] = profile.max_gap, roc_auc_score(y[~train], s)
    assert gap[0] > 0.2
    assert gap[eta] < 0.85 * gap[0]
    assert area[eta] > 0.52


def test_three_groups_and_crossed_columns():
    data = load_compas("all_races")
    big = data.frame["race"].isin(["African-American", "Caucasian", "Hispanic"])
    X, y = standardised(data.X[big]), data.y[big].to_numpy()
    race = data.frame.loc[big, "race"]
    both = data.frame.loc[big, ["race", "sex"]]
    clf = FairLogisticRegression(eta=15).fit(X, y, sensitive_features=race)
    assert clf.groups_.tolist() == ["African-American", "Caucasian", "Hispanic"]
    crossed = FairLogisticRegression(eta=30).fit(X, y, sensitive_features=both)
    assert len(crossed.groups_) == 6
    assert crossed.groups_[0] == ("African-American", "Female")
    plain = FairLogisticRegression(eta=0).fit(X, y)
    assert not hasattr(plain, "groups_")

    def worst(model, groups):
        return threshold_profile(y, model.predict_proba(X)[:, 1], sensitive_features=groups).max_gap

    assert worst(clf, race) < 0.7 * worst(plain, race)
    assert worst(crossed, both) < 0.7 * worst(plain, both)


def test_a_rule_and_a_distance_of_ones_own(compas):
    X, y, race = compas
    rule = Parity("mine", ("repeat",), lambda y: y - 1)
    mine = FairLogisticRegression(rule, distance=GapDistance(), eta=3).fit(X, y, sensitive_features=race)
    named = FairLogisticRegression("equal_opportunity", eta=3).fit(X, y, sensitive_features=race)
    assert np.array_equal(mine.coef_, named.coef_)


def test_a_window_spends_the_penalty_where_it_matters(compas):
    X, y, race = compas

    def inside(window, eta):
        clf = FairLogisticRegression(distance=GapDistance(window=window), eta=eta)
        s = clf.fit(X, y, sensitive_features=race).predict_proba(X)[:, 1]
        profile = threshold_profile(y, s, sensitive_features=race)
        return profile.at(np.linspace(0.55, 0.75, 41)).max(), roc_auc_score(y, s)

    (gap_window, auc_window), (gap_full, auc_full) = inside((0.55, 0.75), 8.0), inside((0, 1), 2.5)
    assert gap_window < gap_full
    assert auc_window > auc_full


# ---------------------------------------------------------------- warnings with names


def test_collapse_is_named(compas):
    X, y, race = compas
    with pytest.warns(CollapseWarning, match=r"squeezed together \(standard deviation .*eta \(now 300\)"):
        clf = FairLogisticRegression(eta=300).fit(X, y, sensitive_features=race)
    assert sigmoid(clf.decision_function(X)).std() < 0.01


def test_accuracy_under_the_majority_rate_is_named(compas):
    X, y, race = compas
    with pytest.warns(MajorityRateWarning, match=r"accuracy 0\.5\d+ is under the majority rate 0\.530"):
        clf = FairLogisticRegression(distance="gaussian", eta=1).fit(X, y, sensitive_features=race)
    assert clf.score(X, y) < 0.53


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
def test_a_reversed_ranking_is_named(compas):
    X, y, race = compas
    clf = FairLogisticRegression(warm_start=True).fit(X, y, sensitive_features=race)
    clf.coef_ = -clf.coef_
    clf.tol = 1e3  # so slack that the fit ends where it starts
    with pytest.warns(ReversedRankingWarning, match=r"training AUC 0\.2\d+ is under 0\.5"):
        clf.fit(X, y, sensitive_features=race)


def test_no_convergence_is_a_warning(compas):
    X, y, race = compas
    with pytest.warns(ConvergenceWarning, match=r"after 2 iterations .* Raise max_iter \(now 2\)"):
        FairLogisticRegression(max_iter=2).fit(X, y, sensitive_features=race)


def test_a_plain_fit_warns_of_nothing(compas):
    X, y, _ = compas
    FairLogisticRegression(eta=0).fit(X, y)  # warnings are errors here


# ---------------------------------------------------------------- the contract


def test_sparse_stays_sparse_and_equals_dense(compas, monkeypatch):
    X, y, race = compas
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense = FairLogisticRegression(eta=3, tol=1e-9).fit(X, y, sensitive_features=race)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        found = FairLogisticRegression(eta=3, tol=1e-9).fit(kind(X), y, sensitive_features=race)
        assert found.coef_ == pytest.approx(dense.coef_, abs=1e-5)
        assert found.predict_proba(kind(X)) == pytest.approx(dense.predict_proba(X), abs=1e-5)
    # entries that come twice are summed before anything is asked of them, in each format that can have them
    whole = FairLogisticRegression(eta=3).fit(sparse.csr_matrix(X), y, sensitive_features=race)
    scores = whole.decision_function(sparse.csr_matrix(X))
    for pieces in (in_pieces(X), in_pieces(X.T.copy(), sparse.csr_array).T):
        found = FairLogisticRegression(eta=3).fit(pieces, y, sensitive_features=race)
        np.testing.assert_array_equal(found.decision_function(pieces), scores)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
def test_a_wide_sparse_matrix_is_never_made_dense():
    rng = np.random.default_rng(0)
    n, d = 3000, 200_000  # 4.8 GB if it were dense
    index, where = rng.integers(0, d, 4 * n), np.arange(0, 4 * n + 1, 4)
    X = sparse.csr_array((rng.standard_normal(4 * n), index, where), shape=(n, d))
    group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    clf = FairLogisticRegression(eta=1, alpha=0.1, max_iter=20, tol=1e-3).fit(X, y, sensitive_features=group)
    assert clf.coef_.shape == (1, d)


def test_float32_stays_float32(compas):
    X, y, race = compas
    single = FairLogisticRegression(eta=3).fit(X.astype(np.float32), y, sensitive_features=race)
    double = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=race)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert single.coef_ == pytest.approx(double.coef_, abs=2e-3)


def test_weights_equal_repetition_bit_for_bit(compas):
    X, y, race = (a[:600] for a in compas)
    times = np.random.default_rng(0).integers(0, 4, 600)
    weighted = FairLogisticRegression(eta=3).fit(X, y, times, sensitive_features=race)
    repeated = FairLogisticRegression(eta=3).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times), sensitive_features=np.repeat(race, times)
    )
    assert np.array_equal(weighted.coef_, repeated.coef_)
    assert weighted.objective_ == repeated.objective_


def test_row_order_changes_no_bit(compas):
    X, y, race = compas
    order = np.random.default_rng(0).permutation(len(y))
    one = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=race)
    other = FairLogisticRegression(eta=3).fit(X[order], y[order], sensitive_features=race[order])
    assert np.array_equal(one.coef_, other.coef_)


def test_same_data_same_bytes(adult):
    X, y, sex = (a[:20_000] for a in adult)
    fits = [FairLogisticRegression(eta=1, alpha=1e-4).fit(X, y, sensitive_features=sex) for _ in range(2)]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()
    assert pickle.dumps(fits[0]) == pickle.dumps(fits[1])


def test_predictions_need_no_groups_and_follow_the_definitions(compas):
    X, y, race = compas
    labels = np.where(y == 1, "yes", "no")
    clf = FairLogisticRegression(eta=1).fit(X, labels, sensitive_features=race)
    g, s = clf.decision_function(X), clf.predict_proba(X)
    assert clf.classes_.tolist() == ["no", "yes"]
    assert s[:, 1] == pytest.approx(1 / (1 + np.exp(-g)), rel=1e-12)
    assert s.sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert np.array_equal(clf.predict(X), np.where(g > 0, "yes", "no"))
    assert clf.n_features_in_ == 4
    assert clf.groups_.tolist() == ["African-American", "Caucasian"]


def test_frames_of_every_kind_give_the_same_fit(compas):
    X, y, race = compas
    names = ["age", "priors", "sex", "charge"]
    expected = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=race)
    frame = pd.DataFrame(X, columns=names)
    polars, pyarrow = need("polars"), need("pyarrow")
    kinds = [
        (frame, pd.Series(y), pd.Series(race, dtype="category")),
        (frame, pd.Series(y, index=range(len(y), 0, -1)), pd.DataFrame({"race": race})),
        (polars.DataFrame(X, schema=names), polars.Series(y), polars.Series(race.tolist())),
        (polars.DataFrame(X, schema=names), y, polars.DataFrame({"race": race.tolist()})),
        (frame, y, pyarrow.table({"race": race.tolist()})),
        (frame, y, pyarrow.array(race.tolist())),
        (X.tolist(), y.tolist(), race.tolist()),
        (X, y, race == "Caucasian"),
    ]
    for features, target, groups in kinds:
        clf = FairLogisticRegression(eta=3).fit(features, target, sensitive_features=groups)
        assert np.array_equal(clf.coef_, expected.coef_)
        if hasattr(features, "columns"):
            assert clf.feature_names_in_.tolist() == names
            assert clf.predict_proba(features) == pytest.approx(expected.predict_proba(X), rel=1e-12)


def test_a_pyarrow_table_of_features(compas):
    pyarrow = need("pyarrow")
    X, y, race = compas
    table = pyarrow.table({f"x{i}": X[:, i] for i in range(4)})
    clf = FairLogisticRegression(eta=3).fit(table, y, sensitive_features=race)
    assert clf.coef_.shape == (1, 4)


def test_pickle_joblib_and_clone(compas, tmp_path):
    X, y, race = compas
    clf = FairLogisticRegression(distance=GapDistance(window=(0.2, 0.6)), eta=1)
    fitted = clone(clf).fit(X, y, sensitive_features=race)
    assert clone(fitted).get_params() == clf.get_params()
    joblib.dump(fitted, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))


def test_to_sklearn_gives_the_same_probabilities(compas):
    X, y, race = compas
    frame = pd.DataFrame(X, columns=list("abcd"))
    ours = FairLogisticRegression(eta=3).fit(frame, np.where(y, "yes", "no"), sensitive_features=race)
    theirs = ours.to_sklearn()
    assert type(theirs) is LogisticRegression
    assert theirs.predict_proba(frame) == pytest.approx(ours.predict_proba(frame), rel=1e-12)
    assert np.array_equal(theirs.predict(frame), ours.predict(frame))
    assert theirs.feature_names_in_.tolist() == list("abcd")
    theirs.coef_[:] = 0
    assert ours.coef_.all()


def test_warm_start_begins_where_the_last_fit_ended(compas):
    X, y, race = compas
    clf = FairLogisticRegression(eta=3, warm_start=True).fit(X, y, sensitive_features=race)
    cold, coef = clf.n_iter_, clf.coef_
    clf.fit(X, y, sensitive_features=race)
    assert clf.n_iter_ <= 2 < cold
    assert clf.coef_ == pytest.approx(coef, abs=1e-5)
    clf.fit(X[:, :3], y, sensitive_features=race)  # another width: a cold start, no error
    assert clf.coef_.shape == (1, 3)


def test_verbose_writes_iterations_to_standard_error(compas, capsys):
    X, y, race = compas
    clf = FairLogisticRegression(eta=1, verbose=1).fit(X, y, sensitive_features=race)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert sum(line.startswith(("lbfgs", "newton")) for line in lines) == clf.n_iter_
    assert [line for line in lines if line.startswith("eta")][::2] == [
        "eta 0",
        "eta 0.0316228",
        "eta 0.316228",
    ]
    assert lines[-1].startswith("newton")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_float32_in_raw_units_ends_where_float64_does(kind):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((3000, 3))
    group = rng.integers(0, 2, 3000)
    Z[:, 0] += 0.5 * group
    y = (Z @ [1, -1, 0.5] + rng.logistic(size=3000) > 0).astype(int)
    expected = FairLogisticRegression().fit(Z, y, sensitive_features=group).objective_
    first = np.array([1.0, 0, 0])
    units = [(1, 1e4), (5, 2010), (2e4, 5e4)]  # an offset, years, incomes
    raw = [Z * (1 + (scale - 1) * first) + offset * first for scale, offset in units]
    for X in (*raw, 1e6 * Z, 1e-13 * Z):
        clf = FairLogisticRegression().fit(kind(X.astype(np.float32)), y, sensitive_features=group)
        assert clf.objective_ == pytest.approx(expected, rel=1e-4)
        assert clf.n_iter_ < 300


def test_the_solver_asked_for_is_the_one_that_runs(compas, capsys):
    X, y, _ = compas
    clf = FairLogisticRegression(solver="momentum", eta=0, max_iter=3, tol=1e-9, verbose=1)
    with pytest.warns(ConvergenceWarning):
        clf.fit(X, y)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["eta"] + ["momentum"] * 3


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
def test_a_path_that_ends_worse_than_nothing_is_left(compas):
    X, y, race = compas
    clf = FairLogisticRegression("equalized_odds", distance="gaussian", eta=3)
    assert clf.fit(X, y, sensitive_features=race).objective_ < np.log(2)


def test_a_score_of_exactly_zero_is_not_selected():
    X = np.array([[-1.0], [1.0]] * 40)
    clf = FairLogisticRegression(eta=0, alpha=1.0, fit_intercept=False).fit(X, [0, 1] * 40)
    assert clf.predict([[0.0], [1e-9]]).tolist() == [0, 1]


def test_groups_of_the_last_fit_are_forgotten(compas):
    X, y, race = compas
    clf = FairLogisticRegression(eta=1).fit(X, y, sensitive_features=race)
    clf.set_params(eta=0).fit(X, y)
    assert not hasattr(clf, "groups_")
    assert clf.penalty_ == 0


def test_penalty_is_measured_without_being_used(compas):
    X, y, race = compas
    clf = FairLogisticRegression(eta=0).fit(X, y, sensitive_features=race)
    assert clf.penalty_ > 0.01
    with pytest.raises(ValueError, match="got none in: group 'Caucasian' among positives"):
        FairLogisticRegression("equalized_odds", eta=0).fit(
            X, np.where(race == "Caucasian", 0, y), sensitive_features=race
        )


def test_rows_of_weight_zero_are_absent_from_large_data_too(compas, monkeypatch):
    X, y, race = compas
    monkeypatch.setattr("evenrisk._estimator._contract.MERGE_ENTRIES", 0)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    groups = np.where(weight == 0, "nobody", race)
    zero = FairLogisticRegression(eta=3, tol=1e-9).fit(X, y, weight, sensitive_features=groups)
    kept = weight > 0
    dropped = FairLogisticRegression(eta=3, tol=1e-9).fit(
        X[kept], y[kept], weight[kept], sensitive_features=race[kept]
    )
    assert zero.groups_.tolist() == dropped.groups_.tolist() == ["African-American", "Caucasian"]
    assert zero.coef_ == pytest.approx(dropped.coef_, abs=1e-6)


def test_the_majority_is_that_of_the_loss(compas):
    X, y, race = compas
    kept = (y == 0) | (np.arange(len(y)) % 5 == 0)
    X, y, race = X[kept], y[kept], race[kept]
    clf = FairLogisticRegression(class_weight="balanced", tol=1e-4).fit(X, y, sensitive_features=race)
    assert clf.score(X, y) < 1 - y.mean()  # and no warning: a constant answer costs more in the loss
    clf.set_params(calibration="sigmoid").fit(X, y, sensitive_features=race)
    assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.003)  # people's own prevalence


def test_the_warnings_weigh_people(compas):
    X, y, race = compas
    weight = np.where(np.abs(X).max(axis=1) < 1.5, 1000.0, 1.0)
    with pytest.warns(CollapseWarning, match="standard deviation") as seen:
        clf = FairLogisticRegression(eta=300).fit(X, y, weight, sensitive_features=race)
    s = clf.predict_proba(X)[:, 1]
    sd = np.sqrt(np.average((s - np.average(s, weights=weight)) ** 2, weights=weight))
    assert f"{sd:.1e}" in str(seen[0].message)
    assert f"{s.std():.1e}" != f"{sd:.1e}"


@pytest.mark.parametrize(("dtype", "noise", "kept"), [(np.float64, 1e-12, False), (np.float64, 1e-9, True)])
def test_from_which_range_on_a_column_counts_as_constant(dtype, noise, kept):
    """4e-11 of its size in float64: below, scores would keep no digits of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    X = np.column_stack([X, 1 + noise * rng.random(300)]).astype(dtype)
    assert Columns.from_rows(X, np.ones(300), fit_intercept=True).kept.tolist() == [True, True, kept]
    if not kept:
        assert FairLogisticRegression(eta=0).fit(X, y).coef_[0, 2] == 0


@pytest.mark.parametrize(
    "X",
    [
        [[1.0, np.timedelta64(3, "D")], [2.0, np.timedelta64(4, "D")]] * 20,
        np.array([[1.0, np.datetime64("NaT")], [2.0, np.datetime64("2020-01-01")]] * 20, dtype=object),
    ],
    ids=["list", "objects"],
)
def test_dates_among_objects_are_refused_as_features(X):
    with pytest.raises(ValueError, match="`X` must be numbers, got dates or times"):
        FairLogisticRegression(eta=0).fit(X, [0, 1] * 20)
