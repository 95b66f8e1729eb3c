"""Who is compared, in every other estimator, in searches and in loops of one's own."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

from attributes import HARD, KINDS, SOFT, below_and_over, gaps, penalty, people, quantiles, strata_of
from evenrisk import (
    BlindRepair,
    BudgetSearchCV,
    Comparison,
    FairKernelSVC,
    FairLinearSVC,
    FairLogisticRegression,
    GapDistance,
    GaussianDistance,
    HistogramDistance,
    threshold_profile,
)
from evenrisk._xp import sigmoid
from evenrisk.exceptions import BudgetWarning, SmallCellWarning
from evenrisk.model_selection import tradeoff_path
from optional import need

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::evenrisk.exceptions.{name}")
    for name in ("SmallCellWarning", "MajorityRateWarning", "CollapseWarning", "BudgetWarning")
]
kinds = pytest.mark.parametrize("name", KINDS)
parities = pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
P = people(700, seed=2, rare=14)
Q = people(1500, seed=2, rare=0)  # gaps of few rows are noise, which no penalty closes


def mlp():
    need("torch")
    from evenrisk.neural_network import FairMLPClassifier

    return FairMLPClassifier(hidden_layer_sizes=(8,), max_iter=40, random_state=0)


def lightgbm():
    need("lightgbm")
    from evenrisk.boosting import FairLGBMClassifier

    return FairLGBMClassifier(n_estimators=40, num_leaves=4, min_child_samples=5, n_jobs=1, verbose=-1)


def xgboost():
    need("xgboost")
    from evenrisk.boosting import FairXGBClassifier

    return FairXGBClassifier(n_estimators=40, max_depth=2, n_jobs=1, verbosity=0)


MODELS = {  # how to make one, and a strong η
    "logistic": (FairLogisticRegression, 20.0),
    "linear SVM": (lambda: FairLinearSVC(tol=1e-3), 20.0),
    "kernel SVM": (lambda: FairKernelSVC(n_components=30, tol=1e-3, random_state=0), 20.0),
    "network": (mlp, 20.0),
    "LightGBM": (lightgbm, 20.0),
    "XGBoost": (xgboost, 20.0),
    "repair": (lambda: BlindRepair(LogisticRegression(), random_state=0, cv=3), 10.0),
}
FEW = ("each and crossed", "mixed", "cuts", "excluded", "each against the rest", "probabilities")
every_model = pytest.mark.parametrize(
    ("model", "name"),
    # a repair learns to predict groups that are known
    [(model, name) for model in MODELS for name in FEW if not (model == "repair" and name in SOFT)],
)


def fitted(model, kind, p=P, weight=None, **settings):
    make, eta = MODELS[model]
    clf = make().set_params(**{"comparison": kind.comparison, "eta": eta} | settings)
    return clf.fit(p.X, p.y, sample_weight=weight, sensitive_features=kind.features)


def raw(clf, p=P):
    if hasattr(clf, "decision_function"):
        return clf.decision_function(p.X)
    s = clf.predict_proba(p.X)[:, 1]
    return np.log(s / (1 - s))


def worst(kind, g, p=P, parity="demographic_parity"):
    """The largest gap of all that is compared, from masks."""
    return max(each.max() for each in gaps(kind, parity, g, p.y, np.ones(len(g)), np.unique(g)))


# ---------------------------------------------------------------- every estimator


@every_model
@pytest.mark.filterwarnings("ignore:the solver stopped")  # a repair of many groups has many splines
def test_a_strong_penalty_closes_the_gap_of_what_is_compared(model, name):
    kind = KINDS[name](Q, np.ones(len(Q.y)))
    eta = (5 if name in SOFT else 1) * MODELS[model][1]  # soft groups are closer together
    plain, fair = (raw(fitted(model, kind, Q, eta=each), Q) for each in (0, eta))
    left, before = (
        penalty(kind, GapDistance(), g, Q.y, np.ones(len(g)), "demographic_parity") for g in (fair, plain)
    )
    assert left < 0.3 * before
    if "SVM" not in model:  # whose scores draw together
        assert worst(kind, fair, Q) < 0.8 * worst(kind, plain, Q)


@every_model
def test_the_comparison_has_the_cuts_that_were_chosen(model, name):
    kind = KINDS[name](P, np.ones(len(P.y)))
    clf = fitted(model, kind)
    assert clf.get_params()["comparison"] is kind.comparison
    if name == "mixed":
        cuts = quantiles(P.age, np.ones(len(P.y)), [0.2, 0.4, 0.6, 0.8]).tolist()
        assert clf.comparison_.ordered == {"age": cuts}
    # other rows are measured at the same cuts
    half = np.arange(len(P.y)) % 2 == 0
    few_rows = KINDS[name](P, np.ones(len(P.y))).features
    few_rows = (
        {title: column[half] for title, column in few_rows.items()}
        if isinstance(few_rows, dict)
        else few_rows[half]
    )
    profile = threshold_profile(None, raw(clf)[half], sensitive_features=few_rows, comparison=clf.comparison_)
    for name_of_cut, (found, _) in profile.gap_by_cut.items():
        assert found.tolist() == clf.comparison_.ordered[name_of_cut]


@pytest.mark.parametrize("model", ["linear SVM", "kernel SVM"])
@pytest.mark.parametrize("name", ["each and crossed", "cuts", "probabilities"])
def test_penalty_of_machines(model, name):
    kind = KINDS[name](P, P.weight)
    clf = fitted(model, kind, weight=P.weight, eta=2.0)
    expected = penalty(kind, GapDistance(), raw(clf), P.y, P.weight, "demographic_parity")
    assert clf.penalty_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("model", ["LightGBM", "XGBoost"])
@pytest.mark.parametrize("parity", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("distance", ["gap", "histogram"])
@kinds
def test_the_objective_of_trees_never_rises_under_any_kind(name, distance, parity, model):
    kind = KINDS[name](P, P.weight)
    for eta in (2.0, 100.0):
        clf = fitted(model, kind, weight=P.weight, parity=parity, distance=distance, eta=eta, n_estimators=60)
        curve = clf.objective_curve_
        assert np.diff(curve).max() <= 0
        assert curve[-1] < curve[0]
        g = raw(clf)
        instance = GapDistance() if distance == "gap" else HistogramDistance()
        expected = log_loss(P.y, sigmoid(g), sample_weight=P.weight)
        expected += eta * penalty(kind, instance, g, P.y, P.weight, parity)
        assert clf.objective_ == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["mixed", "excluded", "each", "probabilities"])
@pytest.mark.parametrize("model", ["LightGBM", "XGBoost"])
def test_evaluation_sets_are_compared_alike(model, name):
    train, test = P.take(np.arange(700) < 450), P.take(np.arange(700) >= 450)
    kind, held = (KINDS[name](p, np.ones(len(p.y))) for p in (train, test))
    make, _ = MODELS[model]
    clf = make().set_params(comparison=kind.comparison, eta=5.0, early_stopping_rounds=30)
    clf.fit(
        train.X,
        train.y,
        sensitive_features=kind.features,
        eval_set=[(test.X, test.y)],
        eval_sensitive_features=[held.features],
    )
    measured = threshold_profile(
        None, raw(clf, test), sensitive_features=held.features, comparison=clf.comparison_
    )
    record = clf.evals_result_["valid_0"]["objective"]
    if name == "mixed":  # its cuts are those of the training rows
        cuts = clf.comparison_.ordered["age"]
        held = held._replace(attributes=[*held.attributes[:-1], below_and_over(test.age, cuts)])
        assert measured.gap_by_cut["age"][0].tolist() == cuts
    g = raw(clf, test)
    expected = log_loss(test.y, sigmoid(g)) + 5 * penalty(
        held, GapDistance(), g, test.y, np.ones(len(g)), "demographic_parity"
    )
    assert min(record) == pytest.approx(expected, rel=1e-4)


def test_an_evaluation_set_with_other_groups_is_refused():
    train, test = P.take(np.arange(700) < 450), P.take(np.arange(700) >= 450)
    clf = lightgbm().set_params(comparison="rest", early_stopping_rounds=5)
    with pytest.raises(ValueError, match=r"got other ones: .*'e'.*"):
        clf.fit(
            train.X,
            train.y,
            sensitive_features=train.race,
            eval_set=[(test.X, test.y)],
            eval_sensitive_features=[np.where(test.race == "d", "e", test.race)],
        )


def test_a_network_fitted_piece_by_piece_knows_plain_groups_only():
    clf = mlp().set_params(comparison="each")
    with pytest.raises(ValueError, match="must have comparison='crossed', got 'each': one piece does not"):
        clf.partial_fit(P.X, P.y, classes=[0, 1], sensitive_features={"sex": P.sex, "race": P.race})


def test_a_repair_refuses_probabilities_and_says_why():
    with pytest.raises(ValueError, match="which learns to predict them, got probabilities"):
        BlindRepair(LogisticRegression(), comparison="probabilities").fit(
            P.X, P.y, sensitive_features=P.share
        )


def test_a_repair_has_coordinates_of_every_attribute():
    kind = KINDS["mixed"](P, np.ones(len(P.y)))
    clf = fitted("repair", kind)
    assert clf.places(P.X).shape[1] == 1 + 1 + 3 + 1  # risk, sex, race, one for age


# ---------------------------------------------------------------- torch


def loop_loss(kind, distance, parity, **settings):
    need("torch")
    from evenrisk.nn import ParityLoss

    return ParityLoss.for_groups(
        kind.features,
        kind.comparison,
        sample_weight=P.weight,
        distance=distance,
        parity=parity,
        **settings,
    )


@kinds
@parities
@pytest.mark.parametrize("distance", [GapDistance(), HistogramDistance(), GaussianDistance()], ids=str)
def test_torch_has_the_value_of_two_groups_at_a_time(name, parity, distance):
    torch = need("torch")
    kind = KINDS[name](P, P.weight)
    loss, codes = loop_loss(kind, distance, parity, unbiased=False)
    g = P.score / 3
    scores = torch.tensor(g, requires_grad=True)
    weight = torch.from_numpy(P.weight)
    value = loss(scores, codes, torch.from_numpy(P.y), weight)
    assert value.item() == pytest.approx(penalty(kind, distance, g, P.y, P.weight, parity), rel=1e-9)
    value.backward()
    direction = np.random.default_rng(0).standard_normal(len(g))
    ends = [penalty(kind, distance, g + h * direction, P.y, P.weight, parity) for h in (-1e-5, 1e-5)]
    assert scores.grad.numpy() @ direction == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("name", HARD)
def test_the_unbiased_form_of_batches_has_the_value_of_all_rows(name):
    torch = need("torch")
    kind = KINDS[name](P, P.weight)
    loss, codes = loop_loss(kind, GapDistance(), "demographic_parity")
    assert loss.unbiased
    g = torch.from_numpy(P.score / 3)
    whole = loss(g, codes).item()
    rng = np.random.default_rng(0)
    # halves, so that every class is in nearly every batch
    some = [rng.permutation(700)[:350] for _ in range(400)]
    found = [loss(g[rows], codes[rows]).item() for rows in some]
    assert np.mean(found) == pytest.approx(whole, abs=4.5 * np.std(found) / 20 + 2e-3)


def test_probabilities_have_no_unbiased_form_and_no_memory():
    torch = need("torch")
    kind = KINDS["probabilities"](P, P.weight)
    loss, codes = loop_loss(kind, GapDistance(), "demographic_parity")
    assert not loss.unbiased
    for setting, match in (({"unbiased": True}, "a row is in both"), ({"memory": 9}, "a row is in every")):
        with pytest.raises(ValueError, match=match):
            loop_loss(kind, GapDistance(), "demographic_parity", **setting)
    g = torch.zeros(700)
    with pytest.raises(ValueError, match=r"must have shape \(700, 3\), a probability of each group"):
        loss(g, torch.zeros(700, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"must be probabilities from 0 to 1, got 1\.5"):
        loss(g, torch.full_like(codes, 1.5))


def test_a_memory_is_refused_where_it_would_change_what_a_union_is_made_of():
    need("torch")
    unions = (KINDS["ordered"], KINDS["rest"], KINDS["each"])
    for kind in (make(P, P.weight) for make in unions):
        with pytest.raises(ValueError, match="`memory` must be 0 where unions of groups are compared, got 9"):
            loop_loss(kind, GapDistance(), "demographic_parity", memory=9)
    kind = KINDS["reference"](P, P.weight)  # compares groups as they are
    assert loop_loss(kind, GapDistance(), "demographic_parity", memory=9)[0].memory is not None
    with pytest.raises(ValueError, match="`memory` must be 0"):
        mlp().set_params(comparison="rest", eta=1.0, memory=9).fit(P.X, P.y, sensitive_features=P.race)


# ---------------------------------------------------------------- searches


@pytest.mark.parametrize("name", ["each and crossed", "mixed", "excluded", "rest", "probabilities"])
def test_a_budget_is_for_the_worst_of_all_that_is_compared(name):
    kind = KINDS[name](Q, np.ones(len(Q.y)))
    budget = 0.1 if name in SOFT else 0.25
    search = BudgetSearchCV(FairLogisticRegression(comparison=kind.comparison), budget, random_state=0, cv=3)
    search.fit(Q.X, Q.y, sensitive_features=kind.features)
    assert 0 < search.max_gap_ <= budget
    best = search.best_estimator_
    assert best.eta == search.eta_ > 0
    weaker = clone(best).set_params(eta=0).fit(Q.X, Q.y, sensitive_features=kind.features)
    assert worst(kind, raw(best, Q), Q) < worst(kind, raw(weaker, Q), Q)


def test_a_budget_may_be_for_others_than_the_penalty():
    both = {"sex": P.sex, "race": np.where(P.race == "d", "c", P.race)}
    search = BudgetSearchCV(
        FairLogisticRegression(comparison="each"), 0.35, comparison="crossed", random_state=0, cv=3
    )
    search.fit(P.X, P.y, sensitive_features=both)
    assert search.best_estimator_.comparison_ == Comparison(columns="each")
    alone = BudgetSearchCV(FairLogisticRegression(comparison="each"), 0.35, random_state=0, cv=3)
    alone.fit(P.X, P.y, sensitive_features=both)
    assert alone.eta_ < search.eta_  # crossed groups are further apart


def test_every_fold_is_cut_where_all_rows_are():
    age = pd.DataFrame({"age": P.age})
    table = tradeoff_path(
        FairLogisticRegression(comparison="ordered"), P.X, P.y, age, [0, 20], cv=3, random_state=0
    )
    assert table["max_gap"].iloc[1] < table["max_gap"].iloc[0]
    search = BudgetSearchCV(FairLogisticRegression(comparison="ordered"), 0.3, random_state=0, cv=3)
    search.fit(P.X, P.y, sensitive_features=age)
    every = FairLogisticRegression(comparison="ordered").fit(P.X, P.y, sensitive_features=age)
    assert search.best_estimator_.comparison_ == every.comparison_


# ---------------------------------------------------------------- probabilities


@pytest.mark.parametrize("model", ["logistic", "LightGBM", "network"])
def test_trained_with_probabilities_and_measured_with_the_truth_the_gap_falls(model):
    rng = np.random.default_rng(5)
    n = 4000
    p = people(n, seed=5)
    sex = (p.sex == "m").astype(float)
    hint = sex + 0.8 * rng.standard_normal(n)  # what the probability is guessed from
    proxy = LogisticRegression()
    male = cross_val_predict(proxy, np.column_stack([p.X, hint]), p.sex == "m", method="predict_proba")[:, 1]
    assert 0.6 < ((male > 0.5) == (p.sex == "m")).mean() < 0.95
    table = pd.DataFrame({"f": 1 - male, "m": male})
    kind = KINDS["probabilities"](p, np.ones(n))._replace(features=table)
    truth = {
        eta: threshold_profile(
            None, raw(fitted(model, kind, p, eta=eta), p), sensitive_features=p.sex
        ).max_gap
        for eta in (0.0, 30.0)
    }
    assert truth[30.0] < 0.7 * truth[0.0]


def test_strata_helper_has_all_rows():
    """The witness's strata are those of the rules."""
    assert sum(rows.sum() for rows in strata_of("equalized_odds", P.y)) == len(P.y)
    assert replace(P).score is P.score


