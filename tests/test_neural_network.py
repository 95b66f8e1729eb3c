"""FairMLPClassifier: the contract, and witnesses that we did not write."""

import copy
import io
import pickle
import re
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenrisk import BudgetSearchCV, FairLogisticRegression, threshold_profile
from evenrisk.calibration import sigmoid_map
from evenrisk.distances import DISTANCES, evaluate
from evenrisk.exceptions import ConvergenceWarning, MissingSensitiveFeatures, SmallCellWarning
from evenrisk.metrics import max_demographic_parity_difference
from evenrisk.neural_network import FairMLPClassifier, _classifier
from evenrisk.neural_network._training import split_off
from evenrisk.parity import PARITIES, make_cells
from optional import need
from worlds import in_pieces

torch = need("torch")

TINY = {"hidden_layer_sizes": (6,), "random_state": 0}
pytestmark = [
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning"),
    # three epochs teach little
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.ReversedRankingWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def few(compas):
    """900 rows of COMPAS with unequal groups."""
    rows = np.random.default_rng(3).permutation(len(compas[1]))[:900]
    return tuple(column[rows] for column in compas)


def forward(clf, X):
    """The network by hand."""
    h = X
    for W, b in zip(clf.coefs_[:-1], clf.intercepts_[:-1], strict=True):
        h = {"relu": lambda v: np.maximum(v, 0), "tanh": np.tanh}[clf.activation](h @ W + b)
    return (h @ clf.coefs_[-1] + clf.intercepts_[-1])[:, 0]


def penalty(clf, g, y, groups, weight=None):
    """E_f from the core."""
    code = np.unique(groups, return_inverse=True)[1]
    weight = np.ones(len(y)) if weight is None else weight
    cells = make_cells(PARITIES[clf.parity], y, code, code.max() + 1, weight)
    return evaluate(DISTANCES[clf.distance], g, cells)[0]


def objective(clf, X, y, groups):
    """The objective from its parts; the log loss is scikit-learn's."""
    g = forward(clf, X)
    ridge = sum((W**2).sum() for W in clf.coefs_)
    return log_loss(y, 1 / (1 + np.exp(-g))) + clf.alpha / 2 * ridge + clf.eta * penalty(clf, g, y, groups)


def moved(clf, direction, length):
    """A copy whose weights went some way along a direction."""
    other = copy.deepcopy(clf)
    parts = [*other.coefs_, *other.intercepts_]
    for part, step in zip(parts, direction, strict=True):
        part += length * step
    return other


# ---------------------------------------------------------------- witnesses


def test_without_layers_and_penalty_it_is_scikit_learns_logistic_regression(compas):
    X, y, _ = compas
    reference = LogisticRegression(C=1 / (0.01 * len(y)), solver="newton-cholesky", tol=1e-12).fit(X, y)
    ours = FairMLPClassifier(eta=0, hidden_layer_sizes=(), alpha=0.01, tol=1e-8).fit(X, y)
    assert ours.solver_ == "lbfgs"
    assert ours.coefs_[0][:, 0] == pytest.approx(reference.coef_[0], abs=1e-5)
    assert ours.intercepts_[0] == pytest.approx(reference.intercept_, abs=1e-5)


@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_without_layers_it_is_our_logistic_regression(compas, parity):
    X, y, race = compas
    linear = FairLogisticRegression(parity, eta=1, alpha=0.01).fit(X, y, sensitive_features=race)
    ours = FairMLPClassifier(parity, eta=1, hidden_layer_sizes=(), alpha=0.01, tol=1e-6, max_iter=1000)
    ours.fit(X, y, sensitive_features=race)
    assert ours.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    assert ours.penalty_ == pytest.approx(linear.penalty_, rel=1e-2)


@pytest.mark.parametrize(
    "settings", [{}, {"solver": "adam", "max_iter": 3}, {"activation": "tanh", "distance": "histogram"}]
)
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
def test_objective_and_penalty_are_those_of_the_parts(few, parity, settings):
    X, y, race = few
    clf = FairMLPClassifier(parity, eta=2, **TINY, **settings).fit(X, y, sensitive_features=race)
    assert clf.penalty_ == pytest.approx(penalty(clf, forward(clf, X), y, race), rel=1e-9)
    assert clf.objective_ == pytest.approx(objective(clf, X, y, race), rel=1e-9)


def test_scores_are_those_of_scikit_learns_network_with_these_weights(few):
    X, y, race = few
    ours = FairMLPClassifier(hidden_layer_sizes=(5, 3), random_state=0).fit(X, y, sensitive_features=race)
    theirs = MLPClassifier((5, 3), max_iter=1, solver="lbfgs")
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        theirs.fit(X, y)
    theirs.coefs_, theirs.intercepts_ = ours.coefs_, ours.intercepts_
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-12)


@pytest.mark.parametrize("parity", PARITIES)
def test_a_converged_fit_is_a_minimum_by_values_alone(few, parity):
    X, y, race = few
    clf = FairMLPClassifier(
        parity,
        eta=3,
        hidden_layer_sizes=3,
        activation="tanh",
        alpha=0.01,
        tol=1e-6,
        max_iter=3000,
        random_state=0,
    ).fit(X, y, sensitive_features=race)
    rng = np.random.default_rng(0)
    lowest = objective(clf, X, y, race)
    for _ in range(8):
        step = [rng.standard_normal(part.shape) for part in (*clf.coefs_, *clf.intercepts_)]
        ahead, behind = (objective(moved(clf, step, h), X, y, race) for h in (3e-4, -3e-4))
        assert abs(ahead - behind) / 6e-4 < 5e-5
        assert min(ahead, behind) > lowest - 1e-9


