"""FairLinearSVC, and the contract that both machines keep: laws over one list, libsvm as the witness."""

import pickle
import warnings
from contextlib import nullcontext
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics import hinge_loss, roc_auc_score
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from conftest import standardised
from evenrisk import FairKernelSVC, FairLinearSVC, GapDistance, Parity, threshold_profile
from evenrisk.datasets import load_compas
from evenrisk.distances import DISTANCES, evaluate
from evenrisk.exceptions import (
    CollapseWarning,
    ConvergenceWarning,
    MajorityRateWarning,
    MissingSensitiveFeatures,
    ReversedRankingWarning,
)
from evenrisk.losses import HINGE
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, make_cells
from worlds import world

MACHINES = {
    "linear": FairLinearSVC,
    "kernel": partial(FairKernelSVC, n_components=30, random_state=0, tol=1e-5),
}
each = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
DECISION = 1.5e-3  # how far decision values may be from libsvm's; the rest is libsvm's, which ends higher
PENALISED = {"gap": 5.0, "histogram": 0.2, "gaussian": 0.2}


@pytest.fixture(scope="module")
def some(compas):
    """900 people: X, y, race."""
    rows = np.random.default_rng(5).permutation(len(compas[1]))[:900]
    return tuple(a[rows] for a in compas)


def objective(clf, X, y, groups, weight=None):
    """The paper's objective at any θ, built afresh from the parts."""
    weight = np.ones(len(y)) if weight is None else weight
    code = np.unique(groups, return_inverse=True)[1]
    cells = make_cells(PARITIES[clf.parity], y, code, code.max() + 1, weight)
    scores = ScoreObjective(HINGE, y, weight, Penalty(DISTANCES[clf.distance], cells), clf.eta)
    alpha = 1 / (10 * weight.sum()) if clf.alpha is None else clf.alpha
    return LinearObjective(scores, X, alpha=alpha, fit_intercept=clf.fit_intercept)


def theta(clf):
    return np.append(clf.coef_[0], clf.intercept_) if clf.fit_intercept else clf.coef_[0]


def raised_at(caught):
    """File and line of every warning."""
    return [(warning.filename, warning.lineno) for warning in caught]


# ---------------------------------------------------------------- without a penalty: libsvm, liblinear, SciPy


