"""Calibration: laws over every map and every kind of score, then the three estimators on real people."""

import pickle
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss

from conftest import standardised
from evenrisk import FairKernelSVC, FairLinearSVC, FairLogisticRegression, threshold_profile
from evenrisk._estimator import TrainingData, left_out_scores
from evenrisk._estimator._unseen import cross_fitted_scores
from evenrisk.calibration import (
    CALIBRATIONS,
    FLATTEST,
    Line,
    Steps,
    isotonic_map,
    sigmoid_map,
    weight_of_one_row,
)
from evenrisk.datasets import load_adult, load_compas
from evenrisk.exceptions import CollapseWarning, MajorityRateWarning
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, ScoreObjective
from evenrisk.parity import PARITIES, make_cells
from worlds import world

pytestmark = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")

RESOLUTION = 1e-11  # of the largest score: scores further apart stay apart, whatever the map


def scores(n=700, *, seed=0, tied=False, reverse=False, squeeze=1.0, gain=1.0):
    """Raw scores that are neither centred nor calibrated, labels, weights (some 0)."""
    rng = np.random.default_rng(seed)
    g = 0.4 + 0.6 * rng.standard_normal(n)
    y = (rng.random(n) < expit(gain * (-3 if reverse else 3) * (g - 0.7))).astype(int)
    g = np.round(g, 1) if tied else g
    return 0.3 + squeeze * g, y, rng.integers(0, 4, n).astype(float)


SCORES = {
    "continuous": scores(),
    "tied": scores(tied=True, seed=1),
    "squeezed": scores(squeeze=1e-9, seed=2),
    "far": scores(squeeze=1e6, seed=3),
    "separable": scores(gain=1e6, seed=4),
    "reversed": scores(reverse=True, seed=5),
    "constant": (np.full(50, 0.3), np.arange(50) % 3 // 2, np.ones(50)),
    "outlier": (np.r_[-50.0, 0.1 * np.sin(np.arange(199)), 1.0], np.arange(201) // 200, np.ones(201)),
    "two rows": (np.array([0.1, 0.7]), np.array([0, 1]), np.ones(2)),
}
each_map = pytest.mark.parametrize("fit", CALIBRATIONS.values(), ids=CALIBRATIONS)
each_score = pytest.mark.parametrize("name", SCORES)


def targets(y, weight):
    """Platt's, written out."""
    positive, negative = weight[y == 1].sum(), weight[y == 0].sum()
    return np.where(y == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))


def loss(ab, g, y, weight):
    h = ab[0] * g + ab[1]
    return np.average(np.logaddexp(0, h) - targets(y, weight) * h, weights=weight)


# ---------------------------------------------------------------- laws of the maps


def assert_strictly_increasing(mapping, g):
    """At the scores, between them and beyond them."""
    seen = np.unique(g)
    wide = np.ptp(g) + np.abs(g).max()
    points = np.unique(np.r_[seen, (seen[1:] + seen[:-1]) / 2, seen[0] - wide, seen[-1] + wide])
    mapped = mapping(points)
    assert np.isfinite(mapped).all()
    assert (np.diff(mapped) >= 0).all()  # bit for bit
    assert (np.diff(mapped)[np.diff(points) > RESOLUTION * np.abs(points).max()] > 0).all()


@each_map
@each_score
def test_a_map_is_strictly_increasing_everywhere(fit, name):
    g, y, weight = SCORES[name]
    assert_strictly_increasing(fit(g, y, weight), g)


@each_map
@given(st.data())
def test_a_map_is_strictly_increasing_on_any_scores(fit, data):
    value = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, 0.25, 0.5, np.nextafter(0.5, 1)]))
    rows = data.draw(
        st.lists(st.tuples(value, st.integers(0, 1), st.integers(0, 3)), min_size=2, max_size=40)
    )
    g, y, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    assume(len(set(y[weight > 0])) == 2)
    assume(np.ptp(g[weight > 0]) > 1e-6)  # constant scores have a unit of their own, and a test
    assert_strictly_increasing(fit(g, y, weight), g)


@each_map
@each_score
def test_equal_scores_map_to_equal_scores_wherever_they_stand(fit, name):
    g, y, weight = SCORES[name]
    mapping = fit(g, y, weight)
    order = np.random.default_rng(0).permutation(len(g))
    assert np.array_equal(mapping(g)[order], mapping(g[order]))
    assert mapping(g[:1])[0] == mapping(g)[0]