# ---------------------------------------------------------------- what an attack found


def test_every_fold_of_a_search_leaves_out_whom_all_rows_leave_out():
    """A group of 66 rows is large enough among all rows, and not in two thirds of them."""
    rng = np.random.default_rng(0)
    n = 600
    code = rng.choice(3, n, p=[0.6, 0.29, 0.11])
    code[:66], code[66:] = 2, np.minimum(code[66:], 1)
    X = rng.standard_normal((n, 3)) + code[:, None] * [0.5, 0.2, 0.1]
    y = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    race = np.array(list("abd"))[code]
    order = rng.permutation(n)
    X, y, race = X[order], y[order], race[order]
    found = {}
    for least in (0, 60):
        model = FairLogisticRegression(comparison=Comparison(min_rows=least))
        search = BudgetSearchCV(model, 0.25, random_state=0, cv=3)
        found[least] = search.fit(X, y, sensitive_features=race)
    assert found[60].eta_ == found[0].eta_
    assert found[60].max_gap_ == found[0].max_gap_
    big = BudgetSearchCV(
        FairLogisticRegression(comparison=Comparison(min_rows=100)), 0.25, random_state=0, cv=3
    ).fit(X, y, sensitive_features=race)
    assert big.comparison_.left_out == big.best_estimator_.comparison_.left_out == ("d",)