@pytest.mark.parametrize("alpha", [None, 1e-3, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_eta_zero_is_libsvms_linear_machine(compas, alpha, weighted):
    X, y, _ = (a[:2000] for a in compas)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    C = 10.0 if alpha is None else 1 / (alpha * weight.sum())
    reference = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y, sample_weight=weight)
    ours = FairLinearSVC(eta=0, alpha=alpha).fit(X, y, weight)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < DECISION
    F = objective(ours, X, y, y, weight).with_eta(0.0)
    assert ours.objective_ == pytest.approx(F(theta(ours))[0], rel=1e-10)
    theirs = F(np.append(reference.coef_[0], reference.intercept_))[0]
    assert theirs * (1 - 1e-5) < ours.objective_ <= theirs * (1 + 1e-7)


@pytest.mark.parametrize("class_weight", ["balanced", {"yes": 1.2, "no": 0.8}])
def test_class_weights_are_libsvms_and_liblinears(class_weight):
    w = world()
    X, y, weight = w.X, w.y, w.weight
    labels = np.where(y == 1, "yes", "no")
    # libsvm's "balanced" counts rows, and not their weights as scikit-learn's logistic regression does
    mass = np.bincount(y, weights=weight)
    low, high = (0.8, 1.2) if isinstance(class_weight, dict) else mass.sum() / (2 * mass)
    given, total = {"no": low, "yes": high}, weight @ np.where(y == 1, high, low)
    settings = {"class_weight": class_weight, "eta": 0}
    reference = SVC(kernel="linear", C=10, tol=1e-6, class_weight=given).fit(X, labels, sample_weight=weight)
    ours = FairLinearSVC(**settings).fit(X, labels, weight)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < DECISION
    reference = SVC(gamma=0.5, C=10, tol=1e-8, class_weight=given).fit(X, labels, sample_weight=weight)
    ours = FairKernelSVC(tol=1e-8, **settings).fit(X, labels, weight)
    assert np.abs(ours.decision_function(X) - reference.decision_function(X)).max() < DECISION
    reference = LinearSVC(
        C=1 / (0.01 * total), tol=1e-9, max_iter=200_000, class_weight=given, fit_intercept=False
    )
    reference.fit(X, labels, sample_weight=weight)
    ours = FairLinearSVC(alpha=0.01, loss="squared_hinge", fit_intercept=False, **settings)
    assert ours.fit(X, labels, weight).coef_ == pytest.approx(reference.coef_, abs=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_without_an_intercept_it_is_liblinears(compas, loss):
    X, y, _ = (a[:2000] for a in compas)
    weight = np.random.default_rng(0).uniform(0.5, 3, len(y))
    C = 1 / (0.01 * weight.sum())
    settings = {"loss": loss, "fit_intercept": False}
    reference = LinearSVC(C=C, tol=1e-9, max_iter=200_000, **settings).fit(X, y, sample_weight=weight)
    ours = FairLinearSVC(eta=0, alpha=0.01, **settings).fit(X, y, weight)
    assert ours.coef_ == pytest.approx(reference.coef_, abs=1e-4)
    assert ours.intercept_.tolist() == [0]


@pytest.mark.parametrize("alpha", [None, 0.0, 0.1])
def test_the_squared_hinge_is_the_minimum_scipy_finds(compas, alpha):
    X, y, _ = compas
    ridge = 1 / (10 * len(y)) if alpha is None else alpha

    def formula(t):
        slack = np.maximum(0, 1 - (2 * y - 1) * (X @ t[:4] + t[4]))
        return (slack**2).mean() + ridge / 2 * t[:4] @ t[:4]

    reference = minimize(formula, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    ours = FairLinearSVC(eta=0, alpha=alpha, loss="squared_hinge").fit(X, y)
    assert theta(ours) == pytest.approx(reference.x, abs=1e-5)
    assert ours.objective_ == pytest.approx(reference.fun, rel=1e-10)


def test_the_default_ridge_follows_the_weights(some):
    X, y, _ = some
    weight = np.full(len(y), 3.0)
    plain = FairLinearSVC(eta=0).fit(X, y, weight)
    by_hand = FairLinearSVC(eta=0, alpha=1 / (30 * len(y))).fit(X, y)
    assert plain.coef_ == pytest.approx(by_hand.coef_, abs=1e-4)
    heavy, light = (FairLinearSVC(eta=0, alpha=alpha).fit(X, y) for alpha in (10.0, 0.0))
    assert np.abs(heavy.coef_).max() < 0.1 < np.abs(light.coef_).max()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_units_of_the_features_do_not_matter(some, loss):
    """Years, incomes, an offset: without a ridge the objective is the same, in float32 too."""
    X, y, race = some
    settings = {"alpha": 0.0, "loss": loss}
    expected = FairLinearSVC(**settings).fit(X, y, sensitive_features=race).objective_
    for scale, offset in ((5, 2010), (2e4, 5e4), (1, 1e4), (1e-6, 0)):
        raw = X.copy()
        raw[:, 0] = scale * X[:, 0] + offset
        clf = FairLinearSVC(**settings).fit(raw, y, sensitive_features=race)
        assert clf.objective_ == pytest.approx(expected, rel=1e-5)
        assert clf.n_iter_ < 1500
        if offset < 1e4:
            single = FairLinearSVC(**settings).fit(raw.astype(np.float32), y, sensitive_features=race)
            assert single.objective_ == pytest.approx(expected, rel=2e-4)


# ---------------------------------------------------------------- with a penalty: calculus, momentum


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", PENALISED)
def test_no_higher_than_a_long_momentum_descent_from_the_same_start(some, distance, parity):
    X, y, race = some
    settings = {"parity": parity, "distance": distance, "eta": PENALISED[distance]}
    ours = FairLinearSVC(**settings).fit(X, y, sensitive_features=race)
    paper = FairLinearSVC(**settings, solver="momentum", max_iter=2500).fit(X, y, sensitive_features=race)
    assert ours.objective_ <= paper.objective_ * (1 + 1e-4)
    assert ours.objective_ >= paper.objective_ * (1 - 1e-3)
    start = FairLinearSVC(**settings, solver="momentum", max_iter=1).fit(X, y, sensitive_features=race)
    assert paper.objective_ < start.objective_ - 1e-4


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("distance", PENALISED)
def test_the_fitted_point_is_a_minimum_by_values_alone(some, distance, parity, fit_intercept):
    X, y, race = some
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    clf = FairLinearSVC(parity, distance=distance, eta=PENALISED[distance], fit_intercept=fit_intercept)
    clf.fit(X, y, weight, sensitive_features=race)
    F = objective(clf, X, y, race, weight)
    found = theta(clf)
    value = F(found)[0]
    assert clf.objective_ == pytest.approx(value, rel=1e-10)
    directions = np.r_[np.eye(len(found)), np.random.default_rng(2).standard_normal((10, len(found)))]
    around = [F(found + step * v)[0] for v in directions for step in (1e-2, -1e-2, 1e-3, -1e-3)]
    assert min(around) > value * (1 - 1e-6)
    assert value < F.with_eta(0.0)(found)[0] + clf.eta * clf.penalty_ + 1e-9


@pytest.mark.parametrize("parity", PARITIES)
@pytest.mark.parametrize("distance", PENALISED)
def test_objective_and_penalty_are_the_formula(some, distance, parity):
    X, y, race = some
    for machine in MACHINES.values():
        clf = machine(parity, distance=distance, eta=0.1).fit(X, y, sensitive_features=race)
        g = clf.decision_function(X)
        code = np.unique(race, return_inverse=True)[1]
        cells = make_cells(PARITIES[parity], y, code, 2, np.ones(len(y)))
        E_f = evaluate(DISTANCES[distance], g, cells)[0]
        if hasattr(clf, "coef_"):
            norm = (clf.coef_**2).sum()
        else:
            apart = clf.support_vectors_[:, None] - clf.support_vectors_[None]
            K = np.exp(-0.5 * (apart**2).sum(axis=2))
            norm = (clf.dual_coef_ @ K @ clf.dual_coef_.T).item()
        assert clf.penalty_ == pytest.approx(E_f, rel=1e-6)
        expected = hinge_loss(y, g) + norm / (20 * len(y)) + 0.1 * E_f
        assert clf.objective_ == pytest.approx(expected, rel=1e-7)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize(("name", "distance", "eta"), [
    ("linear", "gap", 10), ("linear", "histogram", 0.4), ("linear", "gaussian", 0.5),
    ("kernel", "gap", 20), ("kernel", "histogram", 3), ("kernel", "gaussian", 1),
])  # fmt: skip
def test_the_penalty_closes_the_gap_on_unseen_people(compas, name, distance, eta, parity):
    X, y, race = compas
    train = np.random.default_rng(0).random(len(y)) < 0.5

    def gap(eta):
        clf = MACHINES[name](parity, distance=distance, eta=eta)
        s = clf.fit(X[train], y[train], sensitive_features=race[train]).predict_proba(X[~train])[:, 1]
        return threshold_profile(y[~train], s, sensitive_features=race[~train], parity=parity).max_gap

    assert gap(eta) < 0.8 * gap(0)


def test_three_groups_and_crossed_columns():
    data = load_compas("all_races")
    big = np.flatnonzero(data.frame["race"].isin(["African-American", "Caucasian", "Hispanic"]))[:3000]
    X, y = standardised(data.X.iloc[big]), data.y.iloc[big].to_numpy()
    both = data.frame.iloc[big][["race", "sex"]]
    for machine in MACHINES.values():
        plain = machine(eta=0).fit(X, y)
        fair = machine(eta=30).fit(X, y, sensitive_features=both)
        assert len(fair.groups_) == 6
        assert fair.groups_[0] == ("African-American", "Female")
        gaps = [
            threshold_profile(y, clf.predict_proba(X)[:, 1], sensitive_features=both).max_gap
            for clf in (fair, plain)
        ]
        assert gaps[0] < 0.7 * gaps[1]


# ---------------------------------------------------------------- the path


@each
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_path_of_one_is_a_fit(some, machine, loss):
    X, y, race = some
    for eta in (0, 2.0):
        fitted = machine(eta=eta, loss=loss).fit(X, y, sensitive_features=race)
        (model,) = machine(loss=loss).fit_path(X, y, [eta], sensitive_features=race)
        assert np.array_equal(model.decision_function(X), fitted.decision_function(X))
        assert sorted(vars(model)) == sorted(vars(fitted))
        assert model.get_params() == fitted.get_params()
        for name in ("objective_", "penalty_", "n_iter_", "n_features_in_"):
            assert getattr(model, name) == getattr(fitted, name)


@each
def test_the_order_of_etas_is_kept_and_changes_nothing(some, machine):
    X, y, race = some
    etas = [3.0, 0, 0.5, 3.0]
    clf = machine(eta=17)
    models = clf.fit_path(X, y, etas, sensitive_features=race)
    ordered = clf.fit_path(X, y, np.array([0, 0.5, 3.0]), sensitive_features=race)
    assert [model.eta for model in models] == etas
    assert not hasattr(clf, "objective_")
    assert clf.eta == 17
    for model, place in zip(models, (2, 0, 1, 2), strict=True):
        assert np.array_equal(model.decision_function(X), ordered[place].decision_function(X))
    penalties = [model.penalty_ for model in ordered]
    assert penalties[0] > penalties[1] > penalties[2]
    direct = machine(eta=3.0).fit(X, y, sensitive_features=race)
    assert models[0].objective_ == pytest.approx(direct.objective_, rel=1e-3)


@each
def test_models_of_a_path_are_independent_and_pickle(some, machine):
    X, y, race = some
    names = [f"x{i}" for i in range(4)]
    frame = pd.DataFrame(X, columns=names)
    labels = np.where(y == 1, "yes", "no")
    first, second, twin = machine().fit_path(frame, labels, [0, 2, 2], sensitive_features=race)
    before = second.predict_proba(frame)
    assert second is not twin
    first.set_params(eta=9).fit(frame.iloc[::-1], labels, sensitive_features=race)
    twin.set_params(eta=0).fit(frame, labels)
    copy = pickle.loads(pickle.dumps(second))
    for model in (second, copy):
        assert np.array_equal(model.predict_proba(frame), before)
        assert model.eta == 2
        assert model.feature_names_in_.tolist() == names
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.groups_.tolist() == ["African-American", "Caucasian"]
        assert set(model.predict(frame)) == {"no", "yes"}


@each
def test_a_path_without_a_penalty_needs_no_groups(some, machine):
    X, y, race = some
    (model,) = machine().fit_path(X, y, [0])
    assert not hasattr(model, "groups_")
    with pytest.raises(MissingSensitiveFeatures, match=r"required when eta > 0, got None with eta=2\.0"):
        machine(eta=0).fit_path(X, y, [0, 2.0])
    for etas, message in (
        ([], "`etas` must have at least 1 value, got 0"),
        (3.0, r"`etas` must be a sequence of numbers, got 3\.0"),
        ([[1.0]], r"`etas` must be a sequence of numbers, got \[\[1\.0\]\]"),
        ([1, -1], r"`etas\[1\]` must be a finite number of at least 0, got -1"),
        ([np.nan], r"`etas\[0\]` must be a finite number of at least 0, got nan"),
        (["1"], r"`etas\[0\]` must be a finite number of at least 0, got '1'"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            machine().fit_path(X, y, etas, sensitive_features=race)


@each
def test_row_order_changes_no_bit_of_a_path(some, machine):
    X, y, race = some
    order = np.random.default_rng(0).permutation(len(y))
    one = machine().fit_path(X, y, [0, 1], sensitive_features=race)
    other = machine().fit_path(X[order], y[order], [0, 1], sensitive_features=race[order])
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.decision_function(X), b.decision_function(X))


# ---------------------------------------------------------------- warnings


@each
def test_no_convergence_is_warned_of_at_the_callers_line(some, machine):
    X, y, race = some
    settings = {"max_iter": 2, "tol": 1e-9}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine(eta=0).set_params(**settings).fit(X, y)
        machine().set_params(**settings).fit_path(X, y, [0], sensitive_features=race)
    here = test_no_convergence_is_warned_of_at_the_callers_line.__code__.co_firstlineno
    assert [warning.category for warning in caught] == [ConvergenceWarning] * 2
    assert raised_at(caught) == [(__file__, here + 6), (__file__, here + 7)]
    message = (
        r"stopped after 2 iterations at eta=0 with a gradient of .*, above tol=1\.0e-09\. Raise max_iter"
    )
    with pytest.warns(ConvergenceWarning, match=message):
        machine(eta=0).set_params(**settings).fit(X, y)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@each
def test_collapse_and_majority_rate_are_named_at_the_callers_line(some, machine):
    X, y, race = some
    with pytest.warns(CollapseWarning, match=r"squeezed together .*eta \(now 10000\)") as caught:
        machine(eta=10_000, alpha=0.1).fit(X, y, sensitive_features=race)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(CollapseWarning) as caught:
        machine(alpha=0.1).fit_path(X, y, [10_000], sensitive_features=race)
    assert {warning.filename for warning in caught} == {__file__}


def test_worse_than_a_constant_and_reversed_are_named(some):
    X, y, race = some
    clf = FairLinearSVC(warm_start=True).fit(X, y, sensitive_features=race)
    clf.coef_, clf.tol, clf.max_iter = -clf.coef_, 1e3, 1  # so slack that the fit ends near its start
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, sensitive_features=race)
    told = {warning.category: str(warning.message) for warning in caught}
    assert told.keys() >= {ReversedRankingWarning, MajorityRateWarning}
    assert "is under 0.5: the scores rank people worse than chance" in told[ReversedRankingWarning]
    assert "is under the majority rate" in told[MajorityRateWarning]


@pytest.mark.parametrize("eta", [0, 1])
def test_a_rare_label_is_named_where_the_hinge_itself_is_constant(some, eta):
    X, y, race = some
    rare = y * (np.arange(len(y)) % 12 == 0)
    clf = FairLinearSVC(eta=eta)
    message = (
        r"at eta=0 too: .* the hinge loss alone is least at a constant score\. Set loss='squared_hinge' or "
        r"class_weight='balanced'$"
    )
    with pytest.warns(CollapseWarning, match=message) as caught:
        clf.fit(X, rare, sensitive_features=race)
    assert {warning.filename for warning in caught} == {__file__}
    assert not SVC(kernel="linear", C=10).fit(X, rare).coef_.round(3).any()
    helped = clone(clf).set_params(class_weight="balanced").fit(X, rare, sensitive_features=race)
    assert roc_auc_score(rare, helped.decision_function(X)) > 0.6
    helped = clone(clf).set_params(loss="squared_hinge")
    expected = "at eta=0 too: .* all risks are alike. Set class_weight='balanced'$"
    with pytest.warns(CollapseWarning, match=expected) if eta else nullcontext():
        helped.fit(X, rare, sensitive_features=race)
    assert roc_auc_score(rare, helped.decision_function(X)) > 0.6
    nothing = np.zeros_like(X)
    expected = "no column of X varies" if eta else "Set loss='squared_hinge'$"
    with pytest.warns(CollapseWarning, match=expected):
        clf.set_params(class_weight="balanced").fit(nothing, rare, sensitive_features=race)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
def test_a_collapse_by_the_penalty_or_the_ridge_is_not_the_hinges(some):
    X, y, race = some
    clf = FairLinearSVC(eta=0, alpha=10.0).fit(X, y)  # a warning would be an error
    assert clf.predict_proba(X)[:, 1].std() < 0.01
    with pytest.warns(CollapseWarning, match="Lower eta"):
        clf.set_params(eta=1000, alpha=1.0).fit(X, y, sensitive_features=race)


@each
def test_a_plain_fit_warns_of_nothing(some, machine):
    X, y, _ = some
    machine(eta=0).fit(X, y)  # warnings are errors here


# ---------------------------------------------------------------- the contract


@each
def test_predictions_follow_the_definitions(some, machine):
    X, y, race = some
    labels = np.where(y == 1, "yes", "no")
    clf = machine(eta=1).fit(X, labels, sensitive_features=race)
    g, s = clf.decision_function(X), clf.predict_proba(X)
    assert s[:, 1] == pytest.approx(1 / (1 + np.exp(-g)), rel=1e-12)
    assert s.sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert np.array_equal(clf.predict(X), np.where(g > 0, "yes", "no"))
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.groups_.tolist() == ["African-American", "Caucasian"]
    assert clf.n_features_in_ == 4


@each
def test_weights_equal_repetition_bit_for_bit(some, machine):
    X, y, race = (a[:400] for a in some)
    times = np.random.default_rng(0).integers(0, 4, 400)
    weighted = machine(eta=2).fit(X, y, times, sensitive_features=race)
    repeated = machine(eta=2).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times), sensitive_features=np.repeat(race, times)
    )
    assert np.array_equal(weighted.decision_function(X), repeated.decision_function(X))
    assert weighted.objective_ == repeated.objective_


@each
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sparse_equals_dense(some, machine, loss):
    X, y, race = (a[:400] for a in some)
    X = np.where(np.abs(X) < 0.5, 0, X)
    exact = {} if machine is FairLinearSVC else {"n_components": None}
    for eta, close in ((0, 1e-3), (2, 3e-2)):  # with a penalty, rounding may choose another path
        clf = machine(eta=eta, loss=loss).set_params(tol=1e-7, **exact)
        dense = clone(clf).fit(X, y, sensitive_features=race)
        for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
            found = clone(clf).fit(kind(X), y, sensitive_features=race)
            assert found.objective_ == pytest.approx(dense.objective_, rel=1e-5)
            assert found.decision_function(kind(X)) == pytest.approx(dense.decision_function(X), abs=close)
            assert found.decision_function(X) == pytest.approx(found.decision_function(kind(X)), abs=1e-9)


def test_float32_stays_float32_in_the_linear_machine(some):
    X, y, race = some
    double = FairLinearSVC(eta=5).fit(X, y, sensitive_features=race)
    single = FairLinearSVC(eta=5).fit(X.astype(np.float32), y, sensitive_features=race)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert single.coef_ == pytest.approx(double.coef_, abs=5e-3)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-4)


