"""Choosing η: the search without models, the search with real ones, and the whole trade-off."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenrisk
from evenrisk import BudgetSearchCV, FairKernelSVC, FairLinearSVC, FairLogisticRegression, threshold_profile
from evenrisk.datasets import load_adult, load_compas
from evenrisk.exceptions import BudgetWarning, CollapseWarning, MissingSensitiveFeatures
from evenrisk.model_selection import tradeoff_path
from evenrisk.model_selection._held_out import (
    EtaEstimator,
    FitInput,
    HeldOutScores,
    SearchRows,
    even_folds,
    rank_within_fold,
)
from evenrisk.model_selection.budget import AS_GOOD, PRECISION, best_eta, eta_grid, smallest_eta
from evenrisk.parity import PARITIES
from evenrisk.plots import TradeoffDisplay
from optional import need

# ---------------------------------------------------------------- the search, without models


class Counted:
    """A criterion that remembers what it was asked."""

    def __init__(self, f):
        self.f, self.asked = f, []

    def __call__(self, eta):
        self.asked.append(eta)
        return self.f(eta)


@pytest.mark.parametrize("where", [0.012, 0.05, 0.32, 1.0, 1.3, 9.0, 77.0, 990.0])
def test_the_smallest_eta_is_found_to_a_tenth(where):
    criterion = Counted(lambda eta: 0.3 / (1 + eta / where))  # 0.15 at eta = where
    found = smallest_eta(criterion, 0.15, 0.01, 1000)
    assert criterion.f(found) <= 0.15
    assert where <= found * (1 + 1e-9)
    assert found <= where * PRECISION * (1 + 1e-9)
    assert len(criterion.asked) == len(set(criterion.asked)) <= 13


def test_a_budget_that_everything_meets_needs_no_penalty():
    criterion = Counted(lambda eta: 0.01)
    assert smallest_eta(criterion, 0.05, 0.01, 1000) == 0
    assert criterion.asked == [0]


def test_the_smallest_eta_of_the_grid_may_be_enough():
    assert smallest_eta(lambda eta: 0.3 * (eta == 0), 0.05, 0.01, 1000) == pytest.approx(0.01)


def test_a_budget_out_of_reach():
    criterion = Counted(lambda eta: 0.1 + 0.2 / (1 + eta))
    assert smallest_eta(criterion, 0.05, 0.01, 1000) is None
    assert max(criterion.asked) == pytest.approx(1000)


def test_the_grid_is_the_same_for_every_search():
    assert eta_grid(0.1, 10) == pytest.approx([0.1, 10**-0.5, 1, 10**0.5, 10])
    assert eta_grid(0.09, 40) == pytest.approx([0.09, *eta_grid(0.1, 10), 10**1.5, 40])
    assert eta_grid(0.2, 0.3) == [0.2, 0.3]  # the ends of a range are always looked at


@pytest.mark.parametrize("valley", [0.02, 0.4, 3.0, 50.0, 800.0])
def test_the_best_eta_is_near_the_lowest_point(valley):
    def criterion(eta):
        return 0.1 + 0.05 * min(abs(np.log10(max(eta, 1e-4) / valley)), 3)

    found = best_eta(criterion, 0.01, 1000)
    assert criterion(found) <= 0.1 + 0.01
    assert found <= valley * 1.5


def test_of_etas_as_good_the_smallest_is_taken():
    assert best_eta(lambda eta: 0.2 if eta < 2 else 0.1 - AS_GOOD / 2 * (eta > 500), 0.01, 1000) < 4


# ---------------------------------------------------------------- with models


@pytest.fixture(scope="module")
def compas():
    X, y, race = load_compas()
    return ((X - X.mean()) / X.std()).to_numpy(), y.to_numpy(), race.to_numpy()


@pytest.fixture(scope="module")
def few(compas):
    return tuple(a[:1200] for a in compas)


def search(rows, budget=0.12, estimator=None, weight=None, **settings):
    X, y, groups = rows
    estimator = FairLogisticRegression(tol=1e-5) if estimator is None else estimator
    settings = {"random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", evenrisk.exceptions.MajorityRateWarning)
        return BudgetSearchCV(estimator, budget, **settings).fit(X, y, weight, sensitive_features=groups)


def held_out(rows, estimator, splits):
    """Pooled held-out scores by a loop of our own, every fit from scratch: raw, and their ranks by SciPy."""
    X, y, groups = rows
    score, rank = np.empty(len(y)), np.empty(len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for train, test in splits:
            clf = clone(estimator).fit(X[train], y[train], sensitive_features=groups[train])
            score[test] = clf.decision_function(X[test])
            rank[test] = (rankdata(score[test]) - 0.5) / len(test)
    return score, rank


@pytest.mark.parametrize("parity", PARITIES)
def test_the_budget_is_met_where_it_says_so(compas, parity):
    X, y, race = compas
    splits = list(KFold(5, shuffle=True, random_state=1).split(X))
    found = search(compas, 0.14, FairLogisticRegression(parity, tol=1e-5), cv=splits)
    assert found.budget_met_
    assert found.eta_ > 0
    assert found.best_estimator_.eta == found.eta_
    profiles = {}
    for eta in (0, found.eta_):
        _, rank = held_out(compas, FairLogisticRegression(parity, eta=eta), splits)
        profiles[eta] = threshold_profile(y, rank, sensitive_features=race, parity=parity)
    assert found.max_gap_ <= 0.14
    assert found.max_gap_ == pytest.approx(profiles[found.eta_].max_gap, abs=0.02)  # other minima are near
    assert found.path_.max_gap[0] == pytest.approx(profiles[0].max_gap, abs=1e-3)
    assert profiles[0].max_gap > 0.14
    path = found.path_
    assert path.eta.is_monotonic_increasing
    assert path.max_gap[path.eta == found.eta_].item() == found.max_gap_
    below = path[(path.eta < found.eta_) & (path.eta >= found.eta_ / PRECISION / 1.0001)]
    assert len(below) == 1
    assert below.max_gap.item() > 0.14


def test_the_path_tells_what_cross_validation_tells(compas):
    X, y, _ = compas
    splits = list(KFold(5, shuffle=True, random_state=1).split(X))
    plain = LogisticRegression(C=np.inf, tol=1e-8)
    score = cross_val_predict(plain, X, y, cv=splits, method="decision_function")
    rank = np.concatenate([rankdata(score[test]) for _, test in splits])
    label = np.concatenate([y[test] for _, test in splits])
    first = search(compas, 0.2, cv=splits).path_.iloc[0]
    assert first.eta == 0
    assert first.auc == pytest.approx(roc_auc_score(label, rank), abs=1e-3)
    assert first.accuracy == pytest.approx(((score > 0) == y).mean(), abs=1e-3)


def test_the_model_found_is_an_ordinary_fit(compas):
    X, y, race = compas
    found = search(compas)
    plain = FairLogisticRegression(eta=found.eta_, tol=1e-5).fit(X, y, sensitive_features=race)
    assert found.best_estimator_.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    assert (found.predict(X) == found.best_estimator_.predict(X)).all()
    assert (found.predict_proba(X) == found.best_estimator_.predict_proba(X)).all()
    assert (found.decision_function(X) == found.best_estimator_.decision_function(X)).all()
    assert found.score(X, y) == (found.predict(X) == y).mean()
    assert found.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    "estimator",
    [
        FairLogisticRegression(distance="histogram", tol=1e-5),
        FairLogisticRegression(distance="gaussian", tol=1e-5),
        FairLogisticRegression(calibration="isotonic", tol=1e-5),
        FairLinearSVC(tol=1e-4),
        FairKernelSVC(n_components=40, tol=1e-4, random_state=0),
    ],
    ids=["histogram", "gaussian", "calibrated", "linear machine", "kernel machine"],
)
def test_any_of_our_estimators(few, estimator):
    found = search(few, 0.15, estimator, cv=3)
    assert found.budget_met_
    assert found.max_gap_ <= 0.15 < found.path_.max_gap[0]


class OnlyProbabilities(ClassifierMixin, BaseEstimator):
    """Somebody else's: no raw scores, no warm start, no parity of its own; penalises by dropping features."""

    def __init__(self, eta=1.0):
        self.eta = eta

    def fit(self, X, y, sensitive_features=None):
        self.kept_ = np.arange(X.shape[1]) if self.eta == 0 else np.array([1])
        self.model_ = LogisticRegression().fit(X[:, self.kept_], y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X[:, self.kept_])

    def predict_proba(self, X):
        return self.model_.predict_proba(X[:, self.kept_])