def test_a_search_says_between_whom_its_gap_is():
    both = {"sex": Q.sex, "race": Q.race}
    search = BudgetSearchCV(FairLogisticRegression(comparison="each"), 0.3, random_state=0, cv=3)
    search.fit(Q.X, Q.y, sensitive_features=both)
    assert re.fullmatch(r"threshold 0\.\d+, (sex|race) \w against (sex|race) \w", search.worst_)
    assert search.comparison_ == search.best_estimator_.comparison_
    few = np.where(np.arange(len(Q.y)) < 12, "few", Q.race)
    with pytest.warns(BudgetWarning, match=r"; \w+ against \w+, which Comparison\(min_share=...\) can leave"):
        BudgetSearchCV(FairLogisticRegression(), 0.01, eta_range=(1, 2), cv=2, random_state=0).fit(
            Q.X, Q.y, sensitive_features=few
        )


def test_min_rows_holds_for_every_outcome_that_a_rule_looks_at():
    young = (P.age < 30) & (P.y == 1)
    age = np.where(young, 30.0, P.age)  # nobody below 30 has a positive outcome
    who = Comparison(ordered={"age": [25, 29, 40, 50]}, min_rows=10)
    for parity, cuts in (("demographic_parity", [25, 29, 40, 50]), ("equalized_odds", [40, 50])):
        clf = FairLogisticRegression(parity, comparison=who).fit(P.X, P.y, sensitive_features={"age": age})
        assert clf.comparison_.ordered == {"age": cuts}
        profile = threshold_profile(
            P.y, raw(clf), sensitive_features={"age": age}, comparison=who, parity=parity
        )
        assert profile.gap_by_cut["age"][0].tolist() == cuts
    with pytest.raises(ValueError, match="must leave rows in every compared cell, got none in"):
        FairLogisticRegression("equalized_odds", comparison=replace(who, min_rows=0)).fit(
            P.X, P.y, sensitive_features={"age": age}
        )
    with pytest.raises(ValueError, match="must have a cut with at least 200 rows of every outcome in 'age'"):
        FairLogisticRegression("equalized_odds", comparison=replace(who, min_rows=200)).fit(
            P.X, P.y, sensitive_features={"age": age}
        )
    race = np.where((P.race == "c") & (P.y == 1), "b", P.race)  # as few as there can be
    who = Comparison(min_rows=10)
    clf = FairLogisticRegression("equal_opportunity", comparison=who).fit(P.X, P.y, sensitive_features=race)
    assert set(clf.comparison_.left_out) == {"c", "d"}
    profile = threshold_profile(
        P.y, raw(clf), sensitive_features=race, comparison=clf.comparison_, parity="equal_opportunity"
    )
    assert profile.groups == ("a", "b")