def test_mini_batches_come_near_the_minimum_of_all_rows(compas):
    X, y, race = compas
    fits = {
        solver: FairMLPClassifier(eta=3, solver=solver, random_state=0).fit(X, y, sensitive_features=race)
        for solver in ("lbfgs", "adam")
    }
    plain = FairMLPClassifier(eta=0, random_state=0).fit(X, y)
    unfair = objective(plain.set_params(eta=3), X, y, race)
    assert fits["adam"].objective_ < fits["lbfgs"].objective_ + 0.25 * (unfair - fits["lbfgs"].objective_)


@pytest.mark.parametrize("settings", [{"solver": "lbfgs"}, {"solver": "adam"}, {"early_stopping": True}])
@pytest.mark.parametrize(("parity", "eta"), [("demographic_parity", 10), ("equalized_odds", 10)])
def test_the_penalty_closes_the_gap_on_unseen_people(compas, parity, eta, settings):
    X, y, race = compas
    train = np.random.default_rng(0).random(len(y)) < 0.7
    gap, area = {}, {}
    for strength in (0, eta):
        clf = FairMLPClassifier(parity, eta=strength, hidden_layer_sizes=(16,), random_state=0, **settings)
        clf.fit(X[train], y[train], sensitive_features=race[train])
        s = clf.predict_proba(X[~train])[:, 1]
        profile = threshold_profile(y[~train], s, sensitive_features=race[~train], parity=parity)
        gap[strength], area[strength] = profile.max_gap, roc_auc_score(y[~train], s)
    assert gap[0] > 0.2
    assert gap[eta] < 0.7 * gap[0]
    assert area[eta] > 0.56


def test_a_strong_penalty_does_not_end_in_the_constant(compas):
    X, y, race = compas
    clf = FairMLPClassifier(eta=50, solver="adam", random_state=1).fit(X, y, sensitive_features=race)
    assert clf.predict_proba(X)[:, 1].std() > 0.05
    assert roc_auc_score(y, clf.decision_function(X)) > 0.57


def test_three_groups_of_unequal_size(few):
    X, y, _ = few
    groups = np.random.default_rng(0).choice(["x", "y", "z"], len(y), p=[0.6, 0.3, 0.1])
    groups[X[:, 0] > 1] = "z"
    clf = FairMLPClassifier("equalized_odds", eta=5, solver="adam", max_iter=5, **TINY)
    clf.fit(X, y, sensitive_features=groups)
    assert clf.groups_.tolist() == ["x", "y", "z"]
    assert clf.penalty_ == pytest.approx(penalty(clf, forward(clf, X), y, groups), rel=1e-9)


# ---------------------------------------------------------------- chance and bytes