@pytest.mark.parametrize("name", ["continuous", "tied", "squeezed", "far"])
@each_map
def test_scores_a_few_ulps_apart_stay_apart(fit, name):
    g, mapping = np.unique(SCORES[name][0]), fit(*SCORES[name])
    assert (mapping(g + 100 * np.spacing(np.abs(g).max())) > mapping(g)).all()


@each_map
@each_score
def test_weights_count_rows(fit, name):
    g, y, weight = SCORES[name]
    times = weight.astype(int)
    order = np.random.default_rng(0).permutation(len(g))
    expected = fit(g, y, weight)(g)
    one = np.ones(times.sum())
    close = {"rel": 1e-6, "abs": 1e-6}  # squeezed scores have lost half their digits
    assert fit(np.repeat(g, times), np.repeat(y, times), one)(g) == pytest.approx(expected, **close)
    assert fit(g[times > 0], y[times > 0], weight[times > 0])(g) == pytest.approx(expected, **close)
    assert fit(g[order], y[order], weight[order])(g) == pytest.approx(expected, **close)


@each_map
@each_score
def test_units_and_origin_of_the_scores_do_not_matter(fit, name):
    g, y, weight = SCORES[name]
    if name != "constant":  # its slope of 1 has the unit of g
        moved = fit(8 * g - 16 * g.mean(), y, weight)
        assert moved(8 * g - 16 * g.mean()) == pytest.approx(fit(g, y, weight)(g), rel=1e-5, abs=1e-5)


@each_map
@each_score
def test_maps_pickle(fit, name):
    mapping = fit(*SCORES[name])
    again = pickle.loads(pickle.dumps(mapping))
    assert np.array_equal(again(SCORES[name][0]), mapping(SCORES[name][0]))


# ---------------------------------------------------------------- the sigmoid: SciPy, scikit-learn, by hand


@pytest.mark.parametrize("name", ["continuous", "tied", "separable", "two rows"])
def test_the_line_is_the_minimum_scipy_finds(name):
    g, y, weight = SCORES[name]
    line = sigmoid_map(g, y, weight)
    reference = minimize(loss, np.zeros(2), (g, y, weight), method="BFGS", options={"gtol": 1e-7})
    assert (line.slope, line.intercept) == pytest.approx(tuple(reference.x), rel=1e-4)
    assert loss((line.slope, line.intercept), g, y, weight) <= reference.fun + 1e-14


@pytest.mark.parametrize("name", ["continuous", "tied", "far", "separable", "outlier", "two rows"])
def test_the_two_conditions_of_a_minimum_hold_exactly(name):
    g, y, weight = SCORES[name]
    share = weight / weight.sum()
    residual = expit(sigmoid_map(g, y, weight)(g)) - targets(y, weight)
    assert abs(share @ residual) < 1e-10
    assert abs(share @ (residual * g)) < 1e-10 * np.abs(g).max()


@pytest.mark.parametrize("name", ["continuous", "tied", "separable"])
def test_the_line_is_scikit_learns_sigmoid(name):
    g, y, weight = SCORES[name]
    reference = _SigmoidCalibration().fit(g, y, weight)
    assert expit(sigmoid_map(g, y, weight)(g)) == pytest.approx(reference.predict(g), abs=2e-3)


def test_four_rows_by_hand():
    """Targets 1/4 and 3/4, so sigmoid(±slope) must be just that."""
    line = sigmoid_map(np.array([-1.0, -1, 1, 1]), np.array([0, 0, 1, 1]), np.ones(4))
    assert line.slope == pytest.approx(np.log(3), rel=1e-12)
    assert line.intercept == pytest.approx(0, abs=1e-12)


def test_a_reversed_ranking_is_flattened_and_not_turned():
    g, y, weight = SCORES["reversed"]
    line = sigmoid_map(g, y, weight)
    spread = np.sqrt(np.cov(g, aweights=weight, ddof=0))
    assert line.slope == pytest.approx(FLATTEST / spread, rel=1e-9)
    best = minimize(lambda b: loss((line.slope, b[0]), g, y, weight), [0.0], method="BFGS")
    assert line.intercept == pytest.approx(best.x[0], abs=1e-4)
    assert loss((1.01 * line.slope, line.intercept), g, y, weight) > loss(
        (line.slope, line.intercept), g, y, weight
    )


