"""FairLogisticRegression: the contract, and witnesses that we did not write."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from conftest import standardised
from evenrisk import FairLogisticRegression, GapDistance, Parity, threshold_profile
from evenrisk._xp import sigmoid
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


def test_units_of_the_features_do_not_matter():
    X, y, race = load_compas()
    raw = FairLogisticRegression(eta=3).fit(X, y, sensitive_features=race)
    scaled = FairLogisticRegression(eta=3).fit(standardised(X), y, sensitive_features=race)
    assert raw.predict_proba(X) == pytest.approx(scaled.predict_proba(standardised(X)), abs=1e-3)


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
    monkeypatch.setattr("evenrisk._estimator._base.COLLAPSE_ENTRIES", 0)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    groups = np.where(weight == 0, "nobody", race)
    zero = FairLogisticRegression(eta=3, tol=1e-9).fit(X, y, weight, sensitive_features=groups)
    kept = weight > 0
    dropped = FairLogisticRegression(eta=3, tol=1e-9).fit(
        X[kept], y[kept], weight[kept], sensitive_features=race[kept]
    )
    assert zero.groups_.tolist() == dropped.groups_.tolist() == ["African-American", "Caucasian"]
    assert zero.coef_ == pytest.approx(dropped.coef_, abs=1e-6)


def test_the_warnings_weigh_people(compas):
    X, y, race = compas
    weight = np.where(np.abs(X).max(axis=1) < 1.5, 1000.0, 1.0)
    with pytest.warns(CollapseWarning, match="standard deviation") as seen:
        clf = FairLogisticRegression(eta=300).fit(X, y, weight, sensitive_features=race)
    s = clf.predict_proba(X)[:, 1]
    sd = np.sqrt(np.average((s - np.average(s, weights=weight)) ** 2, weights=weight))
    assert f"{sd:.1e}" in str(seen[0].message)
    assert f"{s.std():.1e}" != f"{sd:.1e}"
