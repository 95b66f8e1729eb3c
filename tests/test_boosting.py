"""Fair boosted trees: the objective goes down, the libraries' own models come out."""

import json
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk import BudgetSearchCV, GapDistance, HistogramDistance, _kernels, threshold_profile
from evenrisk.distances import DISTANCES, evaluate
from evenrisk.exceptions import MissingSensitiveFeatures
from evenrisk.objective import Penalty, Terms
from evenrisk.parity import PARITIES, make_cells
from groups_from_rows import GroupsFromRows
from optional import need
from worlds import as_it_came, in_pieces, world

lgb = need("lightgbm")
xgb = need("xgboost")

from evenrisk.boosting import (  # noqa: E402
    FairLGBMClassifier,
    FairXGBClassifier,
    ParityObjective,
    _rounds,
)
from evenrisk.boosting._lightgbm import leaves_of_moves  # noqa: E402
from evenrisk.boosting._rounds import NewTree, StoppingRule, boost  # noqa: E402

KINDS = (FairLGBMClassifier, FairXGBClassifier)
COLLAPSE = pytest.mark.filterwarnings(
    "ignore::evenrisk.exceptions.CollapseWarning", "ignore::evenrisk.exceptions.MajorityRateWarning"
)


def one_thread(kind, *args, **settings):
    small = {"num_leaves": 15} if kind is FairLGBMClassifier else {"max_depth": 4}
    return kind(*args, **{"n_jobs": 1, "learning_rate": 0.1} | small | settings)


def objective(clf, X, y, groups, weight=None, loss_weight=None):
    """Log loss by scikit-learn + η·E_f by the core."""
    g = clf.decision_function(X)
    code = np.unique(groups, return_inverse=True)[1]
    weight = np.ones(len(y)) if weight is None else weight
    distance = DISTANCES.get(clf.distance, clf.distance) if isinstance(clf.distance, str) else clf.distance
    cells = make_cells(PARITIES[clf.parity], y, code, code.max() + 1, weight)
    s = 1 / (1 + np.exp(-g))
    loss = log_loss(y, s, sample_weight=weight if loss_weight is None else loss_weight)
    return loss + clf.eta * float(evaluate(distance, g, cells)[0])


@pytest.fixture(scope="module")
def split(compas):
    X, y, race = compas
    train = np.random.default_rng(0).random(len(y)) < 0.7
    return (X[train], y[train], race[train]), (X[~train], y[~train], race[~train])


# ---------------------------------------------------------------- down, always


# η and rounds: the strongest penalty has the narrowest valley, and goes on for long
ROUNDS = pytest.mark.parametrize(("eta", "rounds"), [(1, 100), (10, 200), (100, 500)])


@COLLAPSE
@ROUNDS
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", ["gap", "histogram"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_objective_never_rises_over_500_rounds(compas, kind, distance, parity, eta, rounds):
    X, y, race = compas
    clf = one_thread(kind, parity, distance=distance, eta=eta, n_estimators=rounds)
    clf.fit(X, y, sensitive_features=race)
    assert len(clf.objective_curve_) == clf.n_estimators_ + 1 == rounds + 1
    assert np.diff(clf.objective_curve_).max() <= 0
    assert clf.objective_curve_[-1] < clf.objective_curve_[0] - 0.05
    # what is measured on the way is what the finished model has
    assert clf.objective_ == pytest.approx(objective(clf, X, y, race), rel=1e-5)