@each_map
def test_constant_scores_get_the_prevalence(fit):
    g, y, weight = SCORES["constant"]
    for noise in (0, 1e-16 * np.arange(50)):
        mapping = fit(g + noise, y, weight)
        assert expit(mapping(g)) == pytest.approx(y.mean(), abs=0.02)  # smoothed
        assert mapping.slope == 1


def test_folding_is_the_map_and_unfolding_undoes_it():
    rng = np.random.default_rng(0)
    X, w, line = rng.standard_normal((30, 3)), np.array([0.2, -1, 3]), Line(2.5, -0.75)
    folded, b = line.fold(w, 0.5)
    assert X @ folded + b == pytest.approx(line(X @ w + 0.5), rel=1e-12)
    again, origin = line.unfold(folded, b)
    assert again == pytest.approx(w, rel=1e-12)
    assert origin == pytest.approx(0.5, rel=1e-12)


# ---------------------------------------------------------------- the isotonic map: scikit-learn, by hand


def blocks(g, y, weight):
    """Mean score, level and weight of the blocks that scikit-learn finds."""
    level = IsotonicRegression().fit(g, y, weight).predict(g)
    kind = np.unique(np.round(level, 10), return_inverse=True)[1]
    size = np.bincount(kind, weights=weight)
    return *(np.bincount(kind, weights=weight * v) / size for v in (g, level)), size


@pytest.mark.parametrize("name", ["continuous", "tied", "separable"])
def test_the_knots_are_scikit_learns_blocks(name):
    g, y, weight = (a[SCORES[name][2] > 0] for a in SCORES[name])
    at, level, size = blocks(g, y, weight)
    assert level[0] == 0
    at, level, _ = blocks(at, (size * level + 1) / (size + 2), size + 2)
    ours, line = isotonic_map(g, y, weight), sigmoid_map(g, y, weight)
    assert ours.at == pytest.approx(at, rel=1e-9)
    assert ours.value == pytest.approx(0.95 * logit(level) + 0.05 * line(at), rel=1e-9)
    assert ours.slope == line.slope
    assert (np.diff(ours.value) / np.diff(ours.at) >= 0.05 * line.slope).all()


def test_equal_shares_of_positives_make_one_block():
    """Two thirds of each; in floating point 0.2/0.3 and 0.6/0.9 differ in their last digit."""
    g, y = np.array([0.1, 0.1, 0.3, 0.3]), np.array([0, 1, 0, 1])
    assert len(isotonic_map(g, y, np.array([0.1, 0.2, 0.3, 0.6])).at) == 1


def test_a_block_of_equal_scores_has_just_that_centre():
    rng = np.random.default_rng(0)
    for _ in range(20):
        steps = isotonic_map(np.repeat([0.1, 0.7], 3), np.repeat([0, 1], 3), rng.uniform(1, 9, 6))
        assert steps.at.tolist() == [0.1, 0.7]