def test_any_other_estimator_with_an_eta(few):
    found = search(few, 0.22, OnlyProbabilities(), cv=3)
    assert found.eta_ == pytest.approx(0.01)  # the smallest of the grid: any penalty does it
    assert found.path_.accuracy[0] == pytest.approx(0.67, abs=0.05)
    assert not hasattr(found, "decision_function")
    assert found.predict_proba(few[0]).shape == (1200, 2)


# ---------------------------------------------------------------- noise


def test_confidence_asks_for_more(compas):
    measured, bounded = search(compas, 0.15), search(compas, 0.15, confidence=0.9)
    assert bounded.budget_met_
    assert bounded.eta_ > measured.eta_
    at = bounded.path_[bounded.path_.eta == bounded.eta_].iloc[0]
    assert at.max_gap < at.bound <= 0.15
    path = bounded.path_
    assert path.bound[path.max_gap > 0.15].isna().all()
    assert measured.path_.bound.isna().all()


def test_a_budget_that_so_few_rows_cannot_verify(few):
    with pytest.warns(BudgetWarning, match=r"a max gap of 0.1 cannot be verified with 1,200 rows") as caught:
        found = search(few, 0.1, confidence=0.9, cv=3)
    assert not found.budget_met_
    assert found.max_gap_ <= 0.1
    message = str(next(w.message for w in caught if w.category is BudgetWarning))
    shown = re.search(
        r"max gap is ([\d.]+) at eta=.*upper bound at confidence 0.9 below ([\d.]+) \(eta", message
    )
    assert float(shown[1]) == pytest.approx(found.max_gap_, abs=5e-4)
    assert float(shown[2]) == pytest.approx(found.path_.bound.min(), abs=5e-4)
    assert found.path_.bound.min() > 0.1
    assert "rows in every cell would be enough" in message
    assert found.eta_ == search(few, 0.1, cv=3).eta_  # what the measured gap alone would choose