@COLLAPSE
@pytest.mark.parametrize(
    ("distance", "parity", "rate"),
    [
        (GapDistance(scale="rank"), "demographic_parity", 0.1),
        (GapDistance(scale="rank", power=8), "equalized_odds", 0.1),
        (GapDistance(window=(0.3, 0.7)), "equal_opportunity", 0.3),
        (GapDistance(50), "predictive_equality", 1.0),
        (HistogramDistance(50), "demographic_parity", 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_nor_with_other_settings_of_a_distance_or_long_steps(compas, kind, distance, parity, rate):
    X, y, race = compas
    for eta in (1, 100):
        clf = one_thread(kind, parity, distance=distance, eta=eta, n_estimators=30, learning_rate=rate)
        clf.fit(X, y, sensitive_features=race)
        assert np.diff(clf.objective_curve_).max() <= 0
        assert clf.objective_curve_[-1] < clf.objective_curve_[0]


@COLLAPSE
@pytest.mark.parametrize("kind", KINDS)
def test_nor_with_bagging_weights_three_groups_and_class_weights(compas, kind):
    X, y, race = compas
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(len(y)) < 0.2, "other", race)
    weight = rng.gamma(2, size=len(y)) * (rng.random(len(y)) < 0.9)
    bagging = {"subsample": 0.5, "random_state": 0}
    if kind is FairLGBMClassifier:
        bagging |= {"subsample_freq": 1, "class_weight": {0: 1.0, 1: 3.0}}
    else:
        bagging |= {"scale_pos_weight": 3.0}
    clf = one_thread(kind, eta=20, n_estimators=100, **bagging)
    clf.fit(X, y, weight, sensitive_features=groups)
    assert np.diff(clf.objective_curve_).max() <= 0
    kept = weight > 0
    by_class = weight * np.where(y == 1, 3.0, 1.0)
    expected = objective(clf, X[kept], y[kept], groups[kept], weight[kept], by_class[kept])
    assert clf.objective_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@ROUNDS
def test_the_bare_objective_never_rises_over_500_rounds(compas, library, parity, eta, rounds):
    X, y, race = compas
    parity = ParityObjective(race, parity=parity, eta=eta)
    record = {}
    if library == "lightgbm":
        data = lgb.Dataset(X, y)
        settings = {
            "objective": parity,
            "verbosity": -1,
            "num_threads": 1,
            "num_leaves": 15,
            "metric": "none",
        }
        told = [lgb.record_evaluation(record)]
        lgb.train(settings, data, rounds, valid_sets=[data], feval=parity.metric, callbacks=told)
    else:
        data = xgb.DMatrix(X, y)
        settings = {"nthread": 1, "max_depth": 4, "eta": 0.1, "disable_default_eval_metric": True}
        common = {"obj": parity, "custom_metric": parity.metric, "verbose_eval": False}
        xgb.train(settings, data, rounds, evals=[(data, "training")], evals_result=record, **common)
    (curve,) = record["training"].values()
    assert len(curve) == rounds
    assert np.diff(curve).max() <= 1e-7  # XGBoost's scores are single
    assert curve[-1] < curve[0] - 1e-3


# ---------------------------------------------------------------- without a penalty: the libraries


@pytest.mark.parametrize("weighted", [False, True])
def test_eta_zero_is_plain_lightgbm(compas, weighted):
    X, y, _ = compas
    weight = np.random.default_rng(0).gamma(2, size=len(y)) if weighted else None
    settings = {"n_estimators": 80, "num_leaves": 20, "subsample": 0.7, "subsample_freq": 1, "max_bin": 50}
    settings |= {"class_weight": "balanced", "random_state": 3, "n_jobs": 1, "verbosity": -1}
    plain = lgb.LGBMClassifier(**settings)
    ours = FairLGBMClassifier(eta=0, **settings)
    plain.fit(X, y, sample_weight=weight)
    ours.fit(X, y, weight)
    assert ours.predict_proba(X) == pytest.approx(plain.predict_proba(X), abs=1e-12)
    assert (ours.feature_importances_ == plain.feature_importances_).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_eta_zero_is_plain_xgboost(compas, weighted):
    X, y, _ = compas
    weight = np.random.default_rng(0).gamma(2, size=len(y)) if weighted else None
    settings = {"n_estimators": 80, "max_depth": 4, "subsample": 0.7, "max_bin": 50, "scale_pos_weight": 2.0}
    settings |= {"random_state": 3}
    plain = xgb.XGBClassifier(**settings, n_jobs=1).fit(X, y, sample_weight=weight)
    ours = FairXGBClassifier(eta=0, **settings, n_jobs=1).fit(X, y, weight)
    assert ours.predict_proba(X) == pytest.approx(plain.predict_proba(X), abs=2e-7)
    assert ours.feature_importances_ == pytest.approx(plain.feature_importances_, abs=1e-6)


BAGGED = {"subsample": 0.6, "subsample_freq": 1}


@pytest.mark.filterwarnings(
    "ignore:Early stopping is not available in dart mode", "ignore:The argument 'eval_set' is deprecated"
)
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {"boosting_type": "dart", "drop_rate": 0.5},
        {"boosting_type": "rf", **BAGGED},
        {"boosting_type": "random_forest", **BAGGED, "pred_early_stop": True},
        {"boosting_type": "goss"},
        {"data_sample_strategy": "goss"},
        {"pred_early_stop": True, "pred_early_stop_freq": 2, "pred_early_stop_margin": 0.3},
        {"boost_from_average": False},
        {"linear_tree": True},
    ],
    ids=str,
)
def test_eta_zero_is_lightgbm_with_every_type_of_booster(split, more, stops):
    (X, y, _), (X_test, y_test, _) = split
    settings = {"n_estimators": 20, "num_leaves": 8, "learning_rate": 0.5, "n_jobs": 1} | more
    theirs, ours = lgb.LGBMClassifier(verbosity=-1, **settings), FairLGBMClassifier(eta=0, **settings)
    if stops:
        stop = lgb.early_stopping(2, verbose=False)
        theirs.fit(X, y, eval_set=[(X_test, y_test)], callbacks=[stop])
        ours.set_params(early_stopping_rounds=2).fit(X, y, eval_set=(X_test, y_test))
        assert ours.n_estimators_ == (theirs.best_iteration_ or 20)
    else:
        theirs.fit(X, y)
        ours.fit(X, y)
    assert ours.predict_proba(X_test) == pytest.approx(theirs.predict_proba(X_test), abs=1e-12)
    again = pickle.loads(pickle.dumps(ours))
    assert (again.decision_function(X_test) == ours.decision_function(X_test)).all()


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {"booster": "dart", "rate_drop": 0.3},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"base_score": 0.2},
    ],
    ids=str,
)
def test_eta_zero_is_xgboost_with_every_type_of_booster(split, more, stops):
    (X, y, _), (X_test, y_test, _) = split
    settings = {"n_estimators": 30, "max_depth": 4, "learning_rate": 0.5, "n_jobs": 1} | more
    if stops:
        settings["early_stopping_rounds"] = 3
    theirs, ours = xgb.XGBClassifier(**settings), FairXGBClassifier(eta=0, **settings)
    theirs.fit(X, y, eval_set=[(X_test, y_test)], verbose=False)
    ours.fit(X, y, eval_set=(X_test, y_test))
    assert ours.n_estimators_ == (theirs.best_iteration + 1 if stops else 30)
    assert ours.predict_proba(X_test) == pytest.approx(theirs.predict_proba(X_test), abs=2e-7)