def test_a_piece_never_ends_above_the_next():
    """From −1 to 0 and to 1e-20 is equally far in floating point, and y + (z − y) may be above z."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        steps = Steps(np.array([-rng.uniform(1, 2), 1e-20]), np.sort(rng.uniform(-3, 3, 2)), 1.0)
        before, knot = steps(np.array([0.0, 1e-20]))
        assert before <= knot == steps.value[1]


def test_two_levels_leave_nothing_to_bend():
    """The line goes through both blocks, so prior and blend change nothing: 1/4 and 3/4 up to the targets."""
    g, weight = np.array([-1.0, -1, 1, 1]), np.array([30.0, 10, 10, 30])
    y = np.array([0, 1, 0, 1])
    s = expit(isotonic_map(g, y, weight)(g))
    assert s[:2] == pytest.approx((0.75 * 1 + 0.25 * 41) / 42, rel=1e-9)
    assert s[2:] == pytest.approx((0.25 * 1 + 0.75 * 41) / 42, rel=1e-9)


def test_the_isotonic_map_follows_a_bend_that_a_line_cannot():
    rng = np.random.default_rng(0)
    g = rng.uniform(-3, 3, 20_000)
    truth = np.where(g < 0, 0.2, 0.2 + 0.2 * np.maximum(g, 0))
    y = (rng.random(len(g)) < truth).astype(int)
    one = np.ones(len(g))
    error = [np.abs(expit(fit(g, y, one)(g)) - truth).mean() for fit in (isotonic_map, sigmoid_map)]
    assert error[0] < 0.02 < error[1]


@pytest.mark.parametrize("seed", range(3))
def test_gaps_stay_bit_for_bit_where_plain_isotonic_moves_them(seed):
    w = world(n=900, seed=seed)

    def gaps(g):
        profile = threshold_profile(
            w.y, g, sensitive_features=w.group, parity=w.parity, sample_weight=w.weight
        )
        return profile.max_gap, profile.rank_gap, profile.rates.tobytes()

    before = gaps(w.g)
    for fit in CALIBRATIONS.values():
        g = fit(w.g, w.y, w.weight)(w.g)
        assert gaps(g) == before
        assert gaps(expit(g)) == before
    plain = IsotonicRegression().fit(w.g, w.y, w.weight).predict(w.g)
    assert gaps(plain)[1] != before[1]


# ---------------------------------------------------------------- the estimators

ESTIMATORS = {
    "logistic": partial(FairLogisticRegression, eta=5, alpha=1e-4),
    "linear": partial(FairLinearSVC, eta=20, alpha=1e-3, tol=1e-4),
    "kernel": partial(FairKernelSVC, eta=20, n_components=40, random_state=0, tol=1e-3),
}
each = pytest.mark.parametrize("kind", ESTIMATORS)
each_calibration = pytest.mark.parametrize("how", CALIBRATIONS)


@cache
def people(name, seed=0):
    """Train and test rows of COMPAS (tied), of an invented world (continuous), or of Adult."""
    rng = np.random.default_rng(seed)
    if name == "continuous":
        group = rng.integers(0, 2, 2000)
        X = rng.standard_normal((2000, 3)) + 0.5 * group[:, None] * [1, 0, 0]
        y = (X @ [1, -1, 0.5] + rng.logistic(size=2000) > 0).astype(int)
    else:
        X, y, group = load_compas() if name == "compas" else load_adult(one_hot=True)
        rows = rng.permutation(len(y))[:6000]
        X, y, group = standardised(np.asarray(X)[rows]), y.to_numpy()[rows], group.to_numpy()[rows]
        X = X[:, X.std(axis=0) > 0]
    train = rng.random(len(y)) < 0.7
    return [(X[rows], y[rows], group[rows]) for rows in (train, ~train)]


@each_calibration
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_scale_of_the_weights_does_not_matter(how, loss):
    """Survey weights of mean 9,503, or whole numbers: one factor changes nothing, to rounding."""
    (X, y, group), _ = people("continuous")
    rng = np.random.default_rng(0)
    for weight in (rng.lognormal(size=len(y)), rng.integers(1, 4, len(y))):
        model = (
            FairLogisticRegression if loss == "logistic" else partial(FairLinearSVC, loss=loss, alpha=1e-3)
        )
        risks = [
            model(eta=1, calibration=how, tol=1e-9)
            .fit(X[:300], y[:300], (factor * weight)[:300], sensitive_features=group[:300])
            .predict_proba(X)
            for factor in (1, 9503)
        ]
        assert risks[1] == pytest.approx(risks[0], abs=1e-6)


def test_what_counts_as_one_row():
    assert weight_of_one_row(np.array([0.0, 1, 3, 2])) == 1
    assert weight_of_one_row(np.array([0.0, 4, 8, 8], dtype=np.float32)) == 4
    assert weight_of_one_row(np.full(5, 9503.0)) == 9503
    assert weight_of_one_row(np.array([0.0, 0.5, 1.2, 3])) == pytest.approx(4.7 / 3)  # of those that count
    assert weight_of_one_row(np.array([12285.0, 77516, 83311])) == pytest.approx(57704)  # a survey's
    for factor in (0.1, 1 / 3, 7, 9503.17, 1e-30, 1e30):
        for dtype in (np.float64, np.float32):
            counts = (factor * np.array([1, 2, 3, 30])).astype(dtype)
            assert weight_of_one_row(counts) == pytest.approx(factor, rel=1e-6)
    assert weight_of_one_row(np.array([1.0] * 3000 + [20_000], dtype=np.float32)) == 1
    assert weight_of_one_row((0.1 * np.array([1, 2, 3])).astype(np.float32).astype(float)) == np.float32(0.1)
    assert weight_of_one_row(np.array([0.01] + [1.0] * 99)) == pytest.approx(0.9901)  # not 100 rows each
    assert weight_of_one_row(np.array([1.0] + [130.0, 77, 251] * 5)) == pytest.approx(2291 / 16)
    assert [weight_of_one_row(np.array([1.0, many])) for many in (19, 20)] == [1, 10.5]  # a mean of ten
    many = np.array([1.0, 1e6 + 0.25], dtype=np.float32)  # the second is no count
    assert weight_of_one_row(many) == pytest.approx(500_000.6, rel=1e-6)
    assert weight_of_one_row(np.array([1.0, 1e20])) == 5e19


@each_calibration
def test_survey_weights_count_as_rows_of_mean_one_where_rows_are_counted(how):
    """By hand: scores without each row, then the map, both for weights of mean 1."""
    (X, y, _), _ = people("continuous")
    X, y = np.repeat(X[:150], 2, axis=0), np.repeat(y[:150], 2)  # equal rows are merged, and still count
    weight = np.random.default_rng(0).lognormal(5, 1, 300)
    clf = FairLogisticRegression(eta=0, calibration=how, tol=1e-9).fit(X, y, weight)
    plain = FairLogisticRegression(eta=0, tol=1e-9).fit(X, y, weight)
    scores = ScoreObjective(LOGISTIC, y, weight / weight.mean())
    objective = LinearObjective(scores, X, alpha=0.0, fit_intercept=True)
    unseen = left_out_scores(objective, np.append(plain.coef_[0], plain.intercept_))
    by_hand = CALIBRATIONS[how](unseen, y, weight / weight.mean())
    assert clf.decision_function(X) == pytest.approx(by_hand(plain.decision_function(X)), abs=1e-6)


def fitted(kind, how, name, seed=0):
    """A model that several tests look at and none changes."""
    return _fitted(kind, how, name, seed)


@cache
def _fitted(kind, how, name, seed):
    (X, y, group), _ = people(name, seed)
    extra = {"gamma": 0.01} if (kind, name) == ("kernel", "adult") else {}
    return ESTIMATORS[kind](calibration=how, **extra).fit(X, y, sensitive_features=group)


def held_out_loss(kind, how, name, seed):
    _, (X, y, _) = people(name, seed)
    return log_loss(y, fitted(kind, how, name, seed).predict_proba(X)[:, 1])


@each
@each_calibration
@pytest.mark.parametrize("name", ["compas", "continuous"])
def test_recalibration_leaves_every_gap_bit_for_bit(kind, how, name):
    plain, clf = fitted(kind, None, name), fitted(kind, how, name)
    for X, y, group in people(name):
        for parity in ("demographic_parity", "equalized_odds"):
            for scores_of in (lambda m, X=X: m.decision_function(X), lambda m, X=X: m.predict_proba(X)[:, 1]):
                before, after = (
                    threshold_profile(y, scores_of(m), sensitive_features=group, parity=parity)
                    for m in (plain, clf)
                )
                assert after.max_gap == before.max_gap
                assert after.rank_gap == before.rank_gap
                assert after.rates.tobytes() == before.rates.tobytes()


@each
@each_calibration
@pytest.mark.parametrize("name", ["compas", "adult"])
def test_unseen_people_are_scored_better(kind, how, name):
    # another split of COMPAS moves the gain of logistic regression, 0.002, by 0.003
    splits = 12 if (kind, name) == ("logistic", "compas") else 2
    before, after = (
        np.mean([held_out_loss(kind, each, name, seed) for seed in range(splits)]) for each in (None, how)
    )
    if (kind, name) == ("logistic", "adult"):
        # with log loss and a free scale it comes calibrated, so there is nothing to gain
        assert after < before + 1e-3
    else:
        assert after < before - (0 if kind == "logistic" else 1e-3)


@each
@each_calibration
@pytest.mark.parametrize("name", ["compas", "continuous", "adult"])
def test_probabilities_are_probabilities_in_the_order_of_the_raw_scores(kind, how, name):
    _, (X, _, _) = people(name)
    plain, clf = fitted(kind, None, name), fitted(kind, how, name)
    raw, s = plain.decision_function(X), clf.predict_proba(X)
    assert s.min() >= 0
    assert s.max() <= 1
    assert s.sum(axis=1) == pytest.approx(1, rel=1e-12)
    assert (np.diff(s[np.argsort(raw, kind="stable"), 1]) >= 0).all()
    assert clf.decision_function(X) == pytest.approx(clf.calibration_(raw), rel=1e-9, abs=1e-9)
    assert np.array_equal(clf.predict(X), clf.classes_[(s[:, 1] > 0.5).astype(int)])
    assert np.abs(s[:, 1] - plain.predict_proba(X)[:, 1]).max() > 1e-4  # a risk means something else now


@each
@each_calibration
def test_objective_and_penalty_are_those_of_the_minimum(kind, how):
    plain, clf = fitted(kind, None, "compas"), fitted(kind, how, "compas")
    assert plain.calibration_ is None
    assert isinstance(clf.calibration_, {"sigmoid": Line, "isotonic": Steps}[how])
    for name in ("objective_", "penalty_", "n_iter_"):
        assert getattr(clf, name) == getattr(plain, name)


@each
@each_calibration
def test_pickle_clone_and_a_refit_without(kind, how):
    (X, y, group), _ = people("compas")
    clf = fitted(kind, how, "compas")
    assert np.array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))
    assert clone(clf).calibration == how
    again = pickle.loads(pickle.dumps(clf)).set_params(calibration=None).fit(X, y, sensitive_features=group)
    assert again.calibration_ is None
    plain = fitted(kind, None, "compas")
    assert np.array_equal(again.decision_function(X), plain.decision_function(X))


@each
@each_calibration
def test_weights_equal_repetition_bit_for_bit(kind, how):
    X, y, group = (a[:500] for a in people("compas")[0])
    times = np.random.default_rng(0).integers(0, 4, 500)
    clf = ESTIMATORS[kind](calibration=how)
    weighted = clone(clf).fit(X, y, times, sensitive_features=group)
    repeated = clone(clf).fit(
        *(np.repeat(a, times, axis=0) for a in (X, y)), sensitive_features=np.repeat(group, times)
    )
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


@each
@each_calibration
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_warm_start_begins_at_the_raw_minimum(kind, how, fit_intercept):
    X, y, group = (a[:900] for a in people("compas")[0])
    smooth = {} if kind == "logistic" else {"loss": "squared_hinge"}
    clf = ESTIMATORS[kind](calibration=how, warm_start=True, fit_intercept=fit_intercept, **smooth)
    clf.set_params(eta=3).fit(X, y, sensitive_features=group)
    cold, s = clf.n_iter_, clf.predict_proba(X)
    clf.fit(X, y, sensitive_features=group)
    assert clf.n_iter_ <= 2 < cold
    assert clf.predict_proba(X) == pytest.approx(s, abs=2e-3)


@each
@each_calibration
def test_every_model_of_a_path_is_calibrated_by_itself(kind, how):
    X, y, group = (a[:900] for a in people("compas")[0])
    etas = (20, 0, 5)
    plain = ESTIMATORS[kind]().fit_path(X, y, etas, sensitive_features=group)
    path = ESTIMATORS[kind](calibration=how).fit_path(X, y, etas, sensitive_features=group)
    for raw, clf in zip(plain, path, strict=True):
        g = raw.decision_function(X)
        assert clf.decision_function(X) == pytest.approx(clf.calibration_(g), rel=1e-6, abs=1e-6)
        if kind == "linear":  # the hinge has no curvature; the others' maps are fitted to unseen rows' scores
            expected = CALIBRATIONS[how](g, y, np.ones(len(y)))(g)
            assert clf.decision_function(X) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    slopes = {clf.calibration_.slope for clf in path}
    assert len(slopes) == 3


@each_calibration
def test_float32_and_sparse_rows(how):
    (X, y, group), _ = people("compas")
    double = fitted("logistic", how, "compas").predict_proba(X)
    single = ESTIMATORS["logistic"](calibration=how).fit(X.astype(np.float32), y, sensitive_features=group)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert np.abs(single.predict_proba(X.astype(np.float32)) - double).mean() < 5e-3
    thin = ESTIMATORS["logistic"](calibration=how).fit(sparse.csr_array(X), y, sensitive_features=group)
    assert thin.predict_proba(sparse.csr_array(X)) == pytest.approx(double, abs=1e-3)


@each
@pytest.mark.parametrize("order", ["C", "F"])
def test_equal_people_get_equal_scores_wherever_they_stand(kind, order):
    """BLAS by itself puts them an ulp apart, and then no map keeps the ties."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 33))
    index = rng.integers(0, 60, 999)
    clf = ESTIMATORS[kind](eta=0, alpha=0.1).fit(rows, np.arange(60) % 2)
    g = clf.decision_function(np.asarray(rows[index], order=order))
    assert len(np.unique(g)) == len(np.unique(index))