def test_an_evaluation_set_with_its_columns_in_another_order_is_refused():
    clf = lightgbm().set_params(comparison="each", early_stopping_rounds=5)
    swapped = {"race": P.race, "sex": P.sex}
    with pytest.raises(ValueError, match=r"in the same order of columns, got other ones: .*race a"):
        clf.fit(
            P.X,
            P.y,
            sensitive_features={"sex": P.sex, "race": P.race},
            eval_set=[(P.X, P.y)],
            eval_sensitive_features=[swapped],
        )


def test_an_evaluation_set_may_have_few_of_a_group():
    train, test = P.take(np.arange(700) < 450), P.take(np.arange(700) >= 600)
    who = Comparison(min_rows=40)
    clf = lightgbm().set_params(comparison=who, early_stopping_rounds=5)
    clf.fit(
        train.X,
        train.y,
        sensitive_features=train.race,
        eval_set=[(test.X, test.y)],
        eval_sensitive_features=[test.race],
    )
    assert clf.comparison_.left_out == ("d",)


@pytest.mark.parametrize("comparison", ["crossed", "rest", "each and crossed"])
def test_groups_whose_rows_all_weigh_0_are_not_there(comparison):
    weight = np.where((P.sex == "f") & (P.race == "a"), 0.0, 1.0)
    features = {"sex": P.sex, "race": P.race}
    data = {"sensitive_features": features, "comparison": comparison, "sample_weight": weight}
    profile = threshold_profile(None, P.score, **data)
    kept = weight > 0
    some = {name: column[kept] for name, column in features.items()}
    expected = threshold_profile(None, P.score[kept], sensitive_features=some, comparison=comparison)
    assert profile.max_gap == pytest.approx(expected.max_gap)
    assert profile.groups == expected.groups
    clf = FairLogisticRegression(comparison=comparison).fit(
        P.X, P.y, sensitive_features=features, sample_weight=weight
    )
    assert not any("f × a" in str(label) or label == ("f", "a") for label in clf.groups_)