def test_types_of_booster_that_cannot_be_right_are_refused_with_the_reason(compas):
    X, y, race = compas
    groups = {"sensitive_features": race}
    for name in ("dart", "rf", "goss"):
        with pytest.raises(
            ValueError, match=f"must be 'gbdt' when eta > 0, got '{name}': .* rescale or average"
        ):
            FairLGBMClassifier(boosting_type=name, **BAGGED).fit(X, y, **groups)
    with pytest.raises(ValueError, match=r"`pred_early_stop` must not .* the scores of all trees"):
        FairLGBMClassifier(pred_early_stop=True).fit(X, y, **groups)
    with pytest.raises(ValueError, match=r"`boost_from_average` must not .* starts at the prevalence"):
        FairLGBMClassifier(boost_from_average=False).fit(X, y, **groups)
    with pytest.raises(ValueError, match="must be 'gbtree' when eta > 0, got 'dart', which rescales trees"):
        FairXGBClassifier(booster="dart").fit(X, y, **groups)
    for eta in (0, 1):
        with pytest.raises(ValueError, match=r"`booster` must be 'gbtree', .* got 'gblinear', which has no"):
            FairXGBClassifier(eta=eta, booster="gblinear").fit(X, y, **groups)
    # what asks for nothing else is let through, and sampling by gradient leaves the objective what it is
    fine = {"boost_from_average": True, "linear_tree": False, "pred_early_stop": False}
    clf = one_thread(FairLGBMClassifier, eta=5, n_estimators=10, data_sample_strategy="goss", **fine)
    clf.set_params(learning_rate=0.3).fit(X, y, **groups)
    assert clf.objective_ == pytest.approx(objective(clf, X, y, race), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_vanishing_penalty_is_nearly_none(compas, kind, weighted):
    X, y, race = compas
    weight = np.random.default_rng(0).gamma(2, size=len(y)) if weighted else None
    plain = one_thread(kind, eta=0, n_estimators=30).fit(X, y, weight)
    fair = one_thread(kind, eta=1e-9, n_estimators=30).fit(X, y, weight, sensitive_features=race)
    assert np.abs(fair.predict_proba(X) - plain.predict_proba(X)).mean() < 0.002


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_without_a_split_is_not_the_end(compas, kind):
    X, y, race = compas
    high = {"min_split_gain": 30.0} if kind is FairLGBMClassifier else {"gamma": 30.0}
    clf = one_thread(kind, eta=1, n_estimators=15, colsample_bytree=0.25, random_state=0, **high)
    clf.fit(X[:, [0, 1, 2, 3]], y, sensitive_features=race)
    assert 0 < clf.n_estimators_ == len(clf.objective_curve_) - 1
    assert clf.objective_ == pytest.approx(objective(clf, X, y, race), rel=1e-5)


@COLLAPSE
def test_what_raises_the_rarer_label_in_lightgbm_does_so_here(compas):
    X, y, race = compas
    rare = np.flatnonzero((y == 1) | (np.arange(len(y)) % 4 == 0))
    # LightGBM starts at the plain prevalence, so that some rounds must pass
    mean = {}
    for name, more in {
        "none": {},
        "raised": {"is_unbalance": True},
        "half": {"scale_pos_weight": 0.5},
    }.items():
        for eta in (0, 1e-9):
            clf = one_thread(FairLGBMClassifier, eta=eta, n_estimators=100, **more)
            clf.fit(X[rare], y[rare], sensitive_features=race[rare])
            mean[name, eta] = clf.predict_proba(X[rare])[:, 1].mean()
        assert mean[name, 1e-9] == pytest.approx(mean[name, 0], abs=0.01)
    assert abs(mean["raised", 0] - mean["none", 0]) > 0.1
    assert abs(mean["half", 0] - mean["none", 0]) > 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_a_refit_leaves_nothing_of_the_fit_before(compas, kind):
    X, y, race = compas
    clf = one_thread(kind, eta=5, n_estimators=5).fit(X, y, sensitive_features=race)
    assert clf.set_params(eta=0).fit(X, y).predict(X).shape == y.shape
    assert not hasattr(clf, "objective_")
    assert not hasattr(clf, "objective_curve_")


# ---------------------------------------------------------------- what it is for


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_penalty_closes_the_gap_on_unseen_people(split, kind, parity):
    (X, y, race), (X_test, y_test, race_test) = split
    gap, area = {}, {}
    for eta in (0, 20):
        clf = one_thread(kind, parity, eta=eta, n_estimators=40, learning_rate=0.05)
        s = clf.fit(X, y, sensitive_features=race).predict_proba(X_test)[:, 1]
        gap[eta] = threshold_profile(y_test, s, sensitive_features=race_test, parity=parity).max_gap
        area[eta] = roc_auc_score(y_test, s)
    assert gap[0] > 0.2
    assert gap[20] < 0.7 * gap[0]
    assert area[20] > 0.6


@COLLAPSE
@pytest.mark.parametrize("kind", KINDS)
def test_leaves_solved_together_get_further_than_a_common_factor(compas, kind):
    X, y, race = compas
    together = one_thread(kind, eta=100, n_estimators=30).fit(X, y, sensitive_features=race)
    scaled = one_thread(kind, eta=100, n_estimators=30, reg_alpha=1e-12).fit(X, y, sensitive_features=race)
    assert together.objective_ < scaled.objective_ - 0.01
    assert np.diff(scaled.objective_curve_).max() <= 0


@pytest.mark.parametrize("kind", KINDS)
def test_monotone_constraints_hold_with_a_penalty(compas, kind):
    X, y, race = compas
    clf = one_thread(kind, eta=5, n_estimators=60, monotone_constraints=(0, 0, 1, 0))
    clf.fit(X, y, sensitive_features=race)
    free = one_thread(kind, eta=5, n_estimators=60).fit(X, y, sensitive_features=race)
    grid = np.repeat(X[:200], 30, axis=0)
    grid[:, 2] = np.tile(np.linspace(X[:, 2].min(), X[:, 2].max(), 30), 200)
    falls = [np.diff(each.decision_function(grid).reshape(200, 30)).min() for each in (clf, free)]
    assert falls[0] >= -1e-6
    assert falls[1] < -1e-3


# ---------------------------------------------------------------- what comes in


def test_categories_of_an_array_are_named_in_the_constructor():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 12, 1000), rng.standard_normal(1000)])
    y = ((X[:, 0] % 3 == 0) * 1.5 + 0.3 * X[:, 1] + rng.standard_normal(1000) > 0.7).astype(int)
    group = rng.integers(0, 2, 1000)
    settings = {"n_estimators": 5, "n_jobs": 1}
    theirs = lgb.LGBMClassifier(verbosity=-1, **settings).fit(X, y, categorical_feature=[0])
    ours = FairLGBMClassifier(eta=0, categorical_feature=[0], **settings).fit(X, y)
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-12)
    fair = FairLGBMClassifier(eta=5, categorical_feature=[0], **settings).fit(X, y, sensitive_features=group)
    splits = fair.booster_.trees_to_dataframe().query("split_feature == 'Column_0'")
    assert set(splits.decision_type) == {"=="}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_with_categories_and_missing_values(kind):
    rng = np.random.default_rng(0)
    n = 2000
    trade = pd.Categorical(rng.choice(["smith", "baker", "miller", "tailor"], n))
    age = rng.normal(40, 10, n)
    y = ((trade == "baker") + 0.05 * (age - 40) + rng.logistic(size=n) > 0.5).astype(int)
    groups = np.where(rng.random(n) < 0.4 + 0.2 * y, "a", "b")
    frame = pd.DataFrame({"trade": trade, "age": np.where(rng.random(n) < 0.1, np.nan, age)})
    clf = one_thread(kind, eta=2, n_estimators=40).fit(frame, y, sensitive_features=groups)
    assert roc_auc_score(y, clf.predict_proba(frame)[:, 1]) > 0.65
    assert clf.feature_names_in_.tolist() == ["trade", "age"]
    assert (clf.feature_importances_ > 0).all()
    # the category is what counts, not its code
    recoded = frame.assign(trade=frame.trade.cat.reorder_categories(["tailor", "smith", "miller", "baker"]))
    assert (clf.predict_proba(recoded) == clf.predict_proba(frame)).all()
    # in an evaluation set too, and names may be in any script
    renamed = {"trade": "métier", "age": "âge"}
    more = {"eval_set": (recoded.rename(columns=renamed), y), "eval_sensitive_features": groups}
    again = clone(clf).fit(frame.rename(columns=renamed), y, sensitive_features=groups, **more)
    assert again.evals_result_["valid_0"]["objective"] == pytest.approx(again.objective_curve_[1:], rel=1e-5)
    assert (again.predict_proba(frame.rename(columns=renamed)) == clf.predict_proba(frame)).all()
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["age", "trade"]])


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_polars_and_float32_are_dense_float64(compas, kind):
    pl = need("polars")
    X, y, race = compas
    clf = one_thread(kind, eta=5, n_estimators=20).fit(X, y, sensitive_features=race)
    scores = clf.decision_function(X)
    for other in (X.astype(np.float32), pl.DataFrame(X, schema=list("abcd"))):
        again = clone(clf).fit(other, y, sensitive_features=pl.Series(race))
        assert again.decision_function(other) == pytest.approx(scores, abs=1e-4)
    positive = np.abs(X) * (np.abs(X) > 0.5)
    dense = clone(clf).fit(positive, y, sensitive_features=race)
    if kind is FairLGBMClassifier:  # to XGBoost an entry that is not there is missing
        thin = clone(clf).fit(sparse.csr_array(positive), y, sensitive_features=race)
        assert thin.decision_function(positive) == pytest.approx(dense.decision_function(positive), abs=1e-9)