@each
def test_warm_start_begins_where_the_last_fit_ended(some, machine):
    X, y, race = some
    clf = machine(eta=3, warm_start=True, loss="squared_hinge").fit(X, y, sensitive_features=race)
    cold, g = clf.n_iter_, clf.decision_function(X)
    clf.fit(X, y, sensitive_features=race)
    assert clf.n_iter_ <= 2 < cold
    assert clf.decision_function(X) == pytest.approx(g, abs=1e-4)
    hinge = machine(eta=3, warm_start=True).fit(X, y, sensitive_features=race)
    cold, value = hinge.n_iter_, hinge.objective_
    hinge.fit(X, y, sensitive_features=race)
    assert hinge.n_iter_ < 0.7 * cold
    assert hinge.objective_ == pytest.approx(value, rel=1e-5)
    clf.fit(X[:, :3], y, sensitive_features=race)  # another width: a cold start, no error
    assert clf.decision_function(X[:, :3]).shape == y.shape


@each
def test_pickle_joblib_and_clone(some, machine, tmp_path):
    X, y, race = some
    clf = machine(distance=GapDistance(window=(0.2, 0.6)), eta=1)
    fitted = clone(clf).fit(X, y, sensitive_features=race)
    assert clone(fitted).get_params() == clf.get_params()
    assert not hasattr(clone(fitted), "classes_")
    joblib.dump(fitted, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model.joblib")):
        assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    again = clone(clf).fit(X, y, sensitive_features=race)
    assert pickle.dumps(again) == pickle.dumps(fitted)


@each
def test_a_rule_and_a_distance_of_ones_own(some, machine):
    X, y, race = some
    rule = Parity("mine", ("repeat",), lambda y: y - 1)
    mine = machine(rule, distance=GapDistance(), eta=1).fit(X, y, sensitive_features=race)
    named = machine("equal_opportunity", eta=1).fit(X, y, sensitive_features=race)
    assert np.array_equal(mine.decision_function(X), named.decision_function(X))


@each
def test_inside_scikit_learn_with_routing(machine):
    X, y, race = (part.iloc[:900] for part in load_compas())
    pipe = make_pipeline(StandardScaler(), machine(eta=2))
    by_hand = machine(eta=2).fit(StandardScaler().fit_transform(X), y, sensitive_features=race)
    expected = by_hand.predict_proba(StandardScaler().fit_transform(X))
    with sklearn.config_context(enable_metadata_routing=True):
        assert np.array_equal(clone(pipe).fit(X, y, sensitive_features=race).predict_proba(X), expected)
        with pytest.raises(MissingSensitiveFeatures, match="required when eta > 0"):
            clone(pipe).fit(X, y)
        grid = {f"{pipe.steps[-1][0]}__eta": [0, 2]}
        search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, y, sensitive_features=race)
        assert search.best_score_ > 0.6
        params = {"sensitive_features": race}
        scores = cross_validate(pipe, X, y, cv=2, params=params, error_score="raise")["test_score"]
        assert (scores > 0.55).all()
        fixed = FixedThresholdClassifier(pipe, threshold=0.6, response_method="predict_proba")
        fixed.fit(X, y, sensitive_features=race)
        assert np.array_equal(fixed.predict(X), (expected[:, 1] >= 0.6).astype(int))


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
@each
def test_constant_columns_and_equal_rows_with_different_labels(some, machine):
    X, y, race = (a[:300] for a in some)
    padded = np.column_stack([X, np.full(300, 7.0), np.zeros(300)])
    clf = machine(eta=1, alpha=1e-3).fit(padded, y, sensitive_features=race)
    plain = machine(eta=1, alpha=1e-3).fit(X, y, sensitive_features=race)
    assert clf.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    both = machine(eta=0, alpha=1e-3).fit(np.r_[X, X], np.r_[y, 1 - y])
    assert both.objective_ == pytest.approx(1, rel=1e-5)
    assert np.abs(both.decision_function(X)).max() <= 1 + 1e-6
    nothing = machine(eta=0).fit(np.ones((40, 3)), [0, 1, 1, 1] * 10)
    assert nothing.decision_function(np.ones((1, 3))) == pytest.approx([1], abs=1e-5)
    assert nothing.objective_ == pytest.approx(0.5, rel=1e-6)