def test_names_that_would_be_mistaken_for_one_another_are_refused():
    three = np.array(["b", "all but b", "c"])[np.arange(700) % 3]
    with pytest.raises(ValueError, match="different names, got 2 groups that are written all but b"):
        threshold_profile(None, P.score, sensitive_features=three, comparison="rest")
    twice = {1: P.sex, "1": P.race}
    with pytest.raises(ValueError, match="must have columns of different names, got 2 that are written '1'"):
        threshold_profile(None, P.score, sensitive_features=twice, comparison="each")
    frame = pd.DataFrame(np.column_stack([P.sex, P.race]), columns=["a", "a"])
    with pytest.raises(ValueError, match="must have columns of different names, got 2 that are written 'a'"):
        threshold_profile(None, P.score, sensitive_features=frame)
    features = {"sex": P.sex, "race": P.race, "sex × race": P.age}
    who = Comparison(columns="each and crossed", ordered="sex × race")
    with pytest.raises(
        ValueError, match="attributes of different names, got 2 attributes that are written sex"
    ):
        threshold_profile(None, P.score, sensitive_features=features, comparison=who)
    named = {"a × b": P.sex, "b": P.sex}  # a column's own name
    profile = threshold_profile(None, P.score, sensitive_features=named, comparison="each")
    assert profile.groups == ("a × b f", "a × b m", "b f", "b m")