def test_to_sklearn_takes_the_line_along_and_refuses_steps():
    _, (X, _, _) = people("compas")
    clf = fitted("logistic", "sigmoid", "compas")
    assert clf.to_sklearn().predict_proba(X) == pytest.approx(clf.predict_proba(X), rel=1e-9)
    with pytest.raises(ValueError, match=r"linear in X, got calibration='isotonic'.*calibration='sigmoid'"):
        fitted("logistic", "isotonic", "compas").to_sklearn()


@pytest.mark.filterwarnings("error::evenrisk.exceptions.MajorityRateWarning")
def test_the_majority_rate_is_asked_of_the_calibrated_scores(compas):
    X, y, race = compas
    helped = FairLogisticRegression(eta=100, fit_intercept=False)
    with pytest.warns(MajorityRateWarning, match=r"accuracy 0\.527"):
        helped.fit(X, y, sensitive_features=race)
    helped.set_params(calibration="sigmoid").fit(X, y, sensitive_features=race)
    assert helped.score(X, y) > 0.53
    hurt = FairLogisticRegression(distance="histogram").fit(X, y, sensitive_features=race)
    with pytest.warns(MajorityRateWarning, match=r"accuracy 0\.524"):
        hurt.set_params(calibration="sigmoid").fit(X, y, sensitive_features=race)