@each
def test_verbose_writes_every_iteration_to_standard_error(some, machine, capsys):
    X, y, race = some
    clf = machine(eta=0.02, verbose=1).fit(X, y, sensitive_features=race)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line for line in lines if line.startswith("eta")] == ["eta 0", "eta 0.01", "eta 0.02"]
    assert sum(line.startswith("newton") for line in lines) == clf.n_iter_


@each
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "log"}, "`loss` must be one of 'hinge', 'squared_hinge', got 'log'"),
        ({"loss": None}, "`loss` must be one of 'hinge', 'squared_hinge', got None"),
        ({"alpha": -1}, "`alpha` must be a finite number of at least 0, got -1"),
        ({"alpha": "auto"}, "`alpha` must be a finite number of at least 0, got 'auto'"),
        ({"alpha": np.inf}, "`alpha` must be a finite number of at least 0, got inf"),
        ({"eta": -1}, "`eta` must be a finite number of at least 0, got -1"),
        ({"tol": 0}, "`tol` must be a finite number above 0, got 0"),
        ({"max_iter": 0}, "`max_iter` must be a whole number of at least 1, got 0"),
        ({"solver": "smo"}, "`solver` must be one of 'auto', 'lbfgs', 'newton', 'momentum', got 'smo'"),
        ({"fit_intercept": "no"}, "`fit_intercept` must be True or False, got 'no'"),
        ({"warm_start": 1}, "`warm_start` must be True or False, got 1"),
    ],
)
def test_bad_settings(some, machine, params, message):
    X, y, race = (a[:100] for a in some)
    good = machine(eta=0).fit(X, y)
    before = good.predict_proba(X)
    with pytest.raises(ValueError) as error:
        good.set_params(**params).fit(X[:50], y[:50], sensitive_features=race[:50])
    assert str(error.value) == message
    assert np.array_equal(good.predict_proba(X), before)