def test_many_numbers_with_few_rows_look_like_a_measurement():
    with pytest.warns(SmallCellWarning, match="can be compared at cuts: comparison='ordered'"):
        threshold_profile(None, P.score, sensitive_features=P.age)
    with pytest.warns(SmallCellWarning) as found:
        threshold_profile(None, P.score, sensitive_features=P.race)
    assert "cuts" not in str(found[0].message)


def test_objectives_and_losses_of_ones_own_take_columns_as_estimators_do():
    need("lightgbm")
    need("torch")
    from evenrisk.boosting import ParityObjective
    from evenrisk.nn import ParityLoss

    features = {"sex": P.sex, "age": P.age}
    who = Comparison(columns="each", ordered={"age": [30, 50]})
    y, g = P.y.astype(float), P.score / 3
    found = [
        ParityObjective(given, comparison=who, eta=2)(y, g)[0] for given in (features, pd.DataFrame(features))
    ]
    assert found[0].tobytes() == found[1].tobytes()
    codes = [ParityLoss.for_groups(given, who)[1] for given in (features, pd.DataFrame(features))]
    assert codes[0].tolist() == codes[1].tolist()
    for bad in (None, 3, {"a": 3}, {}):
        for door in (ParityObjective, ParityLoss.for_groups):
            with pytest.raises(ValueError, match="`sensitive_features` must"):
                door(bad)