@each_calibration
def test_collapse_is_asked_of_the_raw_scores(compas, how):
    X, y, race = compas
    clf = FairLogisticRegression(eta=300, calibration=how)
    with pytest.warns(CollapseWarning, match="squeezed together"):
        clf.fit(X, y, sensitive_features=race)
    assert clf.predict_proba(X)[:, 1].std() > 0.01


@each
@pytest.mark.parametrize("wrong", ["platt", True, 1])
def test_an_unknown_calibration_is_refused(kind, wrong):
    with pytest.raises(
        ValueError, match=f"`calibration` must be one of 'sigmoid', 'isotonic', None, got {wrong!r}"
    ):
        ESTIMATORS[kind](eta=0, calibration=wrong).fit([[0.0], [1.0]] * 20, [0, 1] * 20)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_a_machine_that_knows_its_rows_by_heart_is_not_too_sure(calibration):
    """A map of the exact machine's own training scores made the log loss here .778, worse than none."""

    def people(n, seed):
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 10))
        X[:, 0] += 0.5 * group
        return X, (rng.random(n) < 1 / (1 + np.exp(0.3 - X[:, 0] - X[:, 1]))).astype(int), group

    (X, y, group), (X_test, y_test, _) = people(300, 0), people(4000, 100)
    loss = {}
    for each in (None, calibration):
        clf = FairKernelSVC(calibration=each).fit(X, y, sensitive_features=group)
        loss[each] = log_loss(y_test, clf.predict_proba(X_test)[:, 1])
    assert loss[calibration] < loss[None]