@pytest.mark.parametrize("eta", [0, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_a_sparse_matrix_that_come_twice_are_summed(split, kind, eta):
    sets = [(np.where(np.abs(X) > 0.5, X, 0.0)[:600], y[:600], race[:600]) for X, y, race in split]
    found = {}
    for make in (in_pieces, sparse.csr_matrix):
        (X, y, race), (X_test, y_test, race_test) = ((make(X), y, race) for X, y, race in sets)
        before = as_it_came(X), as_it_came(X_test)
        clf = one_thread(kind, eta=eta, n_estimators=8)
        more = {"eval_set": (X_test, y_test), "eval_sensitive_features": race_test}
        clf.fit(X, y, sensitive_features=race, **more)
        found[make] = clf.decision_function(X_test), clf.evals_result_["valid_0"]["log_loss"]
        for now, then in zip((X, X_test), before, strict=True):
            for a, b in zip(as_it_came(now), then, strict=True):
                np.testing.assert_array_equal(a, b)
    for a, b in zip(found[in_pieces], found[sparse.csr_matrix], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_parameter_reaches_the_library(compas, kind):
    X, y, race = compas
    if kind is FairLGBMClassifier:
        clf = FairLGBMClassifier(num_leaves=4, n_estimators=5, max_bin=7, extra_trees=True, n_jobs=1)
        clf.fit(X, y, sensitive_features=race)
        trees = clf.booster_.dump_model()["tree_info"]
        assert {tree["num_leaves"] for tree in trees} == {4}
        assert "[max_bin: 7]" in clf.booster_.model_to_string()
        assert "[extra_trees: 1]" in clf.booster_.model_to_string()
    else:
        clf = FairXGBClassifier(max_leaves=4, grow_policy="lossguide", n_estimators=5, max_bin=7, n_jobs=1)
        clf.fit(X, y, sensitive_features=race)
        frame = clf.booster_.trees_to_dataframe()
        assert ((frame.Feature == "Leaf").groupby(frame.Tree).sum() == 4).all()
        cuts = frame[frame.Feature != "Leaf"].groupby("Feature").Split.nunique()
        assert cuts.max() <= 7
    assert clf.get_params()["max_bin"] == 7
    assert clone(clf).get_params() == clf.get_params()
    assert clone(clf).set_params(max_bin=9, eta=3).get_params()["max_bin"] == 9
    ranked = clone(clf).set_params(distance=GapDistance(), distance__scale="rank", max_bin=9)
    assert ranked.get_params()["distance__scale"] == "rank"
    assert clone(ranked).get_params(deep=False) == ranked.get_params(deep=False)
    assert "max_bin=7" in repr(clf)


# ---------------------------------------------------------------- evaluation sets


@pytest.mark.parametrize("kind", KINDS)
def test_early_stopping_keeps_the_trees_up_to_the_lowest_objective(split, kind):
    (X, y, race), (X_test, y_test, race_test) = split
    clf = one_thread(kind, eta=5, n_estimators=400, early_stopping_rounds=15)
    more = {"eval_set": [(X, y), (X_test, y_test)], "eval_sensitive_features": [race, race_test]}
    clf.fit(X, y, sensitive_features=race, **more)
    curve = clf.evals_result_["valid_1"]["objective"]
    assert clf.best_iteration_ == clf.n_estimators_ == 1 + int(np.argmin(curve)) < 400
    assert len(curve) == clf.best_iteration_ + 15
    assert min(curve) == pytest.approx(objective(clf, X_test, y_test, race_test), rel=1e-5)
    # the training rows as an evaluation set say what the training says
    on_train = clf.evals_result_["valid_0"]["objective"][: clf.n_estimators_]
    assert on_train == pytest.approx(clf.objective_curve_[1:], rel=1e-5)
    parts = clf.evals_result_["valid_1"]
    expected = np.array(parts["log_loss"]) + 5 * np.array(parts["penalty"])
    assert curve == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("eta", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_evaluation_set_says_when_to_stop(split, kind, eta):
    (X, y, race), (X_test, y_test, race_test) = split
    noise = np.random.default_rng(0).permutation(y_test)
    clf = one_thread(kind, eta=eta, n_estimators=40, early_stopping_rounds=3)
    more = {"eval_set": [(X_test, noise), (X, y)], "eval_sensitive_features": [race_test, race]}
    clf.fit(X, y, sensitive_features=race, **more)
    assert clf.n_estimators_ == 40


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_weight_are_not_evaluated(split, kind):
    (X, y, race), (X_test, y_test, race_test) = split
    weight = np.random.default_rng(0).gamma(2, size=len(y_test)) * (np.arange(len(y_test)) % 3 > 0)
    kept = weight > 0
    clf = one_thread(kind, eta=5, n_estimators=10)
    pair = {"eval_set": (X_test, y_test), "eval_sensitive_features": race_test}
    clf.fit(X, y, sensitive_features=race, eval_sample_weight=weight, **pair)
    expected = objective(clf, X_test[kept], y_test[kept], race_test[kept], weight[kept])
    assert clf.evals_result_["valid_0"]["objective"][-1] == pytest.approx(expected, rel=1e-5)
    white = np.where(race_test == "Caucasian", 0.0, 1.0)
    with pytest.raises(ValueError, match=r"`eval_sensitive_features` must leave rows in every compared cell"):
        clf.fit(X, y, sensitive_features=race, eval_sample_weight=white, **pair)


@pytest.mark.parametrize("kind", KINDS)
def test_early_stopping_without_a_penalty_needs_no_groups(split, kind):
    (X, y, _), (X_test, y_test, _) = split
    clf = one_thread(kind, eta=0, n_estimators=400, early_stopping_rounds=15)
    clf.fit(X, y, eval_set=(X_test, y_test))
    curve = clf.evals_result_["valid_0"]["objective"]
    assert clf.best_iteration_ == 1 + int(np.argmin(curve)) < 400
    assert min(curve) == pytest.approx(log_loss(y_test, clf.predict_proba(X_test)), rel=1e-6)


# ---------------------------------------------------------------- what goes out

ELSEWHERE = """
import sys, pickle
import numpy as np
X = np.load(sys.argv[1] + "/X.npy")
with open(sys.argv[1] + "/model.pickle", "rb") as file:
    ours = pickle.load(file).predict_proba(X)[:, 1]
assert "evenrisk" in sys.modules
if sys.argv[2] == "FairLGBMClassifier":
    import lightgbm
    native = lightgbm.Booster(model_file=sys.argv[1] + "/model.txt").predict(X)
else:
    import xgboost
    booster = xgboost.Booster(model_file=sys.argv[1] + "/model.json")
    native = booster.predict(xgboost.DMatrix(X))
np.save(sys.argv[1] + "/scores.npy", np.stack([ours, native]))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_predicts_the_same_in_another_process(compas, kind, tmp_path):
    X, y, race = compas
    clf = one_thread(kind, eta=5, n_estimators=50).fit(X, y, sensitive_features=race)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(clf))
    clf.booster_.save_model(tmp_path / ("model.txt" if kind is FairLGBMClassifier else "model.json"))
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path), kind.__name__], check=True)
    ours, native = np.load(tmp_path / "scores.npy")
    s = clf.predict_proba(X)[:, 1]
    assert (ours == s).all()
    assert native == pytest.approx(s, abs=1e-6 if kind is FairXGBClassifier else 1e-14)


def test_a_native_model_is_of_the_librarys_own_objective(compas):
    X, y, race = compas
    fair, plain = (one_thread(FairLGBMClassifier, eta=eta, n_estimators=5) for eta in (5, 0))
    fair, plain = (each.fit(X, y, sensitive_features=race).booster_ for each in (fair, plain))
    lines = [
        [line for line in each.model_to_string().split("\n") if "objective" in line] for each in (fair, plain)
    ]
    assert lines[0] == lines[1]
    assert fair.params["objective"] == plain.params["objective"] == "binary"
    assert fair.params["metric"] == ["binary_logloss"]
    fair = one_thread(FairXGBClassifier, eta=5, n_estimators=5).fit(X, y, sensitive_features=race).booster_
    config = json.loads(fair.save_config())["learner"]
    assert config["objective"]["name"] == config["learner_train_param"]["objective"] == "binary:logistic"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_scores(compas, kind, tmp_path):
    X, y, race = compas
    settings = {"eta": 5, "n_estimators": 30, "subsample": 0.5, "colsample_bytree": 0.5}
    settings |= {"subsample_freq": 1} if kind is FairLGBMClassifier else {}
    scores = [
        one_thread(kind, **settings, random_state=seed)
        .fit(X, y, sensitive_features=race)
        .decision_function(X)
        for seed in (0, 0, np.random.RandomState(0), np.random.RandomState(0), 1)
    ]
    assert (scores[0] == scores[1]).all()
    assert (scores[2] == scores[3]).all()
    assert not (scores[0] == scores[4]).all()
    path = tmp_path / "model.joblib"
    clf = one_thread(kind, **settings, random_state=0).fit(X, y, sensitive_features=race)
    joblib.dump(clf, path)
    assert (joblib.load(path).decision_function(X) == scores[0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_pipelines_and_searches_pass_the_groups_on(compas, kind):
    X, y, race = (part[:1500] for part in compas)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), one_thread(kind, eta=3, n_estimators=10))
        name = kind.__name__.lower()
        grid = GridSearchCV(pipe, {f"{name}__eta": [0, 3], f"{name}__max_bin": [31]}, cv=2, scoring="roc_auc")
        grid.fit(X, y, sensitive_features=race)
    assert grid.best_params_[f"{name}__eta"] == 0
    search = BudgetSearchCV(one_thread(kind, n_estimators=20), max_gap=0.15, cv=3, random_state=0)
    search.fit(X, y, sensitive_features=race)
    assert search.best_estimator_.eta > 0
    assert search.predict_proba(X).shape == (1500, 2)


def test_the_bare_objective_is_what_the_scikit_learn_classes_take(compas):
    X, y, race = compas
    weight = np.random.default_rng(0).gamma(2, size=len(y))
    parity = ParityObjective(race, eta=5, learning_rate=0.1)
    plain = lgb.LGBMClassifier(objective=parity, n_estimators=20, num_leaves=8, n_jobs=1, verbosity=-1)
    booster = plain.fit(X, y, sample_weight=weight).booster_
    data = lgb.Dataset(X, y, weight=weight)
    settings = {"objective": parity, "num_leaves": 8, "num_threads": 1, "verbosity": -1}
    assert booster.predict(X) == pytest.approx(lgb.train(settings, data, 20).predict(X), abs=1e-9)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_is_refused_in_words(split, kind):
    (X, y, race), (X_test, y_test, race_test) = split
    clf = one_thread(kind, n_estimators=5)
    groups = {"sensitive_features": race}
    # whoever means the learning rate by eta learns it here
    with pytest.raises(MissingSensitiveFeatures, match=r"when eta > 0.*eta is the weight .* `learning_rate`"):
        clf.fit(X, y)
    with pytest.raises(ValueError, match=r"`calibration` must not be given .*CalibratedClassifierCV"):
        clone(clf).set_params(calibration="sigmoid").fit(X, y, **groups)
    with pytest.raises(MissingSensitiveFeatures, match=r"`eval_sensitive_features` is required .* for set 0"):
        clf.fit(X, y, **groups, eval_set=[(X_test, y_test)])
    with pytest.raises(
        ValueError, match="`eval_sensitive_features` must have groups that fit's have, got 'martian' too"
    ):
        clf.fit(X, y, **groups, eval_set=(X, y), eval_sensitive_features=["martian", *race[1:]])
    with pytest.raises(ValueError, match="`eval_set` must have the labels of y, got 2 too"):
        clf.fit(X, y, **groups, eval_set=(X, y + 1), eval_sensitive_features=race)
    with pytest.raises(ValueError, match="one entry per evaluation set, 2, got 1"):
        clf.fit(X, y, **groups, eval_set=[(X, y)] * 2, eval_sensitive_features=[race])
    more = {"eval_set": (X, y), "eval_sensitive_features": race}
    with pytest.raises(ValueError, match=r"`eval_sample_weight` must not be negative, got -1\.0 in row 0"):
        clf.fit(X, y, **groups, **more, eval_sample_weight=-np.ones(len(y)))
    black = race_test == "African-American"
    more = {"eval_set": (X_test[black], y_test[black]), "eval_sensitive_features": race_test[black]}
    with pytest.raises(ValueError, match=r"`eval_sensitive_features` must have 2 or more groups, got 1"):
        clf.fit(X, y, **groups, **more)
    kept = (race_test == "Caucasian") <= (y_test == 1)
    more = {"eval_set": (X_test[kept], y_test[kept]), "eval_sensitive_features": race_test[kept]}
    with pytest.raises(ValueError, match=r"`eval_.* got none in: group 'Caucasian' among negatives"):
        clone(clf).set_params(parity="equalized_odds").fit(X, y, **groups, **more)
    missing = "^Input eval_set contains NaN: `eval_set` must not have missing values, got 1$"
    with pytest.raises(ValueError, match=missing):
        clf.fit(X, y, **groups, eval_set=(X, [np.nan, *y[1:]]), eval_sensitive_features=race)
    with pytest.raises(ValueError, match=f"`eval_set` must have one label per row of its X, {len(y)}, got 9"):
        clf.fit(X, y, **groups, eval_set=(X, y[:9]), eval_sensitive_features=race)
    with pytest.raises(ValueError, match="`eval_set` must be given with early_stopping_rounds"):
        clone(clf).set_params(early_stopping_rounds=5).fit(X, y, **groups)
    with pytest.raises(ValueError, match=r"for boosted trees.*singular"):
        clone(clf).set_params(distance="gaussian").fit(X, y, **groups)
    with pytest.raises(ValueError, match="`objective` must not be given"):
        clone(clf).set_params(objective="poisson").fit(X, y, **groups)
    with pytest.raises(ValueError, match="`reg_lambda` must be given by that name, got `lambda`"):
        clone(clf).set_params(**{"lambda": 1}).fit(X, y, **groups)
    with pytest.raises(ValueError, match="`eval_set` must be"):
        clf.fit(X, y, **groups, eval_set=[X_test, y_test])
    with pytest.raises(ValueError, match="`model__floor` must be a setting of the model or of its distance"):
        clone(clf).set_params(model__floor=1)
    with pytest.raises(ValueError, match="`n_estimators` must be a whole number of at least 1, got 0"):
        clone(clf).set_params(n_estimators=0).fit(X, y, **groups)
    other = {"boosting_type": "dart"} if kind is FairLGBMClassifier else {"booster": "dart"}
    with pytest.raises(ValueError, match=r"must be 'gb(dt|tree)' when eta > 0, got 'dart'"):
        clone(clf).set_params(**other).fit(X, y, **groups)


def test_lightgbms_other_names_are_known_and_unknown_ones_refused(compas):
    X, y, race = compas
    groups = {"sensitive_features": race}
    with pytest.raises(TypeError, match="parameters must be evenrisk's or LightGBM's, got 'paritty'"):
        FairLGBMClassifier(paritty="equalized_odds").fit(X, y, **groups)
    with pytest.raises(ValueError, match="`num_leaves` must be given by that name, got `max_leaves`"):
        FairLGBMClassifier(max_leaves=7).fit(X, y, **groups)
    for name in ("objective", "application", "loss"):
        with pytest.raises(ValueError, match="`objective` must not be given"):
            FairLGBMClassifier(**{name: "poisson"}).fit(X, y, **groups)
    for name, value in {"metric": "auc", "linear_trees": True, "pos_bagging": 0.5}.items():
        with pytest.raises(ValueError, match="must not be given when eta > 0"):
            FairLGBMClassifier(**{name: value}).fit(X, y, **groups)
    with pytest.raises(ValueError, match="`sigmoid` must be 1, got 2"):
        FairLGBMClassifier(sigmoid=2.0, eta=0).fit(X, y)
    with pytest.raises(ValueError, match="`is_unbalance` must not be given together"):
        FairLGBMClassifier(is_unbalance=True, scale_pos_weight=3).fit(X, y, **groups)
    # a constraint holds by any of its names
    clf = one_thread(FairLGBMClassifier, eta=5, n_estimators=40, monotonic_cst=[0, 0, 1, 0])
    same = one_thread(FairLGBMClassifier, eta=5, n_estimators=40, monotone_constraints=[0, 0, 1, 0])
    scores = [each.fit(X, y, **groups).decision_function(X) for each in (clf, same)]
    assert np.array_equal(*scores)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_fails_leaves_the_model_before_it(compas, kind):
    X, y, race = compas
    clf = one_thread(kind, n_estimators=5).fit(X, y, sensitive_features=race)
    scores = clf.decision_function(X)
    with pytest.raises(ValueError, match="2 or more groups"):
        clf.fit(X[:, :2], y, sensitive_features=["a"] * len(y))
    assert (clf.decision_function(X) == scores).all()


def test_the_bare_objective_refuses_what_it_cannot_bound(compas):
    X, y, race = compas
    for distance in ("histogram", "gaussian", GapDistance(scale="rank"), GapDistance(power=4)):
        with pytest.raises(ValueError, match="whose curvature has a bound"):
            ParityObjective(race, distance=distance)
    parity = ParityObjective(race)
    for bad in (np.nan, np.inf):
        for call in (parity, lambda y, g: parity.metric(g, xgb.DMatrix(X, y))):
            with pytest.raises(ValueError, match=r"`scores` must be finite, got (nan|inf) in row 3"):
                call(y, np.where(np.arange(len(y)) == 3, bad, 0.0))
    with pytest.raises(ValueError, match="`scores` must have one entry per row"):
        parity(y, np.zeros(3))
    with pytest.raises(ValueError, match="`sensitive_features` must have"):
        lgb.train({"objective": ParityObjective(race[:-1]), "verbosity": -1}, lgb.Dataset(X, y), 1)


def test_the_majority_is_that_of_the_loss(compas):
    X, y, race = compas
    kept = (y == 0) | (np.arange(len(y)) % 5 == 0)
    X, y, race = X[kept], y[kept], race[kept]
    clf = FairLGBMClassifier(class_weight="balanced", n_estimators=10, n_jobs=1)
    clf.fit(X, y, sensitive_features=race)
    assert clf.score(X, y) < 1 - y.mean()  # and no warning: a constant answer costs more in the loss


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_a_missing_package_names_the_extra(package):
    kind = "FairLGBMClassifier" if package == "lightgbm" else "FairXGBClassifier"
    code = f"import sys; sys.modules[{package!r}] = None\nfrom evenrisk.boosting import {kind}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    hint = f"pip install {package}, or pip install '.[boosting]' in a clone of evenrisk"
    assert f"{kind} needs {package}: {hint}" in done.stderr


def test_constant_features_give_the_prevalence():
    y = np.array([0, 1, 1, 1] * 30)
    for kind in KINDS:
        clf = one_thread(kind, n_estimators=5)
        with pytest.warns(match="squeezed together"):
            clf.fit(np.zeros((120, 2)), y, sensitive_features=np.arange(120) // 2 % 2)
        assert clf.n_estimators_ == 0
        assert clf.predict_proba(np.zeros((1, 2)))[0, 1] == pytest.approx(0.75, abs=1e-6)


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize("which", ["numpy", "numba"])
def test_a_row_is_in_the_leaf_of_the_nearest_value(which):
    if which == "numba":
        need("numba")
    rng = np.random.default_rng(0)
    for m in (1, 2, 31, 500):
        values = np.sort(rng.normal(size=m) * 10.0 ** rng.integers(-6, 2, m))
        x = np.concatenate([values[rng.integers(0, m, 3000)] * (1 + 1e-13), rng.normal(size=100) * 50])
        before = rng.normal(size=len(x))
        scores, kept = before + x, before.copy()
        expected = np.abs((scores - before)[:, None] - values).argmin(axis=1)
        with _kernels.use(which, few_rows=1):
            found = leaves_of_moves(values, scores, kept)
        assert (found == expected).all()
        np.testing.assert_array_equal(kept, scores)


def test_a_sample_of_rows_has_the_weight_of_every_cell(monkeypatch):
    w = world("equalized_odds", 3, n=2000)
    penalty = Penalty(GapDistance(), w.cells())
    assert _rounds.sampled(penalty) == (None, penalty)
    monkeypatch.setattr(_rounds, "CURVATURE_ROWS", 400)
    monkeypatch.setattr(_rounds, "LEAST_ROWS_OF_CELL", 50)
    index, fewer = _rounds.sampled(penalty)
    code, weight = w.cells().code, w.cells().weight
    assert len(np.unique(index)) == len(index) < 800
    np.testing.assert_array_equal(fewer.cells.code, code[index])
    rows, all_rows = np.bincount(code[index]), np.bincount(code)
    rare = 0.2 * all_rows < 50
    np.testing.assert_array_equal(rows[rare], 50)
    assert (np.abs(rows - 0.2 * all_rows)[~rare] < 4 * np.sqrt(0.16 * all_rows[~rare])).all()
    total = np.bincount(code, weights=weight)
    assert np.bincount(fewer.cells.code, weights=fewer.cells.weight) == pytest.approx(total, rel=1e-12)
    for cell in range(6):  # and among themselves rows weigh what they did
        factor = (fewer.cells.weight / weight[index])[fewer.cells.code == cell]
        assert np.ptp(factor) < 1e-12


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity"])
def test_the_bare_objective_is_the_gradient_of_its_metric(parity):
    """By differences of the metric, which weighs the mean; libraries want the sum over all weights."""
    w = world(parity, 3)
    data = xgb.DMatrix(w.X, w.y, weight=w.weight)
    bare = ParityObjective(w.group, parity=parity, eta=3)
    slope, bend = bare(w.g, data)
    for row in (0, 5, 17, 100):
        step = np.where(np.arange(len(w.g)) == row, 1e-4, 0.0)
        rise = bare.metric(w.g + step, data)[1] - bare.metric(w.g - step, data)[1]
        assert slope[row] == pytest.approx(w.weight.sum() * rise / 2e-4, rel=1e-3)
    # the penalty's curvature goes with the weights as the loss's does
    more = xgb.DMatrix(w.X, w.y, weight=8 * w.weight)
    assert bare(w.g, more)[1] == pytest.approx(8 * bend, rel=1e-12)
    without = xgb.DMatrix(w.X, w.y, weight=np.where(w.group == 2, 0, w.weight))
    with pytest.raises(ValueError, match="`sensitive_features` must leave rows in every compared cell"):
        bare(w.g, without)


class Slope:
    """An objective that falls nowhere, and rises for who goes further than 0.3."""

    penalty = Penalty(GapDistance(), world("demographic_parity", 2).cells())

    def terms(self, scores):
        g = scores(slice(None))
        return Terms(float(np.maximum(np.abs(g) - 0.3, 0).sum()), g, np.zeros(len(g)), np.zeros(len(g)), None)


def test_a_step_is_halved_until_the_objective_does_not_rise():
    leaf = np.array([0, 1, 1])
    for step, taken in (([0.2, 0.3], [0.2, 0.3]), ([0.2, 0.6], [0.1, 0.3]), ([0.2, 0.64], [0.05, 0.16])):
        descent = _rounds.Descent(Slope(), np.zeros(3), 0.1, 0.0)
        assert descent.move(leaf, np.array(step)) == pytest.approx(taken, rel=1e-15)
        assert descent.at.g == pytest.approx(np.array(taken)[leaf], rel=1e-15)
        assert descent.curve == [0.0, 0.0]
    assert not descent.move(leaf, np.array([-1e9, 1e9])).any()


class KnownSteps:
    """Trees and scores of which only this is known: which steps help."""

    at = Terms(0.0, np.zeros(1), np.zeros(1), np.zeros(1), None)

    def __init__(self, helps):
        self.helps, self.written = helps, []

    def grow(self, gradient, curvature):
        return NewTree(np.zeros(1, dtype=int), np.ones(1)) if len(self.written) < len(self.helps) else None

    def solve(self, leaf, n_leaves):
        return np.ones(1)

    def move(self, leaf, values):
        return values * self.helps[len(self.written)]

    def rounded(self, values):
        return values

    def write(self, values):
        self.written.append(values)


@pytest.mark.parametrize(
    ("helps", "rounds", "grown", "kept"),
    [
        (
            [1, 1, 0, 1, 0, 0, 0, 0, 0, 1],
            20,
            9,
            4,
        ),  # one without a step stays before one that helps
        ([1, 1, 0, 0], 4, 4, 2),
        ([1, 0, 0, 0, 0, 1, 0], 20, 7, 6),
        ([1] * 3, 20, 3, 3),
        ([0] * 9, 20, 5, 0),
    ],
)
def test_trees_at_the_end_that_do_not_help_are_not_kept(helps, rounds, grown, kept):
    steps = KnownSteps(helps)
    assert boost(steps, steps, [], StoppingRule(rounds, None, 0), own_values=False) == kept
    assert len(steps.written) == grown


class LightGBM(GroupsFromRows, FairLGBMClassifier):
    pass


class XGBoost(GroupsFromRows, FairXGBClassifier):
    pass


# of a dozen rows LightGBM learns nothing with its own bounds on counts; they would count rows and not weights
TINY = {"n_jobs": 1, "n_estimators": 10}
UNBOUND = TINY | {"min_child_samples": 0, "min_data_in_bin": 1, "min_split_gain": 1e-6}


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@parametrize_with_checks(
    [
        FairLGBMClassifier(eta=0, **UNBOUND),
        LightGBM(**UNBOUND),
        LightGBM("equal_opportunity", distance="histogram", eta=0.1, **UNBOUND),
        FairXGBClassifier(eta=0, **TINY),
        XGBoost(**TINY),
        XGBoost("equal_opportunity", distance="histogram", eta=0.1, **TINY),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
