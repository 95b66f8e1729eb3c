"""Repair of scores: blind and aware, against brute force, closed forms and other libraries."""

import pickle
import warnings
from itertools import product
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from evenrisk import BudgetSearchCV, FairLogisticRegression, threshold_profile
from evenrisk._estimator import eta_path
from evenrisk.datasets import load_adult, load_compas
from evenrisk.distances import DISTANCES
from evenrisk.exceptions import MissingSensitiveFeatures, RepairWarning, SmallCellWarning
from evenrisk.metrics import quality_at_gap
from evenrisk.model_selection import tradeoff_path
from evenrisk.model_selection._held_out import EtaEstimator, FitInput, HeldOutScorer
from evenrisk.postprocessing import (
    BarycenterRepair,
    BlindRepair,
    HistogramMatcher,
    RepairedClassifier,
    price_of_blindness,
)
from evenrisk.postprocessing._plane import SIZES, PlaneBasis
from optional import need

RULES = ("demographic_parity", "equalized_odds", "equal_opportunity", "predictive_equality")


def world(n=3000, seed=0, n_groups=2):
    """People whose group shows in x, with risks that differ by group."""
    rng = np.random.default_rng(seed)
    a = rng.choice(n_groups, n, p=[0.6, 0.4] if n_groups == 2 else [0.5, 0.3, 0.2])
    X = rng.standard_normal((n, 4)) + a[:, None] * [0.8, 0.4, 0.0, -0.3]
    y = (rng.random(n) < 1 / (1 + np.exp(0.3 - X @ [1.2, 0.4, 0.5, 0.2]))).astype(int)
    return X, y, a


def max_gap(model, X, y, a, parity="demographic_parity"):
    return threshold_profile(y, model.decision_function(X), sensitive_features=a, parity=parity).max_gap


@pytest.fixture(scope="module")
def rows():
    return world()


@pytest.fixture(scope="module")
def others():
    return world(seed=1)


# ---------------------------------------------------------------- blind


class Memoriser(ClassifierMixin, BaseEstimator):
    """Certain of every row that it was fitted to, and of nothing else."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        codes = np.searchsorted(self.classes_, y)
        self.known_ = {row.tobytes(): code for row, code in zip(X, codes, strict=True)}
        return self

    def predict_proba(self, X):
        k = len(self.classes_)
        p = np.full((len(X), k), 1 / k)
        for i, row in enumerate(X):
            if row.tobytes() in self.known_:
                p[i] = np.eye(k)[self.known_[row.tobytes()]]
        return p


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.RepairWarning")
@pytest.mark.parametrize("parity", RULES)
def test_no_row_is_placed_by_a_model_that_has_seen_it(rows, parity):
    X, y, a = rows
    repaired = BlindRepair(Memoriser(), parity, eta=0, warm_start=True, random_state=0)
    repaired.fit(X, y, sensitive_features=a)
    assert np.array_equal(repaired._kept_plane.rows.V, np.zeros_like(repaired._kept_plane.rows.V))


@pytest.mark.parametrize("parity", RULES)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_gap_of_new_people_falls_with_eta(parity, n_groups):
    X, y, a = world(2500, n_groups=n_groups)
    new = world(4000, seed=1, n_groups=n_groups)
    path = BlindRepair(LogisticRegression(), parity, random_state=0).fit_path(
        X, y, [0, 3, 30], sensitive_features=a
    )
    gaps = [max_gap(each, *new, parity) for each in path]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.45 * gaps[0]


def test_without_a_penalty_it_is_the_calibrated_base():
    data = load_adult(one_hot=True)
    X, y, sex = data.X.to_numpy(dtype=float), data.y.to_numpy(), data.sensitive_features.to_numpy()
    order = np.random.default_rng(0).permutation(len(y))[:8000]
    train, test = order[:4000], order[4000:]
    base = HistGradientBoostingClassifier(max_iter=25, random_state=0)
    calibrated = CalibratedClassifierCV(base, cv=5, method="sigmoid", ensemble=False)
    p = calibrated.fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    repaired = BlindRepair(base, eta=0, random_state=0)
    q = repaired.fit(X[train], y[train], sensitive_features=sex[train]).predict_proba(X[test])[:, 1]
    assert roc_auc_score(y[test], q) == pytest.approx(roc_auc_score(y[test], p), abs=0.002)
    assert log_loss(y[test], q) <= log_loss(y[test], p) + 0.002


class Known(ClassifierMixin, BaseEstimator):
    """A fitted classifier that knows the probabilities of a finite world; x is the number of a place."""

    def __init__(self, p, classes=(0, 1)):
        self.p = p
        self.classes = classes
        self.classes_ = np.array(classes)
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        p = self.p[np.asarray(X)[:, 0].astype(int)]
        return np.column_stack([1 - p, p])


def weak_orders(m):
    """Every way to rank m places, ties included."""
    seen = set()
    for levels in product(range(m), repeat=m):
        ranks = tuple(np.unique(levels, return_inverse=True)[1])
        if ranks not in seen:
            seen.add(ranks)
            yield np.array(ranks)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
@pytest.mark.filterwarnings("ignore:a crowd leaves a gap:evenrisk.exceptions.RepairWarning")
def test_on_a_finite_world_it_is_near_the_best_that_brute_force_finds():
    """The gap of a score depends on its order alone; the best log loss of an order is an isotonic fit's."""
    share = np.array([0.15, 0.25, 0.2, 0.25, 0.15])
    risk = np.array([0.1, 0.25, 0.45, 0.6, 0.85])
    group = np.array([0.25, 0.45, 0.35, 0.65, 0.6])  # P(a = 1|x)
    cells = np.array([share * (1 - group), share * group])
    cells /= cells.sum(axis=1, keepdims=True)

    def gap(rank):
        levels = np.array([cells[:, rank <= k].sum(axis=1) for k in range(rank.max() + 1)])
        return np.abs(levels[:, 0] - levels[:, 1]).max()

    def loss(rank):
        p = IsotonicRegression().fit(rank, risk, sample_weight=share).predict(rank)
        return -(share * (risk * np.log(p) + (1 - risk) * np.log(1 - p))).sum()

    best = [(gap(rank), loss(rank)) for rank in weak_orders(5)]
    rng = np.random.default_rng(0)
    x = rng.choice(5, 30_000, p=share)
    y = (rng.random(len(x)) < risk[x]).astype(int)
    a = (rng.random(len(x)) < group[x]).astype(int)
    models = BlindRepair(Known(risk), attribute_estimator=Known(group), cv="prefit", random_state=0)
    path = models.fit_path(x[:, None], y, np.geomspace(0.1, 1000, 28), sensitive_features=a)
    found, spread = [], []
    for each in path:
        g = each.decision_function(np.arange(5)[:, None])
        rank = np.unique(g.round(3), return_inverse=True)[1]
        found.append((gap(rank), loss(rank)))
        risks = 1 / (1 + np.exp(-g))
        spread.append(np.sqrt(share @ (risks - share @ risks) ** 2))
    assert found[0][0] > 0.2

    def optimum(budget):
        return min(value for each, value in best if each <= budget + 1e-9)

    # scores that have collapsed, of which a fit warns, are within the penalty's own grid of thresholds
    ratios = [value / optimum(each) for (each, value), sd in zip(found, spread, strict=True) if sd > 0.01]
    assert len(ratios) > 20
    assert max(ratios) < 1.02
    for budget in (0.26, 0.16, 0.08):
        ours = next(value for each, value in found if each <= budget)  # of the smallest eta that meets it
        assert ours < 1.02 * optimum(budget)


def crowded(n, seed):
    """A fifth of all have a risk under .01, unequally by group, and the group does not show in them."""
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.4).astype(int)
    crowd = rng.random(n) < np.where(a == 1, 0.08, 0.28)
    X = rng.standard_normal((n, 6))
    X[~crowd, :2] += a[~crowd, None] * [0.7, 0.3]
    X[crowd, 2] -= 8
    p = 1 / (1 + np.exp(0.3 - X @ [1, 0, 0, 0.8, 0, 0] - 0.5 * X[:, 0] * X[:, 4]))
    return X, (rng.random(n) < np.where(crowd, 0.003, p)).astype(int), a


def test_a_crowd_is_spread_by_the_coin():
    X, y, a = crowded(8000, 0)
    new = crowded(12_000, 1)
    trees = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, random_state=0)
    path = BlindRepair(trees, random_state=0).fit_path(X, y, [0, 300], sensitive_features=a)
    assert max_gap(path[0], *new) > 0.2
    assert max_gap(path[1], *new) <= 0.03
    assert roc_auc_score(new[1], path[1].decision_function(new[0])) > 0.65


def test_the_base_models_are_the_users_own_classes(rows):
    X, y, a = rows
    forest = RandomForestClassifier(8, min_samples_leaf=10)
    repaired = BlindRepair(forest, eta=3, attribute_estimator=LogisticRegression(), random_state=0)
    repaired.fit(X, np.where(y == 1, "yes", "no"), sensitive_features=np.where(a == 1, "f", "m"))
    assert isinstance(repaired.estimator_, RandomForestClassifier)
    assert [type(each) for each in repaired.attribute_estimators_] == [LogisticRegression]
    assert repaired.classes_.tolist() == ["no", "yes"]
    assert set(repaired.predict(X[:50])) <= {"no", "yes"}
    assert repaired.predict_proba(X[:5]).sum(axis=1) == pytest.approx(1)
    again = clone(repaired).fit(
        X, np.where(y == 1, "yes", "no"), sensitive_features=np.where(a == 1, "f", "m")
    )
    assert np.array_equal(again.decision_function(X), repaired.decision_function(X))
    assert np.array_equal(
        pickle.loads(pickle.dumps(repaired)).decision_function(X), repaired.decision_function(X)
    )