def test_the_scores_a_kernel_machine_is_calibrated_on_are_of_rows_it_has_not_seen():
    X, y, race = load_compas()
    X, y, race = ((X - X.mean()) / X.std()).to_numpy(), y.to_numpy(), race.to_numpy()
    X, y, race = X[:200], y[:200], race[:200]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    settings = {"eta": 1, "loss": "squared_hinge", "kernel": "precomputed", "tol": 1e-6}
    data = FairKernelSVC(**settings)._check_rows(K, y, None, race)
    machine = FairKernelSVC(**settings).fit(K, y, sensitive_features=race)
    unseen = machine._cross_fitted(machine.decision_function(K), 1, data, np.arange(200) % 5)
    for k in range(5):
        train, test = np.flatnonzero(np.arange(200) % 5 != k), np.arange(k, 200, 5)
        part = FairKernelSVC(**settings).fit(
            K[np.ix_(train, train)], y[train], sensitive_features=race[train]
        )
        assert unseen[test] == pytest.approx(part.decision_function(K[np.ix_(test, train)]), abs=1e-6)


def ten_people():
    """Three groups under equal opportunity: negatives are in no cell, a positive of group 2 has no weight."""
    y = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
    group = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2, 2])
    weight = np.array([1, 2, 1, 1, 1, 0, 1, 1, 1, 1.0])
    cells = make_cells(PARITIES["equal_opportunity"], y, group, 3, weight)
    return TrainingData(np.zeros((10, 1)), y, weight, np.array([0, 1]), None, cells)


@pytest.mark.parametrize(
    ("rows", "complete"),
    [
        (range(10), True),
        ([1, 2, 4, 6], True),
        ([1, 2, 5, 6], False),  # the one positive of group 2 has no weight
        ([1, 2, 6, 7, 8], False),  # group 2 has no positive, and being in no cell is no cell
        ([1, 2, 4], False),  # one label
    ],
)
def test_rows_are_complete_if_those_with_weight_have_every_label_and_cell(rows, complete):
    assert ten_people().is_complete(np.array(rows)) == complete