@pytest.mark.parametrize(
    "settings", [{}, {"solver": "adam", "max_iter": 3}, {"early_stopping": True, "max_iter": 3}]
)
def test_the_same_seed_gives_the_same_bytes_and_torchs_generator_is_left_alone(few, settings):
    X, y, race = few

    def fit(seed):
        clf = FairMLPClassifier(hidden_layer_sizes=4, random_state=seed, **settings)
        return clf.fit(X, y, sensitive_features=race).decision_function(X)

    before = torch.random.get_rng_state()
    first = fit(7)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    assert np.array_equal(first, fit(7))
    assert not np.array_equal(first, fit(8))


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_the_warning_of_small_cells_points_at_the_callers_line(few, solver):
    X, y, _ = few
    clf = FairMLPClassifier(solver=solver, max_iter=1, **TINY)
    with pytest.warns(SmallCellWarning) as caught:
        clf.fit(X, y, sensitive_features=np.arange(len(y)) < 20)
    assert next(each for each in caught if each.category is SmallCellWarning).filename == __file__


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_mini_batches_change_from_epoch_to_epoch_and_hold_every_cell(few):
    X, y, _ = few
    rare = np.isin(np.arange(len(y)), np.r_[np.flatnonzero(y == 0)[:9], np.flatnonzero(y == 1)[:20]])
    clf = FairMLPClassifier("equalized_odds", solver="adam", batch_size=64)
    batches = clf._batches(clf._check_rows(X, y, None, rare), seed=0)
    first, second = ([batch.X.numpy() for batch in batches.epoch(by_cells=True)] for _ in range(2))
    assert len(first) == 15
    assert any(len(a) != len(b) or not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    for batch in batches.epoch(by_cells=True):
        cells = np.bincount(2 * batch.group.numpy() + batch.y.numpy().astype(int), minlength=4)
        assert (cells >= 2).all()


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_rows_that_come_again_count_once_in_the_loss():
    """40 of 4000 rows are of a rare group; with batches of 16 each of them comes a dozen times an epoch."""
    rng = np.random.default_rng(0)
    rare = np.arange(4000) < 40
    X = rng.standard_normal((4000, 2))
    y = (rng.random(4000) < np.where(rare, 0.9, 1 / (1 + np.exp(1 - 2 * X[:, 0])))).astype(int)
    settings = {"hidden_layer_sizes": (), "alpha": 0, "solver": "adam", "batch_size": 16, "max_iter": 4}
    settings |= {"learning_rate_init": 0.01, "random_state": 0}
    plain = FairMLPClassifier(eta=0, **settings).fit(X, y)
    named = FairMLPClassifier(eta=0, **settings).fit(X, y, sensitive_features=rare)
    assert np.array_equal(plain.predict_proba(X), named.predict_proba(X)), "0 is a plain network"
    mild = FairMLPClassifier(eta=1e-9, **settings).fit(X, y, sensitive_features=rare)
    assert mild.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


def test_equal_rows_tie_wherever_they_stand(few):
    X, y, race = few
    clf = FairMLPClassifier(hidden_layer_sizes=(37, 5), max_iter=3, random_state=0)
    clf.fit(X, y, sensitive_features=race)
    alone = np.array([clf.decision_function(X[i : i + 1])[0] for i in range(40)])
    place = np.random.default_rng(0).integers(0, 40, 500)
    assert np.array_equal(clf.decision_function(X[place]), alone[place])


def test_rows_without_weight_are_absent_and_weights_scale_freely(few):
    X, y, race = few
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    settings = {**TINY, "solver": "adam", "max_iter": 3, "eta": 5}
    full = FairMLPClassifier(**settings).fit(X, y, weight, sensitive_features=race)
    kept = weight > 0
    part = FairMLPClassifier(**settings).fit(X[kept], y[kept], weight[kept], sensitive_features=race[kept])
    assert np.array_equal(full.decision_function(X), part.decision_function(X))
    double = FairMLPClassifier(**settings).fit(X, y, 2 * weight, sensitive_features=race)
    assert double.decision_function(X) == pytest.approx(full.decision_function(X), abs=1e-9)
    g = forward(full, X)
    assert full.penalty_ == pytest.approx(penalty(full, g, y, race, weight), rel=1e-9)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_sparse_rows_are_the_same_rows(few, solver):
    X, y, race = few
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    settings = {**TINY, "solver": solver, "max_iter": 4}
    dense = FairMLPClassifier(**settings).fit(X, y, sensitive_features=race)
    thin = FairMLPClassifier(**settings).fit(sparse.csr_array(X), y, sensitive_features=race)
    assert np.array_equal(dense.decision_function(X), thin.decision_function(sparse.csr_array(X)))
    pieces = FairMLPClassifier(**settings).fit(in_pieces(X), y, sensitive_features=race)
    assert np.array_equal(dense.decision_function(X), pieces.decision_function(in_pieces(X)))


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_float32_rows_give_float32_weights_and_nearly_the_same_scores(few, solver):
    X, y, race = few
    settings = {**TINY, "solver": solver, "max_iter": 4, "activation": "tanh"}
    wide = FairMLPClassifier(**settings).fit(X, y, sensitive_features=race)
    narrow = FairMLPClassifier(**settings).fit(X.astype(np.float32), y, sensitive_features=race)
    assert {part.dtype for part in (*narrow.coefs_, *narrow.intercepts_)} == {np.dtype(np.float32)}
    assert narrow.decision_function(X) == pytest.approx(wide.decision_function(X), abs=1e-3)


# ---------------------------------------------------------------- early stopping


def test_what_is_watched_is_the_whole_objective_of_the_part_held_out(few, monkeypatch):
    X, y, race = few
    parts = {}

    def spy(*args):
        parts["train"], parts["unseen"] = real(*args)
        return parts["train"], parts["unseen"]

    real = _classifier.split_off
    monkeypatch.setattr(_classifier, "split_off", spy)
    restless = {"learning_rate_init": 0.1, "max_iter": 80, "n_iter_no_change": 3}
    clf = FairMLPClassifier(eta=8, early_stopping=True, validation_fraction=0.2, **restless, **TINY)
    clf.fit(X, y, sensitive_features=race)
    assert clf.n_iter_ < 80  # so that the best weights are not the last ones
    unseen, train = parts["unseen"], parts["train"]
    assert len(unseen.y) + len(train.y) == len(y)
    kinds = 2 * np.unique(race, return_inverse=True)[1] + y
    shares = np.bincount(2 * unseen.groups.code + unseen.y) / np.bincount(kinds)
    assert shares == pytest.approx(0.2, abs=0.01)
    g = forward(clf, unseen.X)
    value = log_loss(unseen.y, 1 / (1 + np.exp(-g))) + 8 * penalty(clf, g, unseen.y, unseen.groups.code)
    assert clf.best_loss_ == pytest.approx(value, rel=1e-9)


def test_training_stops_where_the_part_held_out_gets_no_better(few):
    X, _, race = few
    y = np.random.default_rng(0).integers(0, 2, len(race))  # nothing to learn
    settings = {"hidden_layer_sizes": 64, "alpha": 0.0, "learning_rate_init": 0.01, "random_state": 0}
    clf = FairMLPClassifier(eta=0, early_stopping=True, max_iter=60, n_iter_no_change=4, **settings).fit(X, y)
    assert clf.n_iter_ == len(clf.loss_curve_) < 30
    longer = FairMLPClassifier(eta=0, solver="adam", max_iter=60, **settings).fit(X, y)
    assert longer.score(X, y) > clf.score(X, y)  # by heart


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")
def test_a_part_without_some_cell_is_refused(few):
    X, y, _ = few
    groups = np.where(np.arange(len(y)) < 4, "b", "a")
    clf = FairMLPClassifier(early_stopping=True)
    with pytest.raises(
        ValueError, match=r"every label and cell in the validation part, got 0\.1 of 900 rows.*group 'b'"
    ):
        clf.fit(X, y, sensitive_features=groups)


# ---------------------------------------------------------------- piece by piece


def pieces(few, n=6):
    X, y, race = few
    for rows in np.array_split(np.arange(len(y)), n):
        yield X[rows], y[rows], race[rows]


def test_partial_fit_learns_and_survives_a_pickle(few):
    X, y, race = few
    straight, pickled = (FairMLPClassifier(eta=5, batch_size=40, **TINY) for _ in range(2))
    for _ in range(4):
        for x, labels, groups in pieces(few):
            straight.partial_fit(x, labels, sensitive_features=groups)
            pickled = pickle.loads(pickle.dumps(pickled)).partial_fit(x, labels, sensitive_features=groups)
    assert straight.n_iter_ == len(straight.loss_curve_) == 24
    assert np.array_equal(straight.decision_function(X), pickled.decision_function(X))
    assert roc_auc_score(y, straight.decision_function(X)) > 0.6
    plain = FairMLPClassifier(eta=0, solver="adam", **TINY).fit(X, y)
    e_f = [penalty(clf, forward(clf, X), y, race) for clf in (straight, plain)]
    assert e_f[0] < 0.5 * e_f[1]


def test_copies_of_a_model_of_pieces_go_on_where_it_stands(few):
    X, y, race = few
    clf = FairMLPClassifier(eta=5, batch_size=40, **TINY)
    for _ in range(3):
        clf.partial_fit(X, y, sensitive_features=race)
    others = (copy.deepcopy(clf), pickle.loads(pickle.dumps(clf)))
    anew = clone(clf).partial_fit(X, y, sensitive_features=race)
    clf.partial_fit(X, y, sensitive_features=race)
    for other in others:
        other.partial_fit(X, y, sensitive_features=race)
        assert np.array_equal(other.decision_function(X), clf.decision_function(X))
    assert anew.n_iter_ == 1
    # what torch's Adam remembers is kept in NumPy
    assert "torch" not in {type(part).__module__ for kept in clf._adam.values() for part in kept.values()}


def test_pieces_without_some_label_group_or_cell_train_on(few):
    X, y, race = few
    clf = FairMLPClassifier("equalized_odds", eta=5, batch_size=30, **TINY)
    order = np.lexsort((y, race))  # every piece is of one or two cells
    for rows in np.array_split(order, 9):
        clf.partial_fit(
            X[rows],
            y[rows],
            classes=[0, 1],
            sensitive_features=race[rows],
            groups=["Caucasian", "African-American"],
        )
    assert clf.groups_.tolist() == ["African-American", "Caucasian"]
    assert np.isfinite(clf.decision_function(X)).all()


def test_pieces_need_no_groups_without_a_penalty(few):
    X, y, race = few
    white = race == "Caucasian"
    alone = FairMLPClassifier(eta=0, **TINY).partial_fit(X[white], y[white])
    named = FairMLPClassifier(eta=0, **TINY).partial_fit(X[white], y[white], sensitive_features=race[white])
    assert np.array_equal(alone.decision_function(X), named.decision_function(X))


def test_partial_fit_goes_on_from_fit(few):
    X, y, race = few
    clf = FairMLPClassifier(eta=5, **TINY).fit(X, y, sensitive_features=race)
    before = objective(clf, X, y, race)
    clf.set_params(learning_rate_init=1e-4).partial_fit(X, y, sensitive_features=race)
    assert objective(clf, X, y, race) == pytest.approx(before, abs=0.01)
    assert not hasattr(clf, "objective_")


@pytest.mark.parametrize(("parity", "label"), [("equal_opportunity", 1), ("predictive_equality", 0)])
def test_a_piece_of_the_one_label_that_is_compared(few, parity, label):
    X, y, race = few
    here = y == label
    clf = FairMLPClassifier(parity, batch_size=64, **TINY)
    clf.partial_fit(X[here], y[here], classes=[0, 1], sensitive_features=race[here])
    assert clf.classes_.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_a_piece_that_blows_the_network_up_is_refused_and_forgotten(few):
    X, y, race = few
    clf = FairMLPClassifier(batch_size=None, **TINY).partial_fit(X, y, sensitive_features=race)
    before = clf.decision_function(X)
    clf.set_params(learning_rate_init=1e300)
    with pytest.raises(ValueError, match=r"training has diverged\. Lower learning_rate_init"):
        clf.partial_fit(X, y, sensitive_features=race)
    assert np.array_equal(clf.decision_function(X), before)


def test_partial_fit_refuses_what_contradicts_the_first_piece(few):
    X, y, race = few
    clf = FairMLPClassifier(**TINY).partial_fit(X, y, sensitive_features=race)
    with pytest.raises(ValueError, match="`classes` must be 0, 1 as with the first piece, got 0, 5"):
        clf.partial_fit(X, y, classes=[0, 5], sensitive_features=race)
    with pytest.raises(ValueError, match=r"`groups` must be .* as with the first piece, got 'a', 'b', 'c'"):
        clf.partial_fit(X, y, sensitive_features=race, groups=["a", "b", "c"])
    with pytest.raises(ValueError, match="`groups` must have 2 or more groups, got 1"):
        clone(clf).partial_fit(X, y, sensitive_features=race, groups=["Caucasian"])
    names = pd.array([pd.NA, *race[1:5]], dtype="string")
    with pytest.raises(ValueError, match="`sensitive_features` must not have missing values, got 1"):
        clf.partial_fit(X[:5], y[:5], sensitive_features=pd.Series(names))
    frame = pd.DataFrame(X, columns=list("abcd"))
    with pytest.warns(UserWarning, match="order"):
        clone(clf).partial_fit(frame, pd.Series(y), sensitive_features=pd.Series(race).iloc[::-1])
    with pytest.raises(ValueError, match=r"`hidden_layer_sizes` must be \(6,\) as with the first piece"):
        clf.set_params(hidden_layer_sizes=(5,)).partial_fit(X, y, sensitive_features=race)


def test_partial_fit_knows_dates_and_masks(few):
    X, y, race = few
    X, y, born = (
        X[:80],
        y[:80],
        np.array(["2020-01-01", "2021-05-06"], "M8[ns]")[(race[:80] == "Caucasian") * 1],
    )
    clf = FairMLPClassifier(**TINY).partial_fit(X, y, sensitive_features=born)
    assert clf.groups_.tolist() == [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-05-06")]
    clf.partial_fit(X, y, sensitive_features=born.astype("M8[D]"))
    with pytest.raises(ValueError, match=r"first piece, .*, got Timestamp\('1999-12-31 00:00:00'\)"):
        clf.partial_fit(X, y, sensitive_features=np.full(80, np.datetime64("1999-12-31")))
    masked = np.ma.MaskedArray(race[:80], mask=np.arange(80) < 3)
    with pytest.raises(ValueError, match="`sensitive_features` must not have missing values, got 3"):
        FairMLPClassifier(**TINY).partial_fit(X, y, sensitive_features=masked)
    holes = np.ma.MaskedArray(X, mask=np.repeat(np.arange(80) < 3, X.shape[1]).reshape(X.shape))
    for call in (FairMLPClassifier(eta=0).fit, FairMLPClassifier(eta=0).partial_fit):
        with pytest.raises(ValueError, match=r"`X` must not have masked entries, got \d+ \(row 0, 1, 2\)"):
            call(holes, y)
    with pytest.raises(ValueError, match=r"`X` must not have masked entries, got \d+ \(row 0, 1, 2\)"):
        clf.predict(holes)


def test_a_whole_number_of_any_type_is_a_batch_size(few):
    X, y, race = few
    clf = FairMLPClassifier(**{**TINY, "batch_size": 32.0}).fit(X, y, sensitive_features=race)
    assert clf.solver_ == "adam"


def test_partial_fit_refuses_what_was_not_declared(few):
    X, y, race = few
    ones = y == 1
    message = r"^`y` must have 2 classes, got 1 class \(1\)\. Declare both labels .* `classes`$"
    with pytest.raises(ValueError, match=message):
        FairMLPClassifier().partial_fit(X[ones], y[ones], sensitive_features=race[ones])
    white = race == "Caucasian"
    with pytest.raises(ValueError, match=r"2 or more groups, got 1 \(.*\)\. Declare all groups .* `groups`$"):
        FairMLPClassifier().partial_fit(X[white], y[white], sensitive_features=race[white])
    with pytest.raises(MissingSensitiveFeatures, match="required when eta > 0"):
        FairMLPClassifier().partial_fit(X, y)
    clf = FairMLPClassifier(**TINY).partial_fit(X, y, sensitive_features=race)
    weights = [W.copy() for W in clf.coefs_]
    with pytest.raises(
        ValueError, match="groups declared with the first piece, 'African-American', 'Caucasian', got 'Other'"
    ):
        clf.partial_fit(X[:5], y[:5], sensitive_features=["Other"] + ["Caucasian"] * 4)
    with pytest.raises(ValueError, match="`y` must be 0, 1 as declared with the first piece, got 2"):
        clf.partial_fit(X[:3], [0, 1, 2][::-1][:1] * 3, sensitive_features=race[:3])
    with pytest.raises(ValueError, match="missing values, got 1"):
        clf.partial_fit(X[:3], y[:3], sensitive_features=["Caucasian", None, "Caucasian"])
    assert all(np.array_equal(a, b) for a, b in zip(weights, clf.coefs_, strict=True))
    with pytest.raises(ValueError, match="must have calibration=None and early_stopping=False"):
        clf.set_params(calibration="sigmoid").partial_fit(X, y, sensitive_features=race)
    assert not hasattr(FairMLPClassifier(solver="lbfgs"), "partial_fit")


def test_crossed_columns_piece_by_piece(few):
    X, y, race = few
    sex = np.where(X[:, 1] > 0, "m", "f")
    both = np.column_stack([race, sex])
    clf = FairMLPClassifier(**TINY).partial_fit(X, y, sensitive_features=both)
    assert len(clf.groups_) == 4
    clf.partial_fit(X[:1], y[:1], sensitive_features=both[:1])
    with pytest.raises(ValueError, match=r"got \('Caucasian', 'x'\)"):
        clf.partial_fit(X[:1], y[:1], sensitive_features=[["Caucasian", "x"]])


# ---------------------------------------------------------------- paths, warm starts, calibration


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_path_is_in_the_order_asked_for(few, solver):
    X, y, race = few
    clf = FairMLPClassifier(solver=solver, max_iter=30, learning_rate_init=0.02, **TINY)
    models = clf.fit_path(X, y, [10, 0, 1, 10], sensitive_features=race)
    assert [model.eta for model in models] == [10, 0, 1, 10]
    assert models[0].penalty_ < models[2].penalty_ < models[1].penalty_
    plain = clone(clf).set_params(eta=0).fit(X, y, sensitive_features=race)
    assert np.array_equal(models[1].decision_function(X), plain.decision_function(X))
    assert not hasattr(clf, "coefs_")


def test_a_warm_start_goes_on_where_the_last_fit_ended(few):
    X, y, race = few
    clf = FairMLPClassifier(eta=5, max_iter=20, warm_start=True, activation="tanh", **TINY)
    values = [clf.fit(X, y, sensitive_features=race).objective_ for _ in range(4)]
    assert values == sorted(values, reverse=True)
    assert values[3] < values[0] - 1e-4
    assert clf.n_iter_ <= 20  # at this eta alone
    clf.set_params(hidden_layer_sizes=9).fit(X, y, sensitive_features=race)
    assert clf.coefs_[0].shape[1] == 9


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibration_moves_no_gap(few, calibration):
    X, y, race = few
    clf = FairMLPClassifier(eta=5, max_iter=30, **TINY).fit(X, y, sensitive_features=race)
    calibrated = clone(clf).set_params(calibration=calibration).fit(X, y, sensitive_features=race)
    raw, mapped = clf.decision_function(X), calibrated.decision_function(X)
    assert mapped == pytest.approx(calibrated.calibration_(raw), abs=1e-9)
    gaps = [threshold_profile(y, s, sensitive_features=race).max_gap for s in (raw, mapped)]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-12)
    warm = calibrated.set_params(warm_start=True).fit(X, y, sensitive_features=race)
    assert warm.objective_ <= clf.objective_ + 1e-9


def test_the_scores_a_network_is_calibrated_on_are_of_rows_it_has_not_seen():
    """Without layers a fit has one minimum: five fits by scikit-learn say what the map is fitted to."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 12)), rng.integers(0, 2, 60)
    X[:, 0] += y
    settings = {"eta": 0, "alpha": 0.02, "hidden_layer_sizes": (), "solver": "lbfgs", "tol": 1e-8}
    clf = FairMLPClassifier(calibration="sigmoid", random_state=1, **settings).fit(X, y)
    plain = FairMLPClassifier(random_state=1, **settings)
    order = plain._check_rows(X, y, None, None).X
    row = np.array([np.flatnonzero((each == X).all(axis=1))[0] for each in order])
    fold, unseen = np.empty(60, dtype=int), np.empty(60)
    fold[row] = np.random.RandomState(1).permutation(60) % 5
    for k in range(5):
        other = LogisticRegression(C=1 / (0.02 * (fold != k).sum()), tol=1e-8).fit(X[fold != k], y[fold != k])
        unseen[fold == k] = other.decision_function(X[fold == k])
    expected = sigmoid_map(unseen, y, np.ones(60))
    assert (clf.calibration_.slope, clf.calibration_.intercept) == pytest.approx(
        (expected.slope, expected.intercept), rel=1e-3, abs=1e-3
    )
    seen = sigmoid_map(plain.fit(X, y).decision_function(X), y, np.ones(60))
    assert clf.calibration_.slope < 0.8 * seen.slope


# ---------------------------------------------------------------- leaving, without torch, errors


def test_to_torch_has_the_same_scores(few):
    X, y, race = few
    clf = FairMLPClassifier(hidden_layer_sizes=(5, 4), activation="tanh", calibration="sigmoid", max_iter=20)
    clf.fit(X, y, sensitive_features=race)
    before = torch.random.get_rng_state()
    network = clf.to_torch()
    assert torch.equal(before, torch.random.get_rng_state())
    with torch.no_grad():
        assert network(torch.tensor(X))[:, 0].numpy() == pytest.approx(clf.decision_function(X), abs=1e-12)
    with pytest.raises(ValueError, match="got calibration='isotonic'"):
        clf.set_params(calibration="isotonic").fit(X, y, sensitive_features=race).to_torch()


def test_copies_predict_the_same(few):
    X, y, race = few
    clf = FairMLPClassifier(max_iter=3, **TINY).fit(X, y, sensitive_features=race)
    dumped = io.BytesIO()
    joblib.dump(clf, dumped)
    dumped.seek(0)
    for other in (pickle.loads(pickle.dumps(clf)), joblib.load(dumped), copy.deepcopy(clf)):
        assert np.array_equal(other.decision_function(X), clf.decision_function(X))
    assert not hasattr(clone(clf), "coefs_")


WITHOUT_TORCH = """
import pickle, sys
import numpy as np
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("absent")
sys.meta_path.insert(0, Absent())
import evenrisk
from evenrisk.neural_network import FairMLPClassifier
clf, X, g, y = pickle.load(open(sys.argv[1], "rb"))
assert np.array_equal(clf.decision_function(X), g)
try:
    FairMLPClassifier(eta=0).fit(X, y)
except ImportError as error:
    print(error)
"""


def test_without_torch_a_fitted_network_predicts_and_a_fit_names_the_extra(few, tmp_path):
    X, y, race = few
    clf = FairMLPClassifier(max_iter=3, **TINY).fit(X, y, sensitive_features=race)
    path = tmp_path / "clf.pickle"
    path.write_bytes(pickle.dumps((clf, X, clf.decision_function(X), y)))
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(path)], capture_output=True, text=True, check=True
    )
    hint = "pip install torch, or pip install '.[torch]' in a clone of evenrisk"
    assert run.stdout.strip() == f"to fit a FairMLPClassifier needs torch: {hint}"


def test_neither_import_nor_construction_loads_torch():
    code = "import sys, evenrisk.neural_network as n; n.FairMLPClassifier(); print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_rows_with_weight_decide_whether_all_are_taken_at_once(few, monkeypatch):
    X, y, race = few
    monkeypatch.setattr(_classifier, "FULL_BATCH_ROWS", 200)
    clf = FairMLPClassifier(**TINY)
    for n, n_weightless, solver in (
        (200, 0, "lbfgs"),
        (201, 0, "adam"),
        (250, 50, "lbfgs"),
        (250, 49, "adam"),
    ):
        weight = np.where(np.arange(n) < n - n_weightless, 2.0, 0.0)
        data = clf._check_rows(X[:n], y[:n], weight, race[:n])
        assert clf.solver_ == solver
        assert data.weight.sum() == 2 * (n - n_weightless)


def test_rows_that_come_again_keep_their_own_weight_in_the_loss(few):
    X, y, race = (part[:200] for part in few)
    group = np.where(np.arange(200) < 4, "few", race)
    weight = np.random.default_rng(0).gamma(2, size=200)
    clf = FairMLPClassifier(**TINY, solver="adam", batch_size=20)
    with pytest.warns(match="fewer than 30 rows"):
        data = clf._check_rows(X, y, weight, group)
    batches = clf._batches(data, seed=0)
    times = np.zeros(200)
    for part in batches.parts(by_cells=True):
        np.add.at(times, part, 1)
    assert times[:4].min() == 5  # of ten batches with two of the four in each
    assert (times[4:] == 1).all()
    assert batches.weight.numpy() == pytest.approx(weight / weight.mean(), rel=1e-12)
    assert times * batches.loss_weight.numpy() == pytest.approx(weight / weight.mean(), rel=1e-12)


def test_what_is_held_out_is_the_nearest_whole_number_of_every_kind(few):
    X, y, race = few
    clf = FairMLPClassifier(**TINY, solver="adam")
    data = clf._check_rows(X, y, None, race)
    train, unseen = split_off(data, 0.1, clf._parity, np.random.RandomState(0))
    kind, of_unseen = (2 * each.groups.code + each.y for each in (data, unseen))
    expected = np.round(0.1 * np.bincount(kind))
    assert (expected > np.floor(0.1 * np.bincount(kind))).any()
    assert (np.bincount(of_unseen) == expected).all()
    assert len(train.y) + len(unseen.y) == len(y)


@pytest.mark.parametrize("eta", [0, 1])
def test_a_network_that_has_not_converged_says_so(few, eta):
    X, y, race = few
    groups = {"sensitive_features": race}
    share = y.mean()
    constant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    wild = FairMLPClassifier(**TINY, eta=eta, solver="adam")
    with pytest.warns(
        ConvergenceWarning, match=rf"constant answer {constant:.3f}. Standardise .*init"
    ) as told:
        wild.fit(X * [1e6, 1, 1, 1], y, **groups)
    assert wild.objective_ > constant + 0.01
    assert ("lower eta" in str(told[0].message)) == (eta > 0)
    # below the constant, and cut short while it falls
    short = FairMLPClassifier(**TINY, eta=eta, solver="adam", learning_rate_init=0.05, max_iter=2)
    with pytest.warns(ConvergenceWarning, match=r"fell by 0\.\d+ in the last tenth .* Raise max_iter"):
        short.fit(X, y, **groups)
    assert short.objective_ < constant
    if eta == 0:  # whoever asks for no more than this has it
        short.set_params(max_iter=30, tol=10, n_iter_no_change=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            assert short.fit(X, y).n_iter_ == 2
    # weights count: half of the rows at nine times the weight have another prevalence
    weight = np.where(y == 1, 9.0, 1.0)
    heavy = (weight * y).sum() / weight.sum()
    expected = -(heavy * np.log(heavy) + (1 - heavy) * np.log(1 - heavy))
    with pytest.warns(ConvergenceWarning, match=f"constant answer {expected:.3f}"):
        clone(wild).fit(X * [1e6, 1, 1, 1], y, weight, **groups)


@pytest.mark.parametrize("eta", [0, 1])
@pytest.mark.parametrize("settings", [{}, {"solver": "adam"}, {"early_stopping": True}], ids=str)
def test_a_good_fit_is_silent(few, settings, eta):
    X, y, race = few
    noise = np.random.default_rng(0).permutation(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for target in (y, noise):
            FairMLPClassifier(eta=eta, random_state=0, **settings).fit(X, target, sensitive_features=race)


@pytest.mark.parametrize("eta", [0, 1])
def test_a_diverging_network_says_what_to_do_and_leaves_the_last_fit(few, eta):
    X, y, race = few
    clf = FairMLPClassifier(eta=eta, solver="adam", max_iter=3, **TINY).fit(X, y, sensitive_features=race)
    g = clf.decision_function(X)
    words = "diverged. Lower learning_rate_init (now 1e+300)" + (
        " or eta (now 1)" if eta else ", or standardise"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        clf.set_params(learning_rate_init=1e300).fit(X, y, sensitive_features=race)
    assert np.array_equal(clf.decision_function(X), g)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"device": "tpu"}, r"`device` must be 'auto' or one of 'cpu'.*, got 'tpu'"),
        ({"hidden_layer_sizes": (4, 0)}, "`hidden_layer_sizes` must be a whole number of at least 1, got 0"),
        (
            {"activation": "swish"},
            "`activation` must be one of 'relu', 'tanh', 'logistic', 'identity', got 'swish'",
        ),
        ({"solver": "sgd"}, "`solver` must be one of 'auto', 'adam', 'lbfgs', got 'sgd'"),
        (
            {"solver": "lbfgs", "early_stopping": True},
            "must be 'adam' or 'auto' with early_stopping=True, got 'lbfgs'",
        ),
        ({"solver": "lbfgs", "batch_size": 20}, "with batch_size=20, got 'lbfgs'"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1, got 0"),
        ({"batch_size": "all"}, "`batch_size` must be a whole number of at least 1, got 'all'"),
        ({"validation_fraction": 1.0}, "`validation_fraction` must be a number above 0 and below 1, got 1.0"),
        ({"early_stopping": "yes"}, "`early_stopping` must be True or False, got 'yes'"),
        ({"learning_rate_init": 0}, "`learning_rate_init` must be a finite number above 0, got 0"),
        ({"alpha": -1}, "`alpha` must be a finite number of at least 0, got -1"),
        ({"max_iter": 0}, "`max_iter` must be a whole number of at least 1, got 0"),
        ({"memory": -1}, "`memory` must be a whole number of at least 0, got -1"),
        ({"distance": "far"}, "`distance` must be one of"),
        ({"eta": np.nan}, "`eta` must be a finite number"),
    ],
)
def test_settings_are_checked(few, settings, words):
    X, y, race = few
    with pytest.raises(ValueError, match=words):
        FairMLPClassifier(**settings).fit(X, y, sensitive_features=race)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_auto_is_the_cpu_and_cuda_is_refused(few):
    X, y, race = few
    with pytest.raises(
        ValueError, match=r"one of 'cpu' on this machine \(torch sees no CUDA device\), got 'cuda'"
    ):
        FairMLPClassifier(device="cuda").fit(X, y, sensitive_features=race)
    fits = [
        FairMLPClassifier(device=d, max_iter=3, **TINY).fit(X, y, sensitive_features=race)
        for d in ("cpu", "auto")
    ]
    assert np.array_equal(*(clf.decision_function(X) for clf in fits))


@pytest.mark.parametrize("settings", [{}, {"solver": "adam", "max_iter": 5}])
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_on_every_device_the_fit_is_the_same(few, device, parity, settings):
    X, y, race = few
    here, there = (
        FairMLPClassifier(parity, eta=5, device=device, activation="tanh", **TINY, **settings).fit(
            X, y, sensitive_features=race
        )
        for device in ("cpu", device)
    )
    assert there.objective_ == pytest.approx(here.objective_, abs=1e-4)


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_objective_moved_to_a_device_is_the_same(few, distance):
    """What a GPU evaluates, here with torch's tensors on the CPU."""
    X, y, race = few
    weight = np.random.default_rng(0).gamma(2, size=len(y))
    clf = FairMLPClassifier("equalized_odds", distance=distance, eta=0.5, **TINY)
    problem = clf._problem(clf._check_rows(X, y, weight, race))
    g = problem.raw_scores(np.random.default_rng(1).normal(size=len(problem.is_weight)))
    moved = problem.on_device.scores.with_eta(0.5)
    assert all(isinstance(part, torch.Tensor) for part in (moved.y, moved.weight, moved.penalty.cells.code))
    value, slope = moved(torch.from_numpy(g))
    expected, gradient = problem.scores(g)
    assert value == pytest.approx(expected, rel=1e-12)
    assert slope.numpy() == pytest.approx(gradient, rel=1e-9, abs=1e-14)


def test_a_batch_larger_than_the_rows_is_all_of_them(few):
    X, y, race = few
    settings = {**TINY, "solver": "adam", "max_iter": 3}
    fits = [
        FairMLPClassifier(batch_size=size, **settings).fit(X, y, sensitive_features=race)
        for size in (10**6, None)
    ]
    assert np.array_equal(*(clf.decision_function(X) for clf in fits))


def test_progress_goes_to_standard_error(few, capfd):
    X, y, race = few
    FairMLPClassifier(early_stopping=True, max_iter=3, verbose=1, **TINY).fit(X, y, sensitive_features=race)
    out, err = capfd.readouterr()
    assert out == ""
    assert [line.split()[:2] for line in err.splitlines()] == [["epoch", str(i)] for i in (1, 2, 3)]
    assert "held out" in err


# ---------------------------------------------------------------- inside scikit-learn


def test_pipeline_and_grid_search_with_routing(few):
    X, y, race = few
    scorer = make_scorer(
        max_demographic_parity_difference, response_method="predict_proba", greater_is_better=False
    )
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), FairMLPClassifier(max_iter=30, **TINY))
        grid = {"fairmlpclassifier__eta": [0, 10]}
        search = GridSearchCV(
            pipe, grid, scoring=scorer.set_score_request(sensitive_features=True), cv=3, error_score="raise"
        ).fit(X, y, sensitive_features=race)
    assert search.best_params_ == {"fairmlpclassifier__eta": 10}
    with pytest.raises(MissingSensitiveFeatures, match="required when eta > 0"):
        FairMLPClassifier().fit(X, y)


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_a_budget_is_met(compas, solver):
    X, y, race = compas
    few = {"max_iter": 4, "learning_rate_init": 0.02} if solver == "adam" else {"max_iter": 20}
    clf = FairMLPClassifier(solver=solver, hidden_layer_sizes=8, random_state=0, **few)
    search = BudgetSearchCV(clf, max_gap=0.15, cv=2, random_state=0).fit(X, y, sensitive_features=race)
    assert search.eta_ > 0
    s = search.predict_proba(X)[:, 1]
    assert threshold_profile(y, s, sensitive_features=race).max_gap < 0.18