def test_frames_with_words_and_missing_values_are_the_base_models_own():
    data = load_compas()
    X, y, race = data.X.copy(), data.y, data.sensitive_features
    X["sex"] = data.frame["sex"]
    X.loc[X.index[::7], "age"] = np.nan
    base = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=20),
    )
    repaired = BlindRepair(base, eta=5, random_state=0).fit(X, y, sensitive_features=race)
    assert max_gap(repaired, X, y, race) < 0.2
    same = X.sample(frac=1, random_state=0)
    assert np.array_equal(
        repaired.decision_function(same), pd.Series(repaired.decision_function(X), X.index)[same.index]
    )


def test_a_fitted_model_is_repaired_on_rows_it_has_not_seen(rows, others):
    X, y, a = rows
    risk, group = LogisticRegression().fit(X, y), LogisticRegression().fit(X, a)
    repaired = BlindRepair(risk, attribute_estimator=group, cv="prefit", eta=10)
    repaired.fit(*others[:2], sensitive_features=others[2])
    assert repaired.estimator_ is risk
    assert (
        max_gap(repaired, X, y, a)
        < 0.5 * threshold_profile(y, risk.decision_function(X), sensitive_features=a).max_gap
    )


def test_a_score_column_is_repaired_like_the_model_that_made_it(rows, others):
    X, y, a = rows
    score = np.round(10 * LogisticRegression().fit(*others[:2]).predict_proba(X)[:, 1])
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(vendor=score)
    group = make_pipeline(make_column_transformer((StandardScaler(), list("pqrs"))), LogisticRegression())
    path = BlindRepair("vendor", attribute_estimator=group, random_state=0).fit_path(
        frame, y, [0, 10], sensitive_features=a
    )
    plain = threshold_profile(y, score, sensitive_features=a).max_gap
    assert max_gap(path[1], frame, y, a) < 0.6 * plain
    assert roc_auc_score(y, path[0].decision_function(frame)) >= roc_auc_score(y, score) - 0.002
    guessed = LogisticRegression().fit(others[0], others[2]).predict_proba(X)[:, 1]
    by_column = BlindRepair("vendor", attribute_estimator="guess", eta=10, random_state=0)
    by_column.fit(frame.assign(guess=guessed), y, sensitive_features=a)
    assert max_gap(by_column, frame.assign(guess=guessed), y, a) < 0.6 * plain


class Counting(LogisticRegression):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


def test_a_budget_search_fits_the_base_models_once_for_each_fold(rows):
    X, y, a = (each[:1200] for each in rows)
    Counting.fits = 0
    search = BudgetSearchCV(BlindRepair(Counting(), cv=3, random_state=0), 0.08, cv=2, random_state=0)
    search.fit(X, y, sensitive_features=a)
    assert len(search.path_) > 3
    assert Counting.fits == (2 + 1) * 2 * (
        3 + 1
    )  # folds and the last fit; risk and group; inner folds and all


def folds_of(n, n_folds):
    fold = np.arange(n) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


@pytest.mark.parametrize(("n_folds", "fits"), [(3, 1 + 3 + 3), (4, 1 + 4 + 6)])
def test_a_search_with_the_repairs_own_folds_shares_the_base_models(rows, n_folds, fits):
    X, y, a = (each[:1200] for each in rows)
    Counting.fits = 0
    repair = BlindRepair(Counting(), cv=n_folds, random_state=0)
    search = BudgetSearchCV(repair, 0.08, cv=n_folds, random_state=0).fit(X, y, sensitive_features=a)
    assert len(search.path_) > 3
    assert Counting.fits == 2 * fits  # risk and group; without no fold, one fold and two folds
    assert search.best_estimator_.eta == search.eta_
    assert search.best_estimator_.get_params()["cv"] == n_folds
    assert search.max_gap_ <= 0.08
    assert max_gap(search, X, y, a) < 0.12


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.RepairWarning")
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_scores_of_a_fold_held_out_know_nothing_of_its_labels_and_groups(
    rows, parity, calibration, monkeypatch
):
    monkeypatch.setattr("evenrisk.postprocessing._plane.SIZES", SIZES[1:2])  # which is chosen on all rows
    X, y, a = (each[:600] for each in rows)
    folds = folds_of(len(y), 4)
    test = folds[1][1]
    order = np.random.default_rng(0).permutation(test)
    other_y, other_a = y.copy(), a.copy()
    other_y[test], other_a[test] = y[order], 1 - a[test]
    repair = BlindRepair(LogisticRegression(), parity, cv=4, calibration=calibration, random_state=0)
    one, two = (
        repair.held_out(X, *of, folds, sensitive_features=groups)
        for of, groups in (((y,), a), ((other_y,), other_a))
    )
    for eta in (0.0, 2.0, 30.0):
        before, after = one.raw_scores(eta), two.raw_scores(eta)
        assert np.array_equal(before[test], after[test])
        assert np.isclose(before[folds[0][1]], after[folds[0][1]]).mean() < 0.05


def test_of_many_rows_each_fold_is_left_out_alone_and_scores_are_nearly_the_same(rows, monkeypatch):
    X, y, a = rows
    found = []
    for many in (20_000, 1000):
        monkeypatch.setattr("evenrisk.postprocessing._blind.MANY_ROWS", many)
        Counting.fits = 0
        held = BlindRepair(Counting(), cv=4, random_state=0).held_out(
            X, y, folds_of(len(y), 4), sensitive_features=a
        )
        found.append(held.raw_scores(10.0))
        assert Counting.fits == 2 * (1 + 4 + (6 if many > len(y) else 0))
    assert 0.98 < np.corrcoef(*found)[0, 1] < 1


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.RepairWarning")
def test_no_row_held_out_is_placed_by_a_model_that_has_seen_it(rows, monkeypatch):
    X, y, a = (each[:800] for each in rows)
    for many in (20_000, 100):
        monkeypatch.setattr("evenrisk.postprocessing._blind.MANY_ROWS", many)
        repair = BlindRepair(Memoriser(), coin=False, cv=5, random_state=0)
        g = repair.held_out(X, y, folds_of(len(y), 5), sensitive_features=a).raw_scores(0.0)
        assert [len(np.unique(g[test])) for _, test in folds_of(len(y), 5)] == [1] * 5


def test_what_a_search_keeps_changes_nothing_but_the_time(rows, monkeypatch):
    X, y, a = (each[:900] for each in rows)
    found = []
    for kept in (10**9, 0):
        monkeypatch.setattr("evenrisk.postprocessing._plane_model.KEPT_ENTRIES", kept)
        held = BlindRepair(LogisticRegression(), cv=3, random_state=0).held_out(
            X, y, folds_of(len(y), 3), sensitive_features=a, n_jobs=2
        )
        found.append([held.raw_scores(eta) for eta in (0.0, 1.0, 10.0)])
    assert np.array_equal(found[0], found[1])
    held.fit_from_scratch()
    cold = held.raw_scores(10.0)
    assert 0.95 < np.corrcoef(cold, found[0][2])[0, 1] < 1


def test_rows_without_weight_take_no_part_in_a_search(rows):
    X, y, a = (each[:900] for each in rows)
    weight = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.5)
    there = weight > 0
    junk = np.where(there[:, None], X, 1e6)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0)
    fold = np.arange(len(y)) % 3
    some, every = (
        [(np.flatnonzero(f != k), np.flatnonzero(f == k)) for k in range(3)] for f in (fold[there], fold)
    )
    alone = repair.held_out(X[there], y[there], some, weight[there], sensitive_features=a[there])
    beside = repair.held_out(junk, y, every, weight, sensitive_features=a)
    assert np.array_equal(alone.raw_scores(5.0), beside.raw_scores(5.0))


def test_folds_that_cannot_be_shared_are_fitted_apart(rows):
    X, y, a = (each[:600].copy() for each in rows)
    repair = BlindRepair(LogisticRegression(), cv=4, random_state=0)
    held_out = repair.held_out(X, y, folds_of(len(y), 4), sensitive_features=a)
    assert held_out is not None
    assert repair.held_out(X, y, folds_of(len(y), 3), sensitive_features=a) is None  # not its number
    assert repair.held_out(X, y, folds_of(len(y), 4)[:3], sensitive_features=a) is None  # some rows never
    a[(np.arange(len(y)) % 4 > 1)] = 0  # two folds have all of group 1
    assert repair.held_out(X, y, folds_of(len(y), 4), sensitive_features=a) is None
    two = clone(repair).set_params(cv=2)
    assert two.held_out(*rows[:2], folds_of(3000, 2), sensitive_features=rows[2]) is None


def test_a_fold_is_scored_by_a_plane_model_of_the_other_folds(rows):
    X, y, a = (each[:450] for each in rows)
    weight = np.random.default_rng(0).gamma(2, size=450)
    folds, one = folds_of(450, 3), weight.mean()
    repair = BlindRepair(LogisticRegression(), cv=3, tol=1e-9, random_state=0)
    path = repair.held_out(X, y, folds, weight, sensitive_features=a)._path
    g, c = path.raw_scores(1.0, DISTANCES["gap"]), path.rows.c
    for V, (train, test) in zip(path.V, folds, strict=True):
        basis = PlaneBasis(V[train], path.size, coin=True)
        model = FairLogisticRegression(eta=1, alpha=0.3 * one / weight[train].sum(), tol=1e-9)
        model.fit(basis(V[train], c[train]), y[train], weight[train], sensitive_features=a[train])
        assert g[test] == pytest.approx(model.decision_function(basis(V[test], c[test])), abs=1e-4)