def test_without_cells_rows_are_complete_if_they_have_both_labels():
    data = replace(ten_people(), cells=None)
    assert data.is_complete(np.array([0, 6]))
    assert not data.is_complete(np.array([0, 4]))
    assert not data.is_complete(np.array([5, 6]))  # the one positive has no weight


def test_a_fold_that_cannot_be_left_out_keeps_its_scores():
    fold, g = np.array([0, 1, 0, 1, 2, 3, 0, 1, 2, 3]), np.linspace(-1, 1, 10)
    left_out = {}

    def refit(train, test):
        left_out[tuple(test)] = tuple(train)
        return 100.0 + test

    scores = cross_fitted_scores(ten_people(), g, fold, refit)
    # fold 2 has the only positive of group 2 that has weight; fold 4 has nobody
    assert left_out == {
        (0, 2, 6): (1, 3, 4, 5, 7, 8, 9),
        (1, 3, 7): (0, 2, 4, 5, 6, 8, 9),
        (5, 9): (0, 1, 2, 3, 4, 6, 7, 8),
    }
    assert scores.tolist() == np.where(fold == 2, g, 100.0 + np.arange(10)).tolist()


def moves(clf, X, y, group, weight, some):
    """How far some rows' scores move when one unit of their weight is left out: foretold, and by fits."""
    data = clf._check_rows(X, y, weight, group)
    problem = clf._problem(data)
    (point,) = clf._points(problem, data, [clf.eta])
    objective, theta = problem.with_eta(clf.eta), point.solution.theta
    g, fits = objective.raw_scores(theta), []
    for i in some:
        less = data.weight.copy()
        less[i] -= 1
        part = clone(clf).fit(data.X, data.y, less, sensitive_features=data.groups.code)
        fits.append(part.decision_function(data.X[i : i + 1])[0] - g[i])
    return left_out_scores(objective, theta, data.weight)[some] - g[some], np.array(fits)


@pytest.mark.parametrize("class_weight", [None, {1: 3}])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_a_penalty_the_scores_calibrated_on_are_those_of_fits_without_the_row(weighted, class_weight):
    w = world(n_groups=2, n=150, seed=3)
    weight = np.where(np.arange(150) % 3 == 0, 2.0, 1.0) if weighted else np.ones(150)
    clf = FairLogisticRegression(eta=0, alpha=1e-3, tol=1e-9, class_weight=class_weight)
    foretold, found = moves(clf, w.X, w.y, w.group, weight, np.arange(0, 150, 3))
    assert np.abs(found).mean() > 0.02
    assert foretold == pytest.approx(found, abs=0.1 * np.abs(found).mean())


def test_with_many_columns_and_a_penalty_they_are_nearly_so():
    X, y, sex = load_adult(one_hot=True)
    some = np.random.default_rng(0).permutation(len(y))[:1400]
    X, y, sex = X.to_numpy(float)[some], y.to_numpy()[some], sex.to_numpy()[some]
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    clf = FairLogisticRegression(eta=1, alpha=1e-3, tol=1e-7)
    foretold, found = moves(clf, X, y, sex, None, np.arange(0, 1400, 60))
    assert np.abs(found).mean() > 0.05
    assert np.abs(foretold - found).mean() < 0.3 * np.abs(found).mean()


def test_a_hundred_columns_do_not_make_the_map_too_sure():
    """On rows enough to learn a little by heart, in-sample scores would make the risks of others worse."""
    X, y, group = load_adult(one_hot=True)
    X, y, group = X.to_numpy(float), y.to_numpy(), group.to_numpy()
    lost = {}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:1400], order[1400:6400]
        sd = X[train].std(axis=0)
        Z = (X - X[train].mean(axis=0)) / np.where(sd > 0, sd, 1)
        for how in (None, *CALIBRATIONS):
            clf = FairLogisticRegression(eta=1, alpha=1e-4, tol=1e-5, calibration=how)
            clf.fit(Z[train], y[train], sensitive_features=group[train])
            lost.setdefault(how, []).append(log_loss(y[test], clf.predict_proba(Z[test])[:, 1]))
    for how in CALIBRATIONS:
        assert np.mean(lost[how]) < np.mean(lost[None]) - 0.003