def test_a_budget_within_chance_is_met_with_a_warning(compas):
    rows = tuple(a[:300] for a in compas)
    with pytest.warns(BudgetWarning, match=r"meets the budget of 0.08 as measured, but 300 rows cannot tell"):
        found = search(rows, 0.08)
    assert found.budget_met_
    assert found.max_gap_ <= 0.08


def test_an_impossible_budget_ends_near_a_grid_searchs_best(compas):
    rows = tuple(a[:200] for a in compas)
    splits = list(KFold(5, shuffle=True, random_state=0).split(rows[0]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search(rows, 0.001, cv=splits, eta_range=(0.1, 10))
    assert not found.budget_met_
    gaps = []
    for eta in (0, *10 ** np.linspace(-1, 1, 5)):
        _, rank = held_out(rows, FairLogisticRegression(eta=eta, tol=1e-5), splits)
        gaps.append(threshold_profile(rows[1], rank, sensitive_features=rows[2]).max_gap)
    assert found.max_gap_ <= min(gaps) + 0.01
    message = str(next(w.message for w in caught if w.category is BudgetWarning))
    assert "no eta up to 10 brings the held-out max gap to 0.001" in message
    assert f"comes down to {found.max_gap_:.3f}" in message
    floor = float(re.search(r"shows ([\d.]+) by chance", message)[1])
    assert 0.05 < floor < 0.2


def test_the_warning_points_at_the_caller(few):
    X, y, race = few
    with pytest.warns(BudgetWarning) as caught:
        BudgetSearchCV(FairLogisticRegression(tol=1e-4), 0.001, cv=2, eta_range=(0.1, 1), random_state=0).fit(
            X, y, sensitive_features=race
        )
    assert next(w for w in caught if w.category is BudgetWarning).filename == __file__


class Loud(OnlyProbabilities):
    def fit(self, X, y, sensitive_features=None):
        warnings.warn("squeezed", CollapseWarning, stacklevel=2)
        return super().fit(X, y, sensitive_features)


def test_of_all_fits_only_the_last_ones_warnings_are_passed_on(few):
    X, y, race = few
    with pytest.warns(CollapseWarning) as caught:
        found = BudgetSearchCV(Loud(), 0.22, cv=3, random_state=0).fit(X, y, sensitive_features=race)
    assert len(found.path_) > 1
    assert len(caught) == 1


def test_squeezing_cannot_hide_the_gap_behind_the_folds():
    """With one feature the true max gap is 0.31 whatever its weight: no budget below that can be met."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2000)
    x = rng.normal(size=2000) + 0.8 * group
    y = (rng.random(2000) < 1 / (1 + np.exp(0.3 - x))).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search((x[:, None], y, group), 0.2, confidence=0.9)
    assert not found.budget_met_
    assert any(w.category is BudgetWarning for w in caught)
    assert found.path_.max_gap.min() > 0.25


def test_a_valley_below_one_is_found_and_a_narrow_range_is_kept():
    assert smallest_eta(lambda eta: 0.01 if 0.1 <= eta <= 0.5 else 0.3, 0.05, 0.01, 1000) == pytest.approx(
        0.1, rel=0.1
    )
    assert smallest_eta(lambda eta: 0.01 if 0 < eta < 0.02 else 0.3, 0.05, 0.01, 1000) == 0.01
    assert smallest_eta(lambda eta: 0.3 / (1 + eta), 0.05, 4, 50) == pytest.approx(5, rel=0.1)
    assert smallest_eta(lambda eta: 0.01 if eta >= 20 else 0.3, 0.05, 0.01, 30) == pytest.approx(20, rel=0.1)
    assert smallest_eta(lambda eta: 0.01 if eta >= 0.02 else 0.3, 0.05, 0.02, 30) == 0.02
    for low, high in ((0.2, 0.3), (11, 30)):
        assert smallest_eta(lambda eta: 0.3, 0.05, low, high) is None
        assert low <= best_eta(lambda eta: 1 / (1 + eta), low, high) <= high


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning")
def test_what_meets_the_budget_in_the_end_is_met(few, monkeypatch):
    """The fits from scratch may find what the warm ones did not."""
    monkeypatch.setattr("evenrisk.model_selection.budget.smallest_eta", lambda *a: None)
    found = search(few, 0.2, cv=3)
    assert found.budget_met_
    assert found.max_gap_ <= 0.2


# ---------------------------------------------------------------- the contract


def test_a_precomputed_kernel_is_split_on_both_sides(few):
    X, y, race = (a[:400] for a in few)
    settings = {"gamma": 0.5, "tol": 1e-4, "loss": "squared_hinge"}
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    plain = search((X, y, race), 0.25, FairKernelSVC(**settings), cv=3)
    given = search((K, y, race), 0.25, FairKernelSVC(kernel="precomputed", **settings), cv=3)
    assert given.eta_ == pytest.approx(plain.eta_, rel=0.5)
    assert given.max_gap_ <= 0.25


def test_settings_of_the_user_survive(few):
    for warm in (False, True):
        found = search(few, 0.2, FairLogisticRegression(tol=1e-5, warm_start=warm), cv=3)
        assert found.best_estimator_.warm_start is warm


def test_threads_leave_the_warning_filters_alone(few):
    from joblib import parallel_config

    before = list(warnings.filters)
    with parallel_config(backend="threading"):
        found = search(few, 0.2, cv=3, n_jobs=2)
    assert warnings.filters == before
    assert found.eta_ == search(few, 0.2, cv=3).eta_


def test_ranks_are_shares_of_weight_below_with_half_of_the_ties():
    """Weights 2, 4 and 1 + 3 at the scores 1, 2 and 3: 1, 2 + 2 and 6 + 2 of 10 lie below."""
    got = rank_within_fold(np.array([3.0, 1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(got, [0.8, 0.1, 0.8, 0.4], atol=1e-15)
    score = np.array([0.3, -1.0, 7.0, 0.3, 0.3, 2.0])
    np.testing.assert_allclose(rank_within_fold(score, None), (rankdata(score) - 0.5) / 6, atol=1e-15)


def test_rows_of_weight_zero_take_norank_within_fold():
    y, code = np.tile([0, 1], 50), np.repeat([0, 1], 50)
    present = np.zeros(100, dtype=bool)
    present[:12] = True
    for _, test in even_folds(4, y, code, present, np.random.RandomState(0)):
        assert present[test].sum() == 3


FIRST, LAST = np.arange(600), np.arange(600, 1200)
CV = {
    "held out twice": (
        RepeatedKFold(n_splits=3, n_repeats=2),
        "hold every row out at most once, got 1200 rows",
    ),
    "by groups": (GroupKFold(3), "groups"),
    "no fold": ([], "at least 1 fold, got 0 from "),
    "a used iterator": (iter(()), "An iterator can be used once: give a list"),
    "nothing held out": ([(FIRST, LAST), (FIRST, [])], "rows to fit and to hold out, got no test rows"),
    "nothing fitted": ([([], LAST)], "rows to fit and to hold out, got no train rows"),
    "fitted and held out": ([(FIRST, range(599, 1200))], "1 of 1 with 1 rows in both .row 599 first"),
    "a row too many": ([(FIRST, [600, 1200])], "from 0 to 1199, got 1200 in test rows"),
    "counted from the end": ([([0, -1], LAST)], "from 0 to 1199, got -1 in train rows"),
    "fractions": ([(FIRST, [0.5])], r"folds \(train, test\), two arrays of row numbers"),
    "three parts": ([(FIRST, LAST, LAST)], r"folds \(train, test\), two arrays of row numbers"),
    "numbers": ([1, 2], "two arrays of row numbers, got 1"),
    "a mask of some rows": ([(np.ones(3, dtype=bool), LAST)], "two arrays of row numbers"),
    "more folds than rows": (1201, "at most the number of rows, 1200, got 1201"),
}


@pytest.mark.parametrize("name", CV)
def test_splits_that_are_refused(few, name):
    cv, message = CV[name]
    with pytest.raises(ValueError, match=message):
        search(few, 0.2, cv=cv)


def test_folds_may_come_as_masks_or_from_an_iterator(few):
    X, y, race = few
    halves = [(FIRST, LAST), (LAST, FIRST)]
    masks = [[np.isin(np.arange(1200), part) for part in fold] for fold in halves]
    paths = [
        tradeoff_path(FairLogisticRegression(), X, y, race, [0], cv=cv)
        for cv in (halves, masks, iter(halves))
    ]
    assert len({path.max_gap[0] for path in paths}) == 1


def test_what_is_held_out_has_every_cell_and_weight(few):
    X, y, race = few
    group = np.where(FIRST.repeat(2) % 3 == 0, "third", race)
    kept = LAST[group[LAST] != "third"]  # the gap would be that of two groups of three
    with pytest.raises(ValueError, match=r"must hold out rows of every cell, .* none of: group 'third'"):
        search((X, y, group), 0.2, cv=[(FIRST, kept)])
    weight = np.where(np.arange(1200) < 900, 1.0, 0.0)
    with pytest.raises(ValueError, match="hold out rows of positive weight in each fold, got none in fold 2"):
        search(few, 0.2, weight=weight, cv=[(FIRST, LAST[:300]), (FIRST, LAST[300:])])


def test_a_fold_without_a_cell_is_named(few):
    X, y, race = few
    group = np.where(np.arange(len(y)) == 7, "tiny", race)
    message = "must leave rows of every cell to each fold's fit, got fold . of 3 without: group 'tiny'$"
    with pytest.raises(ValueError, match=message):
        search((X, y, group), 0.2, cv=3)
    with pytest.raises(ValueError, match=message):
        tradeoff_path(FairLogisticRegression(), X, y, group, [0, 1], cv=3)


def test_a_fold_without_a_cell_of_an_outcome_is_named(few):
    X, y, _ = few
    group = np.where(np.arange(len(y)) % 2, "a", "b")
    folds = [(FIRST[(y[FIRST] == 0) | (group[FIRST] == "a")], LAST)]
    with pytest.raises(ValueError, match=r"got fold 1 of 1 without: group 'b' among positives$"):
        tradeoff_path(FairLogisticRegression(), X, y, group, [1], cv=folds, parity="equalized_odds")
    folds = [(FIRST[y[FIRST] == 1], LAST)]
    with pytest.raises(ValueError, match=r"got fold 1 of 1 without: label 0$"):
        tradeoff_path(FairLogisticRegression(), X, y, group, [1], cv=folds, parity="equal_opportunity")


def test_a_budget_of_one_is_the_plain_model(compas):
    X, y, race = compas
    bare = BudgetSearchCV(FairLogisticRegression(tol=1e-8), max_gap=1).fit(X, y)
    assert bare.eta_ == 0
    assert bare.budget_met_
    assert np.isnan(bare.max_gap_)
    plain = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    assert bare.best_estimator_.coef_ == pytest.approx(plain.coef_, abs=1e-4)
    measured = BudgetSearchCV(FairLogisticRegression(), max_gap=1).fit(X, y, sensitive_features=race)
    assert measured.eta_ == 0
    assert 0.2 < measured.max_gap_ < 0.35


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_the_number_of_jobs_and_the_clock_change_nothing(few, confidence):
    ones = [search(few, 0.17, cv=3, n_jobs=n, confidence=confidence) for n in (1, 2, None)]
    for other in ones[1:]:
        assert other.eta_ == ones[0].eta_
        pd.testing.assert_frame_equal(other.path_, ones[0].path_)
        assert (other.decision_function(few[0]) == ones[0].decision_function(few[0])).all()


def test_another_seed_deals_other_folds(few):
    one, other = (search(few, 0.17, cv=3, random_state=seed).path_.max_gap[0] for seed in (0, 1))
    assert one != other


def test_folds_hold_their_share_of_every_cell():
    rng = np.random.default_rng(0)
    y, code = rng.integers(0, 2, 503), rng.integers(0, 3, 503)
    splits = list(even_folds(5, y, code, np.ones(503, bool), np.random.RandomState(0)))
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(503))
    for train, test in splits:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 503
        for label in (0, 1):
            for group in range(3):
                cell = (y == label) & (code == group)
                assert abs(cell[test].sum() - cell.sum() / 5) <= 1


def test_weights_count_rows(few):
    X, y, race = few
    times = np.random.default_rng(0).integers(0, 3, len(y))
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    weighted = search(few, 0.2, weight=times.astype(float), cv=splits)
    place = np.arange(len(y)).repeat(times)
    again = [(np.flatnonzero(np.isin(place, a)), np.flatnonzero(np.isin(place, b))) for a, b in splits]
    repeated = search((X.repeat(times, 0), y.repeat(times), race.repeat(times)), 0.2, cv=again)
    assert repeated.eta_ == weighted.eta_
    assert repeated.path_.max_gap.to_numpy() == pytest.approx(weighted.path_.max_gap.to_numpy(), abs=1e-6)


def test_the_quality_of_a_path_counts_rows_by_weight(few):
    """A weight of two is two rows, in the AUC and in the accuracy; one that never was held out is none."""
    X, y, race = few
    times = np.where(y == 1, 1 + (X[:, 0] > np.median(X[:, 0])), 1 + (race == race[0]))
    rng = np.random.default_rng(0)
    rank = rng.random(len(y)) + 0.3 * y
    rank[:7] = np.nan
    scores = HeldOutScores(raw=rank - 0.6, rank=rank)
    estimator = EtaEstimator.find(FairLogisticRegression())
    rows, _ = SearchRows.check(FitInput(X, y, race, times.astype(float)), estimator, None, None)
    weighted = rows.quality(scores)
    held, again = np.arange(7, len(y)), np.arange(7, len(y)).repeat(times[7:])
    assert weighted["auc"] == pytest.approx(roc_auc_score(y[again], rank[again]), abs=1e-12)
    assert weighted["accuracy"] == pytest.approx(((rank > 0.6) == y)[again].mean(), abs=1e-12)
    assert abs(weighted["auc"] - roc_auc_score(y[held], rank[held])) > 1e-3, "weights matter here"


@pytest.mark.parametrize("kind", ["pandas", "polars", "sparse", "lists"])
def test_containers_of_all_kinds(few, kind):
    X, y, race = few
    expected = search(few, 0.2, cv=3)
    names = ["a", "b", "c", "d"]
    if kind == "pandas":
        rows = pd.DataFrame(X, columns=names), pd.Series(y), pd.Series(race).astype("category")
    elif kind == "polars":
        pl = need("polars")
        rows = pl.DataFrame(X, schema=names), pl.Series(y), pl.Series(race.tolist())
    elif kind == "sparse":
        rows = sparse.csr_array(X), y, race
    else:
        rows = X.tolist(), y.tolist(), race.tolist()
    found = search(rows, 0.2, cv=3)
    assert found.eta_ == expected.eta_
    assert found.n_features_in_ == 4
    if kind in ("pandas", "polars"):
        assert found.feature_names_in_.tolist() == names


def test_labels_and_groups_of_any_kind(few):
    X, y, race = few
    expected = search(few, 0.2, cv=3)
    found = search((X, np.array(["no", "yes"])[y], race == race[0]), 0.2, cv=3)
    assert found.eta_ == expected.eta_
    assert found.classes_.tolist() == ["no", "yes"]
    crossed = np.column_stack([race, np.array(["young", "old"])[(X[:, 0] > 0).astype(int)]])
    both = search((X, y, crossed), 0.6, cv=3)
    assert len(both.best_estimator_.groups_) == 4


def test_pipelines_within_and_around(few):
    X, y, race = few
    raw = X * [1, 10, 100, 0.1] + 5
    inside = search(
        (raw, y, race), 0.2, make_pipeline(StandardScaler(), FairLogisticRegression(tol=1e-5)), cv=3
    )
    assert inside.budget_met_
    assert inside.best_estimator_[-1].eta == inside.eta_ > 0
    scaler = make_pipeline(
        StandardScaler(), BudgetSearchCV(FairLogisticRegression(tol=1e-5), 0.2, cv=3, random_state=0)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        around = scaler.fit(raw, y, sensitive_features=race)
        routed = search(
            (raw, y, race), 0.2, make_pipeline(StandardScaler(), FairLogisticRegression(tol=1e-5)), cv=3
        )
    assert around[-1].budget_met_
    assert around[-1].eta_ == pytest.approx(inside.eta_, rel=0.5)
    assert routed.eta_ == inside.eta_
    scaler.fit(raw, y, budgetsearchcv__sensitive_features=race)
    assert scaler[-1].eta_ == around[-1].eta_


HOLDERS = {
    "calibrated": lambda clf: CalibratedClassifierCV(clf, cv=2),
    "at a threshold": lambda clf: FixedThresholdClassifier(clf, threshold=0.4),
    "at a tuned threshold": lambda clf: TunedThresholdClassifierCV(clf, cv=2),
    "in a grid": lambda clf: GridSearchCV(clf, {}, cv=2),
    "in another search": lambda clf: BudgetSearchCV(clf, 0.3, cv=2, random_state=0),
    "in a pipeline, calibrated": lambda clf: make_pipeline(
        StandardScaler(), CalibratedClassifierCV(clf, cv=2)
    ),
    "calibrated, in a pipeline": lambda clf: CalibratedClassifierCV(
        make_pipeline(StandardScaler(), clf), cv=2
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_the_model_needs_routing(few, name):
    X, y, race = few
    holder = HOLDERS[name](FairLogisticRegression(tol=1e-5))
    message = (
        r"routing must be on for `sensitive_features` to reach the FairLogisticRegression inside .*, got it "
        r"off. Call sklearn.set_config\(enable_metadata_routing=True\) before fit"
    )
    with pytest.raises(ValueError, match=message):
        search(few, 0.9, holder, cv=2)
    with pytest.raises(ValueError, match=message):
        tradeoff_path(holder, X, y, race, [0], cv=2)
    with pytest.raises(ValueError, match="for `sample_weight` to reach the FairLogisticRegression"):
        BudgetSearchCV(holder, 1).fit(X, y, np.ones(len(y)))
    with sklearn.config_context(enable_metadata_routing=True):
        assert search(few, 0.9, holder, cv=2).eta_ == 0


def test_a_pipeline_in_a_pipeline_needs_no_routing(few):
    inner = make_pipeline(StandardScaler(), FairLogisticRegression(tol=1e-5))
    assert search(few, 0.2, make_pipeline(inner), cv=3).eta_ == search(few, 0.2, inner, cv=3).eta_ > 0


def test_copies_and_pickles(few):
    found = search(few, 0.2, cv=3)
    again = pickle.loads(pickle.dumps(found))
    assert (again.decision_function(few[0]) == found.decision_function(few[0])).all()
    assert clone(found).get_params()["estimator__tol"] == 1e-5
    assert not hasattr(clone(found), "eta_")


def test_a_failed_fit_leaves_the_last_one(few):
    X, y, _ = few
    found = search(few, 0.2, cv=3)
    eta = found.eta_
    with pytest.raises(ValueError, match="2 or more groups"):
        found.fit(X, y, sensitive_features=np.zeros(len(y)))
    assert found.eta_ == eta
    assert found.predict(X).shape == (1200,)


def test_verbose_writes_each_eta_to_standard_error(few, capsys):
    found = search(few, 0.2, cv=3, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == len(found.path_)
    assert err.startswith("eta 0 ")


BAD = {
    "no groups": (
        {},
        {"sensitive_features": None},
        MissingSensitiveFeatures,
        "is required for a budget below 1",
    ),
    "budget 0": ({"max_gap": 0}, {}, ValueError, "`max_gap` must be"),
    "budget 1.1": ({"max_gap": 1.1}, {}, ValueError, "`max_gap` must be"),
    "budget text": ({"max_gap": "small"}, {}, ValueError, "`max_gap` must be"),
    "no eta": (
        {"estimator": LogisticRegression()},
        {},
        ValueError,
        "one parameter `eta`, its own or that of one step of a pipeline, got none in LogisticRegression",
    ),
    "two etas": (
        {"estimator": make_pipeline(FairLogisticRegression(), FairLinearSVC())},
        {},
        ValueError,
        "got 'fairlogisticregression__eta' and 'fairlinearsvc__eta' in Pipeline",
    ),
    "no estimator": ({"estimator": "logistic"}, {}, ValueError, "got none in str"),
    "a class": (
        {"estimator": FairLogisticRegression},
        {},
        ValueError,
        "must be an instance, got the class FairLogisticRegression",
    ),
    "confidence": ({"confidence": 1}, {}, ValueError, "`confidence` must be"),
    "range": (
        {"eta_range": (1, 0.1)},
        {},
        ValueError,
        r"`eta_range` must be \(low, high\) with 0 < low < high",
    ),
    "range of one": ({"eta_range": 3}, {}, ValueError, "`eta_range` must be"),
    "folds": ({"cv": 1}, {}, ValueError, "`cv` must be"),
    "parity": ({"parity": "odds"}, {}, ValueError, "`parity` must be one of"),
    "lengths": ({}, {"sensitive_features": ["a", "b"]}, ValueError, "sensitive_features"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings(few, name):
    settings, data, error, message = BAD[name]
    X, y, race = few
    settings = {"estimator": FairLogisticRegression(), "max_gap": 0.1} | settings
    with pytest.raises(error, match=message):
        BudgetSearchCV(**settings).fit(X, y, **({"sensitive_features": race} | data))


# ---------------------------------------------------------------- the whole trade-off


def test_the_path_is_what_a_loop_gives(few):
    X, y, race = few
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    clf = FairLogisticRegression("equalized_odds", tol=1e-6)
    path = tradeoff_path(clf, X, y, sensitive_features=race, etas=[2, 0], cv=splits)
    assert path.eta.tolist() == [0, 2]
    assert path.method.tolist() == ["FairLogisticRegression"] * 2
    for row in path.itertuples():
        score, rank = held_out(few, clone(clf).set_params(eta=row.eta), splits)
        profile = threshold_profile(y, rank, sensitive_features=race, parity="equalized_odds")
        assert row.max_gap == pytest.approx(profile.max_gap, abs=2e-3)
        assert row.rank_gap == pytest.approx(profile.rank_gap, abs=2e-3)
        assert row.auc == pytest.approx(roc_auc_score(y, rank), abs=1e-3)
        assert row.accuracy == pytest.approx(((score > 0) == y).mean(), abs=2e-3)
        areas = [roc_auc_score(y[test], score[test]) for _, test in splits]
        assert row.auc_error == pytest.approx(np.std(areas, ddof=1) / 2, abs=1e-3)


def test_the_path_is_drawn(few):
    X, y, race = few
    clf = FairLogisticRegression(tol=1e-4)
    path = tradeoff_path(
        clf, X, y, sensitive_features=race, etas=[0, 1, 3], cv=3, name="ours", random_state=0
    )
    shown = TradeoffDisplay.from_frame(
        path, y="auc", x_error="max_gap_error", y_error="auc_error", labels="eta"
    )
    assert len(shown) == 1
    assert shown[0].name == "ours"
    assert shown[0].max_gap == pytest.approx(path.max_gap.to_numpy())
    (one,) = TradeoffDisplay.from_frame(path.drop(columns="method"), y="auc", method=None)  # as `path_` is
    assert one.name is None
    assert one.max_gap == pytest.approx(path.max_gap.to_numpy())


@pytest.mark.parametrize(
    ("etas", "message"),
    [([], "at least 1"), (3.0, "sequence"), ([-1], "`etas` must be"), ([[1]], "sequence")],
)
def test_bad_etas(few, etas, message):
    X, y, race = few
    with pytest.raises(ValueError, match=message):
        tradeoff_path(FairLogisticRegression(), X, y, sensitive_features=race, etas=etas)


def test_adult_meets_its_budget_on_people_it_has_not_seen():
    X, y, sex = load_adult(one_hot=True)
    X, y, sex = X.to_numpy(dtype=float), y.to_numpy(), sex.to_numpy()
    rows = np.random.default_rng(0).permutation(len(y))
    test, train = rows[:14_000], rows[14_000:26_000]
    sd = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(sd > 0, sd, 1)
    clf = FairLogisticRegression(alpha=1e-4, tol=1e-4)
    found = search((X[train], y[train], sex[train]), 0.05, clf, confidence=0.9, cv=3)
    assert found.budget_met_
    score = found.decision_function(X[test])
    n = np.unique(sex[test], return_counts=True)[1]
    unseen = threshold_profile(y[test], score, sensitive_features=sex[test]).max_gap
    assert unseen <= 0.05 + 0.82 * np.sqrt((1 / n).sum())
    assert roc_auc_score(y[test], score) > 0.84