def test_a_fit_of_a_search_starts_at_the_largest_smaller_eta(rows, monkeypatch):
    X, y, a = (each[:450] for each in rows)
    starts, exact = [], eta_path

    def watched(problem, etas, settings, start=None, start_eta=None):
        starts.append((etas[0], start is not None, start_eta))
        return exact(problem, etas, settings, start, start_eta)

    monkeypatch.setattr("evenrisk.postprocessing._plane_model.eta_path", watched)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0)
    held = repair.held_out(X, y, folds_of(450, 3), sensitive_features=a)
    for eta in (0.0, 4.0, 1.0, 2.0):
        held.raw_scores(eta)
    assert starts[::3] == [(0.0, False, None), (4.0, True, 0.0), (1.0, True, 0.0), (2.0, True, 1.0)]


def test_what_a_search_over_a_repair_finds_is_apart_from_it(rows):
    X, y, a = (each[:450] for each in rows)
    chance = np.random.RandomState(0)
    repair = BlindRepair(LogisticRegression(), cv=3, warm_start=True, n_jobs=1, random_state=chance)
    search = BudgetSearchCV(repair, 0.3, cv=3, n_jobs=2, random_state=0).fit(X, y, sensitive_features=a)
    found, given = search.best_estimator_.get_params(deep=False), repair.get_params(deep=False)
    assert all(found[name] == given[name] for name in set(given) - {"estimator", "eta", "random_state"})
    assert repair.eta == 1.0
    assert found["random_state"] is not chance
    repair.estimator.set_params(C=1e-4)
    assert found["estimator"].C == 1.0
    repair.estimator.set_params(C=1.0)
    held = repair.held_out(X, y, folds_of(450, 3), sensitive_features=a)
    one, two = held.fitted(1.0), held.fitted(5.0)
    assert (one.eta, two.eta) == (1.0, 5.0)
    assert not np.array_equal(one.decision_function(X), two.decision_function(X))
    # a refit takes folds of its own
    repair.set_params(random_state=0)
    held = repair.held_out(X, y, folds_of(450, 3), sensitive_features=a)
    again = held.fitted(1.0).set_params(eta=3).fit(X, y, sensitive_features=a)
    alone = clone(repair).set_params(eta=3).fit(X, y, sensitive_features=a)
    assert np.array_equal(again.decision_function(X), alone.decision_function(X))


def test_fitted_models_share_any_folds(rows):
    X, y, a = (each[:450] for each in rows)
    risk, group = LogisticRegression().fit(X, y), LogisticRegression().fit(X, a)
    fitted = BlindRepair(risk, attribute_estimator=group, cv="prefit", random_state=0)
    for n_folds in (2, 3):
        assert fitted.held_out(X, y, folds_of(450, n_folds), sensitive_features=a) is not None


def test_rows_that_two_folds_both_fit_decide_whether_they_share(rows):
    X, y, a = (each[:450] for each in rows)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0)
    folds = folds_of(450, 3)
    assert repair.held_out(X, y, folds_of(450, 4)[:3], sensitive_features=a) is None
    rare = ((np.arange(450) % 6) == 0).astype(int)  # in one fold of three
    rare[1] = 1
    assert repair.held_out(X, rare, folds, sensitive_features=a) is None
    parts = [(train[train % 3 == (k + 1) % 3], test) for k, (train, test) in enumerate(folds)]
    assert repair.held_out(X, y, parts, sensitive_features=a) is None  # no two folds fit the same rows
    search = BudgetSearchCV(repair, 0.4, cv=parts).fit(X, y, sensitive_features=a)
    assert search.max_gap_ <= 0.4
    for cv in (3.0, np.array(folds, dtype=object)):
        assert clone(repair).set_params(cv=cv).held_out(X, y, folds, sensitive_features=a) is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_search_over_a_repair_uses_weights(rows):
    X, y, a = (each[:450] for each in rows)
    weight, folds = np.where(y == a, 5.0, 0.2), folds_of(450, 3)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0)
    search = BudgetSearchCV(repair, 1, cv=folds).fit(X, y, weight, sensitive_features=a)
    alone = clone(repair).set_params(eta=0, cv=folds).fit(X, y, weight, sensitive_features=a)
    assert np.array_equal(search.decision_function(X), alone.decision_function(X))


def test_a_search_from_scratch_tells_what_is_shared(rows):
    X, y, a = (each[:450] for each in rows)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0)
    scorer = HeldOutScorer(EtaEstimator.find(repair), FitInput(X, y, a, None), folds_of(450, 3))
    assert scorer.shared._path.warm
    scorer.fit_from_scratch()
    assert not scorer.shared._path.warm


@pytest.mark.parametrize(("settings", "times"), [({"max_iter": 2}, 1), ({"estimator__max_iter": 1}, 1)])
def test_a_search_over_a_repair_says_once_what_does_not_converge(rows, settings, times):
    X, y, a = (each[:450] for each in rows)
    repair = BlindRepair(LogisticRegression(), cv=3, random_state=0).set_params(**settings)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        BudgetSearchCV(repair, 1, cv=folds_of(450, 3)).fit(X, y, sensitive_features=a)
    found = [each for each in seen if issubclass(each.category, ConvergenceWarning)]
    assert len(found) == times


