"""Repair of scores: blind and aware, against brute force, closed forms and other libraries."""

import pickle
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evenrisk import BudgetSearchCV, threshold_profile
from evenrisk.datasets import load_adult, load_compas
from evenrisk.exceptions import MissingSensitiveFeatures, RepairWarning
from evenrisk.postprocessing import BarycenterRepair, BlindRepair, HistogramMatcher, RepairedClassifier
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
    x = rng.choice(5, 40_000, p=share)
    y = (rng.random(len(x)) < risk[x]).astype(int)
    a = (rng.random(len(x)) < group[x]).astype(int)
    models = BlindRepair(Known(risk), attribute_estimator=Known(group), cv="prefit", random_state=0)
    path = models.fit_path(x[:, None], y, np.geomspace(0.1, 1000, 30), sensitive_features=a)
    found = []
    for each in path:
        rank = np.unique(each.decision_function(np.arange(5)[:, None]).round(3), return_inverse=True)[1]
        optimum = min(value for other, value in best if other <= gap(rank) + 1e-9)
        found.append((gap(rank), loss(rank) / optimum))
    assert found[0][0] > 0.2
    assert min(each for each, _ in found) < 0.1
    assert max(ratio for _, ratio in found) < 1.02


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


def test_a_warm_start_with_other_rows_fits_everything_again(rows, others):
    X, y, a = rows
    warm = BlindRepair(LogisticRegression(), eta=3, warm_start=True, random_state=0)
    warm.fit(*others[:2], sensitive_features=others[2]).fit(X, y, sensitive_features=a)
    cold = BlindRepair(LogisticRegression(), eta=3, random_state=0).fit(X, y, sensitive_features=a)
    assert np.array_equal(warm.decision_function(X), cold.decision_function(X))


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
            "name columns of X that hold",
        ),
        ({"estimator": 0, "attribute_estimator": [1]}, r"`attribute_estimator` must give probabilities in"),
        ({"estimator": 0, "attribute_estimator": [1, 2, 3]}, "one column of X for each of 2 groups, got 3"),
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
    with pytest.raises(MissingSensitiveFeatures, match="`sensitive_features` is required to predict"):
        repaired.predict(X)
    with pytest.raises(ValueError, match="got 7 too"):
        repaired.predict(X[:1], sensitive_features=[7])