def test_two_hundred_groups_is_the_most_whatever_is_compared():
    crossed = {"one": np.arange(700) % 25, "other": np.arange(700) // 27}
    with pytest.raises(ValueError, match="must have at most 200 groups, got 650 distinct values"):
        threshold_profile(None, P.score, sensitive_features=crossed, comparison=Comparison(unknown="exclude"))


MISTAKES = {
    "a reference that is unknown": ({"reference": pd.NA}, "`reference` must be a group, got <NA>"),
    "a reference and the rest": (
        {"reference": "a", "against": "rest"},
        "`reference` must be None with against='rest', got 'a'",
    ),
    "cuts in cuts": ({"ordered": {"race": [[30], [40, 50]]}}, "`ordered` must be a finite number, got"),
    "columns in columns": ({"ordered": [["race"]]}, "`ordered` must name columns, or map them to their cuts"),
    "one name left out": ({"left_out": "a"}, "`left_out` must be a list of names of groups, got 'a'"),
    "a reference that is left out": (
        {"left_out": ["a"], "reference": "a"},
        "`reference` must not be left out, got 'a'",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_a_comparison_are_named(case):
    settings, message = MISTAKES[case]
    features = {"race": P.age if "cuts" in case else P.race}

    def measure():
        threshold_profile(None, P.score, sensitive_features=features, comparison=Comparison(**settings))

    with pytest.raises(ValueError, match=re.escape(message)):
        measure()


def test_arrays_in_a_comparison_are_as_good_as_lists():
    for given in (np.array([30.0, 40.0]), pd.Series([30.0, 40.0]), {40.0, 30.0}, (30.0, 40.0)):
        who = Comparison(ordered={"age": given})
        assert list(who.ordered["age"]) == [30.0, 40.0]
        assert hash(who) == hash(Comparison(ordered={"age": [30.0, 40.0]}))
    assert Comparison(ordered={"age": np.array([30, 40])}) == Comparison(ordered={"age": [30, 40]})
    assert Comparison(reference=np.array(["a", "b"])) == Comparison(reference=("a", "b"))


def test_what_is_no_number_in_an_ordered_column_is_named():
    age = P.age.astype(object)
    for bad, message in (("2", "got '2'"), (10**400, "got an infinite one")):
        age[5] = bad
        with pytest.raises(ValueError, match=message):
            threshold_profile(None, P.score, sensitive_features={"age": age}, comparison="ordered")
    share = P.share.astype(object)
    share[3, 1] = "0.5"
    with pytest.raises(ValueError, match=r"must have probabilities in 'column 1', got '0\.5'"):
        threshold_profile(None, P.score, sensitive_features=share, comparison="probabilities")


def test_groups_can_be_left_out_by_name():
    who = Comparison(left_out=["race d", "no such group"], columns="each")
    features = {"sex": P.sex, "race": P.race}
    profile = threshold_profile(None, P.score, sensitive_features=features, comparison=who)
    assert profile.left_out == {"race d": np.count_nonzero(P.race == "d")}
    small = threshold_profile(
        None, P.score, sensitive_features=features, comparison=Comparison(min_rows=20, columns="each")
    )
    assert profile.max_gap == small.max_gap
    soft = Comparison(probabilities=True, left_out=["c"])
    table = dict(zip("abc", P.share.T, strict=True))
    assert threshold_profile(None, P.score, sensitive_features=table, comparison=soft).groups == ("a", "b")


def test_certificates_and_bands_name_the_worst_comparison():
    profile = threshold_profile(
        P.y, P.score, sensitive_features={"age": P.age}, comparison="ordered", parity="equalized_odds"
    )
    first, second = profile.worst_groups
    expected = (
        f"threshold {profile.worst_threshold:.6g}, among {profile.worst_stratum}, {first} against {second}"
    )
    assert profile.worst == profile.certify(0.5).worst == expected
    band = profile.band(n_resamples=99, random_state=0)
    assert set(band.worst_pair) == {first, second}
    assert repr(band).endswith(f"of {' against '.join(band.worst_pair)})")
    plain = threshold_profile(None, P.score, sensitive_features=P.sex)
    assert " of " not in repr(plain.band(n_resamples=99, random_state=0))