def test_small_cells_are_named_once_where_nothing_can_be_shared(rows):
    X, y, a = (each[:450] for each in rows)
    a = np.where(np.isin(np.arange(450), np.r_[0:120:10]), 2, a)
    y = np.where(a == 2, np.arange(450) == 0, y).astype(int)
    repair = BlindRepair(LogisticRegression(), "equal_opportunity", cv=3, random_state=0)
    y[np.flatnonzero(a == 2)[:3]] = 1
    folds = folds_of(450, 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        BudgetSearchCV(repair, 1, cv=folds).fit(X, y, sensitive_features=a)
    assert sum(issubclass(each.category, SmallCellWarning) for each in seen) == 1


def test_the_unit_of_weights_does_not_matter(rows):
    X, y, a = (each[:900] for each in rows)
    found = [
        BlindRepair(LogisticRegression(C=1e9), eta=10, random_state=0)
        .fit(X, y, np.full(900, weight), sensitive_features=a)
        .decision_function(X)
        for weight in (1.0, 1 / 900, 1e4)
    ]
    assert found[1] == pytest.approx(found[0], abs=0.02)
    assert found[2] == pytest.approx(found[0], abs=0.02)


def test_rows_without_weight_take_no_places_in_folds():
    X, y, a = world(40)
    weight = np.ones(40)
    for label in (0, 1):  # two rows of group 1 and each label are left
        weight[np.flatnonzero((a == 1) & (y == label))[2:]] = 0
    for seed in range(8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            BlindRepair(LogisticRegression(), cv=2, random_state=seed).fit(X, y, weight, sensitive_features=a)


def test_folds_without_rows_of_weight_are_refused_by_number(rows):
    X, y, a = (each[:400] for each in rows)
    weight = np.where(np.arange(400) % 4 == 2, 0.0, 1.0)
    for make in (BlindRepair, RepairedClassifier):
        with pytest.raises(ValueError, match=r"`cv` must hold out rows .* got none in fold 3 of 4"):
            make(LogisticRegression(), cv=folds_of(400, 4)).fit(X, y, weight, sensitive_features=a)
        folds = [(np.zeros(0, dtype=int), np.arange(200)), (np.arange(200), np.arange(200, 400))]
        with pytest.raises(ValueError, match=r"`cv` must fit rows .* got none in fold 1 of 2"):
            make(LogisticRegression(), cv=folds).fit(X, y, sensitive_features=a)


def test_a_warm_start_with_other_rows_fits_everything_again(rows, others):
    X, y, a = rows
    warm = BlindRepair(LogisticRegression(), eta=3, warm_start=True, random_state=0)
    warm.fit(*others[:2], sensitive_features=others[2]).fit(X, y, sensitive_features=a)
    cold = BlindRepair(LogisticRegression(), eta=3, random_state=0).fit(X, y, sensitive_features=a)
    assert np.array_equal(warm.decision_function(X), cold.decision_function(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"parity": "equalized_odds"},
        {"distance": "histogram"},
        {"estimator": LogisticRegression(C=0.01)},
        {"estimator__C": 0.01},
        {"attribute_estimator": LogisticRegression(C=0.01)},
        {"cv": 3},
        {"coin": False},
        {"random_state": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_warm_start_with_other_settings_fits_everything_again(rows, settings):
    X, y, a = (each[:900] for each in rows)
    warm = BlindRepair(LogisticRegression(), eta=3, warm_start=True, random_state=0)
    before = warm.fit(X, y, sensitive_features=a).decision_function(X)
    again = warm.set_params(**settings).fit(X, y, sensitive_features=a).decision_function(X)
    assert not np.array_equal(again, before)
    cold = clone(warm).set_params(warm_start=False).fit(X, y, sensitive_features=a)
    assert np.array_equal(again, cold.decision_function(X))


def test_other_names_of_groups_are_not_taken_from_the_last_fit(rows):
    X, y, a = (each[:900] for each in rows)
    warm = BlindRepair(LogisticRegression(), eta=3, warm_start=True, random_state=0)
    warm.fit(X, y, sensitive_features=a).fit(X, y, sensitive_features=np.where(a == 1, "q", "p"))
    assert warm.groups_.tolist() == ["p", "q"]
    assert warm.place_names_ == ["risk, P(y = 1)", "probability of q"]


# ---------------------------------------------------------------- where people are in the plane


@pytest.mark.parametrize("parity", RULES)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_places_and_their_risks_are_those_of_predictions(parity, n_groups):
    X, y, a = world(1200, n_groups=n_groups)
    names = np.array(["ann", "bea", "cid"])[a]
    repair = BlindRepair(LogisticRegression(), parity, eta=3, coin=False, random_state=0)
    repair.fit(X, y, sensitive_features=names)
    places = repair.places(X)
    assert places.shape == (1200, len(repair.place_names_))
    assert places[:, 0] == pytest.approx(repair.estimator_.predict_proba(X)[:, 1])
    assert repair.risk_at(places) == pytest.approx(repair.predict_proba(X)[:, 1])
    largest = np.bincount(a).argmax()
    shown = [name for k, name in enumerate(["ann", "bea", "cid"][:n_groups]) if k != largest]
    among = {
        "demographic_parity": [""],
        "equalized_odds": [" among negatives", " among positives"],
        "equal_opportunity": [" among positives"],
        "predictive_equality": [" among negatives"],
    }[parity]
    assert repair.place_names_ == [
        "risk, P(y = 1)",
        *(f"probability of {n}{w}" for w in among for n in shown),
    ]
    codes = [k for k in range(n_groups) if k != largest]
    models = [each.predict_proba(X)[:, codes] for each in repair.attribute_estimators_]
    assert places[:, 1:] == pytest.approx(np.hstack(models))


def test_the_surface_is_the_mean_repaired_risk_of_the_people_around():
    X, y, a = world(1200, n_groups=3)
    repair = BlindRepair(LogisticRegression(), eta=3, random_state=0).fit(X, y, sensitive_features=a)
    surface = repair.surface(X, coordinate="probability of 2", n_points=5)
    places, repaired = repair.places(X), repair.predict_proba(X)[:, 1]
    widest = np.argmax(places[:, 1:].std(axis=0))
    assert repair.surface(X, n_points=5).names[1] == repair.place_names_[1 + widest]
    assert surface.names == ("risk, P(y = 1)", "probability of 2")
    assert surface.people == pytest.approx(places[:, [0, 2]])
    assert (surface.x[0], surface.x[-1]) == (places[:, 0].min(), places[:, 0].max())
    assert (surface.y[0], surface.y[-1]) == (places[:, 2].min(), places[:, 2].max())
    for i, j in product(range(5), repeat=2):
        steps = (surface.people - [surface.x[j], surface.y[i]]) / np.ptp(surface.people, axis=0)
        if np.hypot(*steps.T).min() > 0.05:
            assert np.isnan(surface.risk[i, j])
        else:
            near = np.exp(-0.5 * (steps**2).sum(axis=1) / 0.04**2)
            assert surface.risk[i, j] == pytest.approx(np.average(repaired, weights=near), rel=1e-9)
    assert 5 < np.isfinite(surface.risk).sum() < 20
    with pytest.raises(ValueError, match=r"must be one of 'probability of 1', 'probability of 2', got 'x'"):
        repair.surface(X, coordinate="x")
    with pytest.raises(ValueError, match=r"`places` must have shape \(n, 3\), got \(1, 2\)"):
        repair.risk_at([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"`places` must give probabilities in \[0, 1\], got 1\.5"):
        repair.risk_at([[0.5, 1.5, 0.1]])
    with pytest.raises(ValueError, match="must be fitted with `sensitive_features` to have a plane"):
        BlindRepair(LogisticRegression(), eta=0).fit(X, y).surface(X)


def test_the_surface_ranks_people_as_the_repair_does():
    """With several groups nobody is where all other probabilities are at their median."""
    X, y, a = world(2500, n_groups=3)
    repair = BlindRepair(LogisticRegression(), "equalized_odds", eta=10, random_state=0)
    repair.fit(X, y, sensitive_features=a)
    for coordinate in repair.place_names_[1:]:
        surface = repair.surface(X, coordinate=coordinate, n_points=60)
        row, column = (
            np.abs(axis[:, None] - place).argmin(axis=0)
            for axis, place in ((surface.y, surface.people[:, 1]), (surface.x, surface.people[:, 0]))
        )
        assert spearmanr(surface.risk[row, column], repair.decision_function(X))[0] > 0.7


def test_fitted_models_that_know_the_rows_are_named(rows):
    X, y, a = (each[:600] for each in rows)
    forest = RandomForestClassifier(20, random_state=0)
    risk, group = forest.fit(X, y), clone(forest).fit(X, a)
    message = (
        r"`estimator`, a fitted RandomForestClassifier, has an AUC of (1\.000|0\.99\d) on the rows given"
    )
    for repair in (
        BlindRepair(risk, attribute_estimator=group, cv="prefit"),
        RepairedClassifier(risk, BarycenterRepair(0.5), cv="prefit"),
    ):
        with pytest.warns(RepairWarning, match=message):
            repair.fit(X, y, sensitive_features=a)


def test_a_few_rows_of_a_group_are_no_proof_that_a_model_knows_them():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1500, 4)), rng.integers(0, 2, 1500)
    a = np.r_[np.zeros(900), np.ones(590), np.full(10, 2)].astype(int)
    X[:, 0] += a * (a < 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepairWarning)
        warnings.simplefilter("ignore", SmallCellWarning)
        BlindRepair(LogisticRegression(), random_state=0).fit(X, y, sensitive_features=a)


@pytest.mark.parametrize("make", [BarycenterRepair, HistogramMatcher])
def test_ties_that_leave_a_gap_are_named(make):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 4000)
    score = np.clip(np.round(3 + a + 1.5 * rng.standard_normal(4000)), 1, 6)
    with pytest.warns(
        RepairWarning, match=r"a max gap of 0\.\d+ is left on these rows: 4,000 people have only 6"
    ):
        make().fit(score, sensitive_features=a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(score + rng.uniform(-0.5, 0.5, 4000), sensitive_features=a)
        BarycenterRepair(0.9).fit(score, sensitive_features=a)


def test_the_map_of_a_path_over_strength_need_not_be_named(rows):
    X, y, a = (each[:600] for each in rows)
    paths = [
        tradeoff_path(each, X, y, sensitive_features=a, etas=[0, 1], cv=3, random_state=0)
        for each in (
            RepairedClassifier(LogisticRegression(), random_state=0),
            RepairedClassifier(LogisticRegression(), BarycenterRepair(), random_state=0),
        )
    ]
    pd.testing.assert_frame_equal(*paths)
    named = RepairedClassifier(LogisticRegression(), HistogramMatcher())
    assert named.with_map() is named


# ---------------------------------------------------------------- one plain model instead


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_one_plain_model_imitates_the_repair(rows, others, kind):
    X, y, a = rows
    trees = {"max_iter": 60, "max_leaf_nodes": 8, "random_state": 0}
    make = HistGradientBoostingRegressor if kind == "regressor" else HistGradientBoostingClassifier
    repair = BlindRepair(LogisticRegression(), eta=5, coin=False, random_state=0)
    found = repair.distill(make(**trees), X, y, sensitive_features=a)
    assert type(found.model) is make
    assert b"evenrisk" not in pickle.dumps(found.model)
    g = repair.decision_function(others[0])
    if kind == "regressor":
        imitated = found.model.predict(others[0])
        assert np.corrcoef(imitated, g)[0, 1] > 0.97
        assert imitated.mean() == pytest.approx(g.mean(), abs=0.05)
    else:
        s = found.model.predict_proba(others[0])[:, 1]
        assert np.corrcoef(s, repair.predict_proba(others[0])[:, 1])[0, 1] > 0.97
    auc, gap = roc_auc_score(y, repair.decision_function(X)), max_gap(repair, X, y, a)
    for each in (found.repaired, found.distilled):
        assert tuple(each) == pytest.approx((auc, gap), abs=0.05)
    assert str(found).splitlines()[2] == (
        f"distilled   {found.distilled.auc:>8.4f}{found.distilled.max_gap:>9.4f}"
    )


class Constant(BaseEstimator):
    """Predicts the mean of its targets, and keeps them."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        Constant.seen.append(np.asarray(y))
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.RepairWarning")
@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
def test_no_target_of_the_imitation_comes_from_a_model_that_saw_the_row(rows):
    X, y, a = (each[:600] for each in rows)
    Constant.seen.clear()
    BlindRepair(Memoriser(), eta=1, coin=False, random_state=0).distill(
        Constant(), X, y, sensitive_features=a
    )
    assert [len(each) for each in Constant.seen] == [480] * 5 + [600]
    assert max(np.ptp(each) for each in Constant.seen) < 1e-9, "the memoriser says one half of new rows"


def test_the_imitation_is_measured_on_rows_held_out(rows):
    """A regressor that knows its rows by heart would be perfect on them."""
    X, y, a = (each[:900] for each in rows)
    found = BlindRepair(LogisticRegression(), eta=0, random_state=0).distill(
        KNeighborsRegressor(1), X, y, sensitive_features=a
    )
    assert found.distilled.auc < found.repaired.auc - 0.01


def test_the_repair_beside_the_imitation_is_measured_on_rows_held_out_too():
    X, y, a = world(900, n_groups=3)
    weight = np.random.default_rng(0).gamma(2, size=900)
    repair = BlindRepair(LogisticRegression(), "equalized_odds", eta=2, warm_start=True, random_state=0)
    found = repair.distill(LinearRegression(), X, y, weight, sensitive_features=a)
    plane = repair._kept_plane
    rank = np.empty(900)
    for train, test in plane.how.folds:
        F = plane.rows.features(plane.basis)
        model = clone(repair.plane_model_).set_params(alpha=0.3 * weight.mean() / weight[train].sum())
        g = model.fit(F[train], y[train], weight[train], sensitive_features=a[train]).decision_function(F)
        for i in test:
            lower, equal = g[test] < g[i], g[test] == g[i]
            rank[i] = (weight[test] @ lower + weight[test] @ equal / 2) / weight[test].sum()
    assert found.repaired.auc == pytest.approx(roc_auc_score(y, rank, sample_weight=weight), abs=1e-9)
    gaps = []
    for t, label in product(rank, (0, 1)):
        cells = [(y == label) & (a == k) for k in range(3)]
        rates = [weight[cell] @ (rank[cell] > t) / weight[cell].sum() for cell in cells]
        gaps.append(max(rates) - min(rates))
    assert found.repaired.max_gap == pytest.approx(max(gaps), abs=1e-9)


def test_an_imitation_with_weights_is_that_of_repeated_rows():
    X, y, a = world(220)  # few enough for the coarsest plane model, repeated or not
    weight = np.random.default_rng(0).integers(1, 3, 220)
    given = [each.repeat(weight, axis=0) for each in (X, y, a)]
    fold = np.arange(220) % 2
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in (0, 1)]
    again = [tuple(np.flatnonzero(np.isin(np.arange(220).repeat(weight), part)) for part in f) for f in folds]
    base = LogisticRegression(tol=1e-10, max_iter=1000)
    settings = {"eta": 2, "coin": False, "tol": 1e-9, "random_state": 0}
    one = BlindRepair(base, cv=folds, **settings).distill(
        LinearRegression(), X, y, weight, sensitive_features=a
    )
    two = BlindRepair(base, cv=again, **settings).distill(
        LinearRegression(), *given[:2], sensitive_features=given[2]
    )
    assert one.model.coef_ == pytest.approx(two.model.coef_, abs=1e-4)
    assert tuple(one.distilled) == pytest.approx(tuple(two.distilled), abs=1e-4)


@pytest.mark.parametrize(
    ("imitator", "message"),
    [
        (LinearRegression, "`estimator` must be an instance, got the class LinearRegression"),
        (StandardScaler(), "must be a regressor, or a classifier with predict_proba, got StandardScaler"),
        (RidgeClassifier(), "must be a regressor, or a classifier with predict_proba, got RidgeClassifier"),
        (KNeighborsClassifier(), "a classifier whose fit takes `sample_weight`, got KNeighborsClassifier, w"),
    ],
)
def test_what_cannot_imitate_is_refused(rows, imitator, message):
    with pytest.raises(ValueError, match=message):
        BlindRepair(LogisticRegression()).distill(imitator, *rows[:2], sensitive_features=rows[2])


def test_an_imitation_needs_groups_to_be_measured(rows):
    repair = BlindRepair(LogisticRegression(), eta=0)
    with pytest.raises(MissingSensitiveFeatures, match="is required to measure gaps, got None"):
        repair.distill(LinearRegression(), *rows[:2], sensitive_features=None)


# ---------------------------------------------------------------- crowds


def test_a_crowd_that_leaves_a_gap_is_named():
    """Three places; at the first 300 of 1000 and 100 of 500 people, so that no score has a gap under .05."""
    x = np.concatenate([np.repeat([0, 1, 2], [300, 350, 350]), np.repeat([0, 1, 2], [100, 200, 200])])
    a = np.repeat([0, 1], [1000, 500])
    y = (np.random.default_rng(0).random(1500) < 0.3 + 0.2 * x).astype(int)
    models = BlindRepair(
        Known(np.array([0.4, 0.5, 0.6])),
        attribute_estimator=Known(np.array([0.25, 0.36, 0.36])),
        cv="prefit",
        random_state=0,
    )
    message = (
        "a crowd leaves a gap: 30.0% of group '0' and 20.0% of group '1' share one place in the plane and "
        "one fall of the coin, and with it their score, "
        "so no eta brings the max gap below 0.050 on these rows"
    )
    with pytest.warns(RepairWarning, match=f"{message}$"):
        models.fit(x[:, None], y, sensitive_features=a)
    with pytest.warns(
        RepairWarning, match="below 0.050 on these rows. With coin=True those whose X differ c"
    ):
        models.set_params(coin=False).fit(x[:, None], y, sensitive_features=a)
    weight = np.where((x == 0) & (a == 1), 4.0, 1.0)
    with pytest.warns(RepairWarning, match=r"30\.0% of group '0' and 50\.0% of group '1'.*below 0\.100 "):
        models.set_params(coin=True).fit(x[:, None], y, weight, sensitive_features=a)


def test_a_crowd_that_the_coin_spreads_is_not_named():
    X, y, a = crowded(3000, 0)
    place = (X[:, 2] < -4).astype(int)
    models = BlindRepair(
        Known(np.array([0.5, 0.003])), attribute_estimator=Known(np.array([0.45, 0.16])), cv="prefit"
    )
    frame = np.column_stack([place, X])
    models.fit(frame, y, sensitive_features=a)
    with pytest.warns(RepairWarning, match="With coin=True"):
        models.set_params(coin=False).fit(frame, y, sensitive_features=a)


def test_routing_passes_groups_through_a_pipeline(rows):
    X, y, a = rows
    repair = BlindRepair(LogisticRegression(), eta=3, random_state=0)
    alone = clone(repair).fit(StandardScaler().fit_transform(X), y, sensitive_features=a)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), repair).fit(X, y, sensitive_features=a)
    assert pipe.decision_function(X) == pytest.approx(
        alone.decision_function(StandardScaler().fit_transform(X))
    )


def test_weights_that_a_base_model_cannot_take_are_named(rows):
    X, y, a = rows
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    neighbours = KNeighborsClassifier(100)
    repaired = BlindRepair(neighbours, eta=1, attribute_estimator=LogisticRegression(), random_state=0)
    with pytest.warns(RepairWarning, match="`estimator`, a KNeighborsClassifier, takes no `sample_weight`"):
        repaired.fit(X, y, weight, sensitive_features=a)


def test_a_group_that_does_not_show_in_x_is_named(rows):
    X, y, _ = rows
    anybody = np.random.default_rng(0).integers(0, 2, len(y))
    with pytest.warns(RepairWarning, match="the group cannot be told from X: `attribute_estimator`, a Log"):
        BlindRepair(LogisticRegression(), random_state=0).fit(X, y, sensitive_features=anybody)


def test_a_model_that_knows_its_rows_by_heart_is_named(rows):
    X, y, a = rows
    forest = RandomForestClassifier(10)
    message = r"`estimator`, a RandomForestClassifier, has an AUC of 0\.99\d on the rows it was fitted to"
    with pytest.warns(RepairWarning, match=message):
        BlindRepair(forest, attribute_estimator=LogisticRegression(), random_state=0).fit(
            X, y, sensitive_features=a
        )


class OutOfRange(LogisticRegression):
    def predict_proba(self, X):
        return super().predict_proba(X) * 1.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": RidgeClassifier()}, "`estimator` must be a classifier with predict_proba, got RidgeC"),
        ({"estimator": LogisticRegression}, "`estimator` must be an instance, got the class Logistic"),
        ({"estimator": 1.5}, "`estimator` must be a classifier or the name of a column of X, got 1.5"),
        ({"cv": "prefit", "attribute_estimator": LogisticRegression()}, "`estimator` must be fitted with cv"),
        ({"cv": "prefit"}, "`estimator` must be fitted with cv='prefit', got a LogisticRegression"),
        ({"cv": 1}, "`cv` must be a whole number of at least 2, got 1"),
        ({"estimator": OutOfRange()}, r"`estimator` must give probabilities in \[0, 1\], got 1\.\d"),
        ({"attribute_estimator": OutOfRange()}, "`attribute_estimator` must give probabilities in"),
        ({"estimator": 0}, "`attribute_estimator` must be given with a score column, 0, got None"),
        (
            {"estimator": 9, "attribute_estimator": LogisticRegression()},
            "name columns of X, got 9, which X does not have",
        ),
        ({"estimator": 0, "attribute_estimator": [1]}, r"`attribute_estimator` must give probabilities in"),
        ({"estimator": 0, "attribute_estimator": [1, 2, 3]}, "one column of X for each of 2 groups, got 3"),
        ({"estimator": [0]}, r"must be a classifier or the name of a column of X, got \[0\]"),
        (
            {"attribute_estimator": {0: LogisticRegression()}},
            "must be a dict only with cv='prefit' and a par",
        ),
        ({"eta": -1}, "`eta` must be a finite number of at least 0, got -1"),
        ({"coin": "yes"}, "`coin` must be True or False, got 'yes'"),
    ],
)
def test_what_cannot_be_repaired_is_refused_by_name(rows, settings, message):
    X, y, a = rows
    with pytest.raises(ValueError, match=message):
        BlindRepair(**{"estimator": LogisticRegression(), "random_state": 0} | settings).fit(
            X[:400], y[:400], sensitive_features=a[:400]
        )


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_a_group_with_fewer_rows_than_folds_is_refused(rows):
    X, y, a = (each[:300] for each in rows)
    few = np.where(np.arange(300) < 4, "few", a.astype(str))
    with pytest.raises(ValueError, match="as many rows of each group as folds, cv=5, got 4 rows of 'few'"):
        BlindRepair(LogisticRegression()).fit(X, y, sensitive_features=few)


def test_groups_are_required_with_a_penalty(rows):
    with pytest.raises(MissingSensitiveFeatures, match=r"when eta > 0, got None with eta=1\.0"):
        BlindRepair(LogisticRegression()).fit(*rows[:2])


# ---------------------------------------------------------------- aware


def two_normals(n=(3000, 1700), seed=0):
    rng = np.random.default_rng(seed)
    s = np.concatenate([rng.normal(0, 1, n[0]), rng.normal(1, 2, n[1])])
    return s, np.repeat(["a", "b"], n)


def test_the_barycentre_of_two_normals_is_the_closed_form():
    s, a = two_normals((30_000, 17_000))
    repair = BarycenterRepair().fit(s, sensitive_features=a)
    p, q = 30 / 47, 17 / 47
    z = np.linspace(-2, 2, 9)
    for group, mean, sd in (("a", 0, 1), ("b", 1, 2)):
        moved = repair.transform(mean + sd * z, sensitive_features=np.repeat(group, 9))
        assert moved == pytest.approx(q + (p + 2 * q) * z, abs=0.06)


@pytest.mark.parametrize("make", [BarycenterRepair, HistogramMatcher])
def test_distributions_agree_to_one_row_of_the_smaller_group(make):
    s, a = two_normals()
    repaired = make().fit_transform(s, sensitive_features=a)
    assert threshold_profile(None, repaired, sensitive_features=a).max_gap <= 1 / 1700
    for group in "ab":
        assert (np.argsort(repaired[a == group]) == np.argsort(s[a == group])).all()


def test_the_barycentre_is_pots():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its docstrings, when they are compiled
        ot = need("ot")
    s, a = two_normals((300, 300))
    repaired = BarycenterRepair().fit_transform(s, sensitive_features=a)
    first, second = np.sort(s[a == "a"])[:, None], np.sort(s[a == "b"])[:, None]
    start = np.linspace(-3, 5, 300)[:, None]
    found = ot.lp.free_support_barycenter([first, second], [ot.unif(300)] * 2, start, ot.unif(300))
    assert np.sort(repaired[a == "a"]) == pytest.approx(np.sort(found[:, 0]), abs=1e-9)


def test_histogram_matching_is_scikit_images():
    exposure = need("skimage.exposure")
    rng = np.random.default_rng(0)
    s, a = two_normals((500, 400))
    reference = rng.gamma(2, size=500)
    moved = HistogramMatcher(reference).fit(s, sensitive_features=a).transform(s, sensitive_features=a)
    theirs = exposure.match_histograms(s[a == "a"], reference)
    assert moved[a == "a"] == pytest.approx(theirs, abs=1e-9)
    # other numbers of rows: ranks in the middle of a step instead of at its end
    theirs = exposure.match_histograms(s[a == "b"], reference)
    step = np.interp(np.argsort(np.argsort(s[a == "b"])) / 400, np.arange(500) / 500, np.sort(reference))
    assert (moved[a == "b"] <= theirs + 1e-12).all()
    assert (moved[a == "b"] >= step - 1e-12).all()


@pytest.mark.parametrize("strength", [0.0, 0.25, 1.0])
def test_strength_moves_a_part_of_the_way(strength):
    s, a = two_normals()
    full = BarycenterRepair().fit_transform(s, sensitive_features=a)
    part = BarycenterRepair(strength).fit_transform(s, sensitive_features=a)
    assert part == pytest.approx((1 - strength) * s + strength * full)


def test_ties_and_unseen_scores_keep_their_order_and_risks_stay_risks():
    s = [0.2, 0.2, 0.4, 0.3, 0.5, 0.5, 0.9]
    a = list("aaabbbb")
    repair = BarycenterRepair().fit(s, sensitive_features=a)
    new = np.linspace(0, 1, 41)
    for group in "ab":
        moved = repair.transform(new, sensitive_features=[group] * 41)
        assert (np.diff(moved) > 0).all()
        assert (moved[0], moved[-1]) == (0, 1)
    raw = BarycenterRepair().fit(np.multiply(s, 3), sensitive_features=a)
    moved = raw.transform(np.linspace(-9, 9, 41), sensitive_features=["b"] * 41)
    assert (np.diff(moved) > 0).all()


def test_a_weight_is_a_number_of_rows():
    s, a = two_normals((40, 30))
    weight = np.random.default_rng(0).integers(0, 4, 70)
    repeated = BarycenterRepair().fit(np.repeat(s, weight), sensitive_features=np.repeat(a, weight))
    weighted = BarycenterRepair().fit(s, sensitive_features=a, sample_weight=weight)
    assert weighted.transform(s, sensitive_features=a) == pytest.approx(
        repeated.transform(s, sensitive_features=a)
    )


def test_a_group_is_a_reference_and_an_unknown_one_is_refused():
    s, a = two_normals((300, 200))
    matcher = HistogramMatcher("b").fit(s, sensitive_features=a)
    assert matcher.transform(s, sensitive_features=a)[a == "b"] == pytest.approx(s[a == "b"])
    with pytest.raises(ValueError, match="groups that fit has seen, 'a', 'b', got 'c' too"):
        matcher.transform([0.5], sensitive_features=["c"])
    with pytest.raises(ValueError, match="`reference` must be 'pooled', one of the groups 'a'"):
        HistogramMatcher("c").fit(s, sensitive_features=a)
    with pytest.raises(ValueError, match=r"`strength` must be a number from 0 to 1, got 1\.5"):
        BarycenterRepair(1.5).fit(s, sensitive_features=a)


def test_a_classifier_is_repaired_with_the_group_at_prediction(rows, others):
    X, y, a = rows
    repaired = RepairedClassifier(LogisticRegression(), random_state=0).fit(X, y, sensitive_features=a)
    s = repaired.predict_proba(others[0], sensitive_features=others[2])[:, 1]
    assert threshold_profile(None, s, sensitive_features=others[2]).max_gap < 0.06
    base = LogisticRegression().fit(X, y).predict_proba(others[0])[:, 1]
    for group in (0, 1):
        in_group = others[2] == group
        assert roc_auc_score(others[1][in_group], s[in_group]) == pytest.approx(
            roc_auc_score(others[1][in_group], base[in_group])
        )
    with pytest.raises(MissingSensitiveFeatures, match="to fit and to predict, or fit the classifier itself"):
        clone(repaired).fit(X, y)
    decided = repaired.predict(X, sensitive_features=a)
    assert repaired.score(X, y, sensitive_features=a) == (decided == y).mean()
    with pytest.raises(MissingSensitiveFeatures, match="`sensitive_features` is required to predict"):
        repaired.predict(X)
    with pytest.raises(ValueError, match="got 7 too"):
        repaired.predict(X[:1], sensitive_features=[7])


def test_a_path_over_strength_is_measured_on_people_held_out(rows):
    X, y, a = rows
    fold = np.arange(len(y)) % 3
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    base = LogisticRegression()
    paths = tradeoff_path(
        RepairedClassifier(base, BarycenterRepair(), random_state=0), X, y, a, etas=[1, 0, 0.5], cv=folds
    )
    assert paths["strength"].tolist() == [0, 0.5, 1]
    assert "eta" not in paths
    assert (np.diff(paths["max_gap"]) < 0).all()
    assert (np.diff(paths["auc"]) < 0).all()
    rank = np.empty(len(y))
    for train, test in folds:
        p = base.fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        rank[test] = np.argsort(np.argsort(p)) / len(p)
    assert paths["auc"][0] == pytest.approx(roc_auc_score(y, rank), abs=1e-4)
    gap = threshold_profile(y, rank, sensitive_features=a).max_gap
    assert paths["max_gap"][0] == pytest.approx(gap, abs=0.002)
    with pytest.raises(ValueError, match=r"must have a map with a parameter `strength`, such as repair=Bary"):
        tradeoff_path(RepairedClassifier(base, HistogramMatcher()), X, y, a, etas=[1])


def test_a_path_over_strength_fits_the_classifier_once_for_each_fold(rows):
    X, y, a = (each[:600] for each in rows)
    Counting.fits = 0
    aware = RepairedClassifier(Counting(), BarycenterRepair(), cv=3, random_state=0)
    tradeoff_path(aware, X, y, a, etas=[0, 0.3, 0.6, 1], cv=2, random_state=0)
    assert Counting.fits == 2 * (3 + 1)


# ---------------------------------------------------------------- blind and aware side by side


def test_knowing_the_group_is_worth_something(rows):
    X, y, a = rows
    paths = price_of_blindness(
        LogisticRegression(), X, y, a, etas=[3, 30], strengths=[0.5, 1], cv=3, random_state=0
    )
    assert paths["method"].tolist() == [
        "plain model",
        *["blind repair: group unknown at prediction"] * 2,
        *["aware repair: group known at prediction"] * 2,
    ]
    plain, blind = (paths[paths["method"].str.startswith(each)] for each in ("plain", "blind"))
    assert plain["max_gap"].item() > blind["max_gap"].max()
    table = quality_at_gap(paths, [blind["max_gap"].iloc[0]])
    plain_at, blind_at, aware_at = table.iloc[:, 0]
    assert np.isnan(plain_at)
    assert aware_at > blind_at


def test_quality_at_equal_gap_by_hand():
    paths = pd.DataFrame(
        {
            "method": ["b", "a", "a", "a", "a", "b"],
            "max_gap": [0.2, 0.3, 0.1, 0.2, 0.25, np.nan],
            "auc": [0.7, 0.9, 0.5, 0.8, 0.6, 0.99],
        }
    )
    table = quality_at_gap(paths, [0.4, 0.25, 0.15, 0.05])
    assert table.index.tolist() == ["b", "a"]
    assert table.loc["a"].tolist()[:3] == pytest.approx([0.9, 0.8, 0.65])  # .6 at .25 is beaten by .8 at .2
    assert table.loc["b"].tolist()[:2] == [0.7, 0.7]
    assert table.isna().to_numpy().tolist() == [[False, False, True, True], [False, False, False, True]]


@pytest.mark.parametrize(
    ("paths", "gaps", "message"),
    [
        ([1], [0.1], "`paths` must be a pandas DataFrame, got list"),
        (
            pd.DataFrame({"method": ["a"], "auc": [1.0]}),
            [0.1],
            "columns method, max_gap and auc, got no max_gap",
        ),
        (pd.DataFrame({"method": ["a"], "auc": [1.0], "max_gap": [0.1]}), [], "at least 1 number"),
        (pd.DataFrame({"method": ["a"], "auc": [1.0], "max_gap": [0.1]}), [0], "above 0, got 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(paths, gaps, message):
    with pytest.raises(ValueError, match=message):
        quality_at_gap(paths, gaps)


# ---------------------------------------------------------------- what an attack found


@pytest.mark.parametrize("make", [BlindRepair, RepairedClassifier])
def test_folds_that_fit_what_they_hold_out_are_refused(rows, make):
    X, y, a = (each[:600] for each in rows)
    fold = np.arange(600) % 2
    seen = [(np.arange(600), np.flatnonzero(fold == k)) for k in (0, 1)]
    for cv, message in (
        (seen, "got fold 1 of 2 with 300 rows in both"),
        ([(np.flatnonzero(fold == 0), np.flatnonzero(fold == 1))], "must hold out each of 600 rows exactly"),
        ([([0.5], [1.5])], r"two arrays of row numbers below 600, got \(\[0\.5\], \[1\.5\]\)"),
        ([1, 2], "two arrays of row numbers below 600, got 1"),
        ([([0, 600], [1])], "two arrays of row numbers below 600"),
    ):
        with pytest.raises(ValueError, match=message):
            make(LogisticRegression(), cv=cv).fit(X, y, sensitive_features=a)
    masks = [(fold != k, fold == k) for k in (0, 1)]
    numbers = [tuple(map(np.flatnonzero, fold)) for fold in masks]
    one, two = (make(LogisticRegression(), cv=cv, random_state=0) for cv in (masks, numbers))
    given = {"sensitive_features": a} if make is RepairedClassifier else {}
    scores = [each.fit(X, y, sensitive_features=a).decision_function(X, **given) for each in (one, two)]
    assert np.array_equal(*scores)


@pytest.mark.parametrize("what", ["y", "groups", "types of groups", "weight", "labels"])
@pytest.mark.parametrize("make", [BlindRepair, RepairedClassifier])
def test_a_warm_start_sees_every_change_of_the_rows(rows, make, what):
    X, y, a = (each[:600] for each in rows)
    rng = np.random.default_rng(0)
    changed = {"y": y, "sensitive_features": a, "sample_weight": None}
    changed |= {
        "y": {"y": np.where(rng.random(600) < 0.3, 1 - y, y)},
        "groups": {"sensitive_features": rng.permutation(a)},
        "types of groups": {"sensitive_features": a.astype(str)},
        "weight": {"sample_weight": rng.integers(1, 4, 600)},
        "labels": {"y": np.array(["no", "yes"])[y]},
    }[what]
    warm = make(LogisticRegression(), warm_start=True, random_state=0).fit(X, y, sensitive_features=a)
    cold = make(LogisticRegression(), random_state=0)
    given = {}
    if make is RepairedClassifier:
        given = {"sensitive_features": changed["sensitive_features"]}
    found = [each.fit(X, **changed).decision_function(X, **given) for each in (warm, cold)]
    assert np.array_equal(*found)
    assert warm.groups_.tolist() == cold.groups_.tolist()
    assert warm.classes_.tolist() == cold.classes_.tolist()


def test_what_cannot_be_compared_is_not_kept(rows, others):
    """A pipeline with a function without a name cannot be pickled, nor told from another."""
    X, y, a = rows
    pipe = make_pipeline(FunctionTransformer(lambda Z: Z), LogisticRegression()).fit(*others[:2])
    group = LogisticRegression().fit(others[0], others[2])
    warm = BlindRepair(pipe, attribute_estimator=group, cv="prefit", warm_start=True, random_state=0)
    before = warm.fit(X, y, sensitive_features=a).places(X)
    pipe.fit(others[0][:, ::-1], others[1])
    assert not np.array_equal(warm.fit(X, y, sensitive_features=a).places(X), before)


def test_fitted_models_survive_paths_and_searches(rows, others):
    X, y, a = (each[:1000] for each in rows)
    risk, group = LogisticRegression().fit(*others[:2]), LogisticRegression().fit(others[0], others[2])
    blind = BlindRepair(risk, attribute_estimator=group, cv="prefit", random_state=0)
    alone = clone(blind).set_params(eta=3).fit(X, y, sensitive_features=a)
    path = blind.fit_path(X, y, [0, 3], sensitive_features=a)
    assert path[1].decision_function(X) == pytest.approx(alone.decision_function(X), abs=1e-3)
    search = BudgetSearchCV(blind, 0.2, cv=2, random_state=0).fit(X, y, sensitive_features=a)
    assert search.best_estimator_.estimator_ is risk
    aware = RepairedClassifier(risk, BarycenterRepair(), cv="prefit")
    assert len(tradeoff_path(aware, X, y, a, etas=[0, 1], cv=2, random_state=0)) == 2


def test_without_a_model_of_the_group_there_is_no_plane(rows, others):
    X, y, a = rows
    risk = LogisticRegression().fit(*others[:2])
    repaired = BlindRepair(risk, eta=0, cv="prefit").fit(X, y, sensitive_features=a)
    assert repaired.attribute_estimators_ == []
    assert repaired.places(X).shape == (len(X), 1)
    assert repaired.place_names_ == ["risk, P(y = 1)"]


@pytest.mark.parametrize("prefit", [False, True])
def test_one_source_of_the_group_serves_both_labels(rows, others, prefit):
    X, y, a = rows
    group = LogisticRegression().fit(others[0], others[2])
    if prefit:
        risk = LogisticRegression().fit(*others[:2])
        repaired = BlindRepair(risk, "equalized_odds", attribute_estimator=group, cv="prefit", eta=3)
    else:
        X = np.column_stack([X, group.predict_proba(X)[:, 1]])
        repaired = BlindRepair(LogisticRegression(), "equalized_odds", attribute_estimator=4, eta=3)
    repaired.set_params(coin=False).fit(X, y, sensitive_features=a)
    assert repaired.place_names_ == ["risk, P(y = 1)", "probability of 1"]
    assert repaired.risk_at(repaired.places(X)) == pytest.approx(repaired.predict_proba(X)[:, 1])


def test_weights_reach_a_pipeline_with_routing_on(rows):
    X, y, a = (each[:600] for each in rows)
    weight = np.random.default_rng(0).integers(1, 4, 600)
    repaired = BlindRepair(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0)
    found = []
    for routing in (False, True):
        with sklearn.config_context(enable_metadata_routing=routing):
            found.append(clone(repaired).fit(X, y, weight, sensitive_features=a).decision_function(X))
    assert np.array_equal(*found)


def test_the_coin_knows_columns_whatever_their_types_are_now():
    X, y, a = world(600)
    frame = pd.DataFrame(X, columns=list("pqrs"))
    trees = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=4)
    repaired = BlindRepair(trees, eta=5, random_state=0).fit(frame, y, sensitive_features=a)
    expected = repaired.decision_function(frame)
    assert np.array_equal(repaired.decision_function(frame.astype(object)), expected)
    holes = frame.iloc[:3].assign(p=np.nan)
    assert np.array_equal(
        repaired.decision_function(holes.astype(object).where(holes.notna(), None)),
        repaired.decision_function(holes),
    )


def test_a_missing_number_in_sparse_rows_leaves_the_coin_of_others():
    X, y, a = world(600)
    X[::7, 0] = np.nan
    base = make_pipeline(SimpleImputer(), LogisticRegression())
    repaired = BlindRepair(base, eta=3, random_state=0).fit(sparse.csr_matrix(X), y, sensitive_features=a)
    coin = repaired._coin(sparse.csr_matrix(X))
    assert len(np.unique(coin)) > 500
    assert np.isfinite(repaired.decision_function(sparse.csr_matrix(X))).all()


def test_a_number_may_be_the_label_of_a_column(others):
    X, y, a = others
    frame = pd.DataFrame(X, columns=[3, 2, 1, 0]).assign(**{"9": 0})
    frame.columns = [3, 2, 1, 0, 9]
    frame[9] = X[:, 0] + X[:, 1]
    repaired = BlindRepair(9, attribute_estimator=LogisticRegression(), eta=0).fit(
        frame, y, sensitive_features=a
    )
    order = np.argsort(frame[9])
    assert (np.diff(repaired.places(frame)[order, 0]) >= 0).all()


@pytest.mark.filterwarnings("ignore:a max gap of .* is left:evenrisk.exceptions.RepairWarning")
def test_risks_of_0_and_1_have_finite_log_odds(rows):
    X, y, a = (each[:600] for each in rows)
    trees = DecisionTreeClassifier(max_depth=6, random_state=0)
    repaired = RepairedClassifier(trees, random_state=0).fit(X, y, sensitive_features=a)
    s = repaired.predict_proba(X, sensitive_features=a)[:, 1]
    assert {0.0, 1.0} <= set(s)
    g = repaired.decision_function(X, sensitive_features=a)
    assert np.isfinite(g).all()
    assert 1 / (1 + np.exp(-g)) == pytest.approx(s, abs=1e-12)
    assert np.array_equal(repaired.predict(X, sensitive_features=a), (s > 0.5).astype(int))


@pytest.mark.filterwarnings("ignore:a max gap of .* is left:evenrisk.exceptions.RepairWarning")
def test_the_map_is_fitted_to_risks_that_the_classifier_has_not_fitted_with_their_weights(rows):
    X, y, a = (each[:600] for each in rows)
    weight = np.random.default_rng(0).integers(0, 4, 600)
    fold = np.arange(600) % 2
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in (0, 1)]
    trees = DecisionTreeClassifier(max_depth=4, random_state=0)
    unseen = np.empty(600)
    for train, test in folds:
        fitted = clone(trees).fit(X[train], y[train], sample_weight=weight[train])
        unseen[test] = fitted.predict_proba(X[test])[:, 1]
    repaired = RepairedClassifier(trees, cv=folds).fit(X, y, weight, sensitive_features=a)
    by_hand = BarycenterRepair().fit(unseen, sensitive_features=a, sample_weight=weight)
    moved = by_hand.transform(repaired.estimator_.predict_proba(X)[:, 1], sensitive_features=a)
    assert repaired.predict_proba(X, sensitive_features=a)[:, 1] == pytest.approx(moved)


@pytest.mark.filterwarnings("ignore:a max gap of .* is left:evenrisk.exceptions.RepairWarning")
def test_what_an_aware_repair_cannot_do_is_said(rows):
    X, y, a = (each[:600] for each in rows)
    neighbours = RepairedClassifier(KNeighborsClassifier(20), random_state=0)
    with pytest.warns(RepairWarning, match="`estimator`, a KNeighborsClassifier, takes no `sample_weight`"):
        neighbours.fit(X, y, 1 + a, sensitive_features=a)
    for repair, message in (
        (HistogramMatcher(np.linspace(-3, 5, 50)), r"must move risks to \[0, 1\], got scores from -"),
        (BarycenterRepair, "must be a BarycenterRepair, a HistogramMatcher or None, got <class"),
        (StandardScaler(), "must be a BarycenterRepair, a HistogramMatcher or None, got StandardScaler"),
    ):
        with pytest.raises(ValueError, match=message):
            RepairedClassifier(LogisticRegression(), repair).fit(X, y, sensitive_features=a)


class Hopeless(LinearRegression):
    def predict(self, X):
        return super().predict(X) * np.nan


def test_a_failed_imitation_leaves_nothing_behind(rows):
    X, y, a = (each[:600] for each in rows)
    repair = BlindRepair(LogisticRegression(), random_state=0)
    with pytest.raises(ValueError, match="must predict one finite number for each of 120 rows, got shape"):
        repair.distill(Hopeless(), X, y, sensitive_features=a)
    assert not hasattr(repair, "estimator_")
    with pytest.raises(ValueError, match="`estimator` must be a regressor or a classifier, got None"):
        repair.distill(None, X, y, sensitive_features=a)


def test_the_same_seed_gives_the_same_imitation(rows):
    X, y, a = (each[:600] for each in rows)
    forest = RandomForestRegressor(5)
    first, second = (
        BlindRepair(LogisticRegression(), random_state=0).distill(forest, X, y, sensitive_features=a)
        for _ in range(2)
    )
    assert np.array_equal(first.model.predict(X), second.model.predict(X))
    assert first.distilled == second.distilled


def test_a_gap_that_is_reported_of_a_strong_repair_is_that_of_new_people():
    reported, true = [], []
    for seed in range(6):
        X, y, a = world(500, seed=seed)
        repair = BlindRepair(LogisticRegression(), eta=100, random_state=0)
        found = repair.distill(LinearRegression(), X, y, sensitive_features=a)
        reported.append(found.repaired.max_gap)
        new = world(500, seed=100 + seed)
        true.append(max_gap(repair, *new))
    assert np.mean(reported) > 0.75 * np.mean(true)


def test_many_small_crowds_are_no_alarm():
    """Fifty places of ten people whose groups do not differ: chance alone moves shares by several points."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, a, y = rng.integers(0, 50, 500), (rng.random(500) < 0.07).astype(int), rng.integers(0, 2, 500)
        models = BlindRepair(
            Known(np.linspace(0.2, 0.8, 50)),
            attribute_estimator=Known(np.linspace(0.05, 0.09, 50)),
            cv="prefit",
            coin=False,
            eta=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", RepairWarning)
            models.fit(x[:, None], y, sensitive_features=a)


def test_a_float_names_a_group_of_floats():
    s, a = two_normals((300, 200))
    groups = np.where(a == "b", 1.0, 0.0)
    matched = HistogramMatcher(1.0).fit_transform(s, sensitive_features=groups)
    assert matched[a == "b"] == pytest.approx(s[a == "b"])


def test_more_input_that_is_refused_by_name(rows, others):
    X, y, a = (each[:600] for each in rows)
    risk, group = LogisticRegression().fit(*others[:2]), LogisticRegression().fit(others[0], others[2])
    three = LogisticRegression().fit(X, np.arange(600) % 3)
    fitted = {"cv": "prefit", "attribute_estimator": group}
    with pytest.raises(
        ValueError, match=r"`estimator` must predict a probability for each of 0, 1, got an a"
    ):
        BlindRepair(three, **fitted).fit(X, y, sensitive_features=a)
    with pytest.raises(ValueError, match="must be a classifier with predict_proba, got str"):
        BlindRepair(risk, "equalized_odds", cv="prefit", attribute_estimator={0: "a", 1: "b"}).fit(
            X, y, sensitive_features=a
        )
    columns = np.column_stack([X, np.full((600, 2), 0.4)])
    with pytest.raises(
        ValueError, match=r"columns whose probabilities add up to 1 in each row, got 0\.8 in r"
    ):
        BlindRepair(LogisticRegression(), attribute_estimator=[4, 5]).fit(columns, y, sensitive_features=a)
    with pytest.raises(ValueError, match="`X` must have one row for each person, got None"):
        BlindRepair(LogisticRegression()).fit(None, y, sensitive_features=a)
    s, names = two_normals((300, 200))
    stronger = BarycenterRepair().fit(s, sensitive_features=names).set_params(strength=5)
    with pytest.raises(ValueError, match="`strength` must be a number from 0 to 1, got 5"):
        stronger.transform(s, sensitive_features=names)
    for settings, message in (
        ({"strengths": 1}, "`strengths` must be a sequence of at least 1 number, got 1"),
        ({"strengths": [0.5, 2]}, "`strengths` must be numbers from 0 to 1"),
        ({"etas": []}, "`etas` must be a sequence of at least 1 number"),
    ):
        with pytest.raises(ValueError, match=message):
            price_of_blindness(LogisticRegression(), X, y, a, **settings)
    with pytest.raises(ValueError, match="`estimator` must be an instance, got the class LogisticRegression"):
        price_of_blindness(LogisticRegression, X, y, a)
    nested = "`estimator` must be a classifier to repair, got a BlindRepair, which is a repair itself"
    with pytest.raises(ValueError, match=nested):
        price_of_blindness(BlindRepair(LogisticRegression()), X, y, a)
    with pytest.raises(ValueError, match=nested):
        BlindRepair(BlindRepair(LogisticRegression())).fit(X, y, sensitive_features=a)
    frame = pd.DataFrame(X).add_prefix("x")
    with pytest.raises(ValueError, match="name columns of X, got 'decil', which X does not have"):
        BlindRepair("decil", attribute_estimator="x0").fit(frame, y, sensitive_features=a)
    with pytest.raises(ValueError, match=r"got 'x0': a score that exists is repaired by BarycenterRepair\("):
        RepairedClassifier("x0").fit(frame, y, sensitive_features=a)
    for model in (BlindRepair(LogisticRegression()), FairLogisticRegression()):
        with pytest.raises(ValueError, match=r"`etas\[1\]` must be"):
            model.fit_path(X, y, [1, -1], sensitive_features=a)
    aware = RepairedClassifier(LogisticRegression()).fit(X, y, sensitive_features=a)
    with pytest.raises(MissingSensitiveFeatures, match="scorers and cross_val_predict do not pass it on"):
        aware.predict_proba(X)


class Watching(LogisticRegression):
    """Keeps a sum of the rows of each fit, which tells them apart."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Watching.seen.append(float(X.sum()))
        return super().fit(X, y, sample_weight)


def test_blind_and_aware_are_compared_on_the_same_people(rows):
    X, y, a = (each[:400] for each in rows)
    Watching.seen.clear()
    chance = np.random.RandomState(0)
    price_of_blindness(Watching(), X, y, a, etas=[1], strengths=[1], cv=2, random_state=chance)
    # each outer fold: six fits of the label, aware; twelve of label and group, blind; the sixth sees all rows
    aware, blind = Watching.seen[:12], Watching.seen[12:]
    assert len(blind) == 24
    assert [aware[5], aware[11]] == pytest.approx([blind[5], blind[17]])
    assert aware[5] != pytest.approx(aware[11])
