"""Inside scikit-learn: pipelines, searches, thresholds, metadata routing on and off."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenrisk import BudgetSearchCV, FairLinearSVC, FairLogisticRegression, GapDistance, HistogramDistance
from evenrisk.baselines import ZafarDP
from evenrisk.datasets import load_compas
from evenrisk.exceptions import MissingSensitiveFeatures
from evenrisk.metrics import max_demographic_parity_difference


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    return load_compas()


def by_hand(data, **settings):
    X, y, race = data
    scaler = StandardScaler().fit(X)
    return FairLogisticRegression(**settings).fit(scaler.transform(X), y, sensitive_features=race)


def test_pipeline_with_routing_passes_the_groups_without_a_request(data, routing):
    X, y, race = data
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(eta=3)).fit(X, y, sensitive_features=race)
    assert np.array_equal(pipe[-1].coef_, by_hand(data, eta=3).coef_)


def test_pipeline_without_routing_takes_the_step_form(data):
    X, y, race = data
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(eta=3))
    pipe.fit(X, y, fairlogisticregression__sensitive_features=race)
    assert np.array_equal(pipe[-1].coef_, by_hand(data, eta=3).coef_)


def test_forgetting_the_groups_is_never_silent(data, routing):
    X, y, _ = data
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression())
    with pytest.raises(MissingSensitiveFeatures, match="required when eta > 0"):
        pipe.fit(X, y)
    with pytest.raises(MissingSensitiveFeatures, match="required when eta > 0"):
        cross_validate(pipe, X, y, error_score="raise")


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
def test_grid_search_with_routing(data, routing):
    X, y, race = data
    scorer = make_scorer(
        max_demographic_parity_difference, response_method="predict_proba", greater_is_better=False
    ).set_score_request(sensitive_features=True)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression())
    grid = {
        "fairlogisticregression__eta": [0, 3],
        "fairlogisticregression__distance": ["gap", HistogramDistance(n_bins=10)],
    }
    search = GridSearchCV(pipe, grid, scoring=scorer, cv=3, error_score="raise")
    search.fit(X, y, sensitive_features=race)
    assert search.best_params_["fairlogisticregression__eta"] == 3
    assert -0.15 < search.best_score_ < 0


GRIDS = {
    "scale": (GapDistance(n_thresholds=100), "scale", ["score", "rank"]),
    "n_bins": (HistogramDistance(), "n_bins", [10, 20]),
}


@pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning")
@pytest.mark.parametrize("name", GRIDS)
def test_settings_of_a_distance_in_a_grid(data, routing, name):
    X, y, race = data
    distance, setting, values = GRIDS[name]
    before = repr(distance)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(distance=distance, eta=0.5))
    grid = {f"fairlogisticregression__distance__{setting}": values}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, y, sensitive_features=race)
    best = search.best_estimator_[-1]
    assert repr(distance) == before
    assert getattr(best.distance, setting) == next(iter(search.best_params_.values()))
    for value, score in zip(values, search.cv_results_["split0_test_score"], strict=True):
        by_name = replace(distance, **{setting: value})
        pipe.set_params(fairlogisticregression__distance=by_name)
        params = {"sensitive_features": race}
        again = cross_validate(pipe, X, y, cv=2, params=params, error_score="raise")
        assert again["test_score"][0] == score


def test_settings_of_a_distance_are_the_models_own():
    distance = GapDistance()
    one, other = FairLogisticRegression(distance=distance), FairLinearSVC(distance=distance)
    one.set_params(distance__scale="rank", eta=3)
    assert one.distance == GapDistance(scale="rank")
    assert one.eta == 3
    assert other.distance is distance
    assert distance == GapDistance()
    one.set_params(distance__n_bins=5, distance=HistogramDistance())
    assert one.distance == HistogramDistance(n_bins=5)
    assert one.get_params()["distance__n_bins"] == 5
    search = BudgetSearchCV(one).set_params(estimator__distance__n_bins=7)
    assert search.estimator.distance.n_bins == 7
    with pytest.raises(
        ValueError, match=r"`distance__scale` must be .* distance=GapDistance\(\), got .*'gap'"
    ):
        FairLogisticRegression().set_params(distance__scale="rank")
    with pytest.raises(ValueError, match="Invalid parameter 'distance'"):
        ZafarDP().set_params(distance__scale="rank")


def test_grid_search_without_routing(data):
    X, y, race = data
    search = GridSearchCV(FairLogisticRegression(), {"eta": [0, 1]}, cv=3, error_score="raise")
    search.fit(X, y, sensitive_features=race)
    assert search.best_params_["eta"] in (0, 1)


def test_cross_validate_and_predict_slice_the_groups(data, routing):
    X, y, race = data
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(eta=3))
    params = {"sensitive_features": race}
    result = cross_validate(pipe, X, y, cv=cv, params=params, return_estimator=True, error_score="raise")
    scores = cross_val_predict(pipe, X, y, cv=cv, params=params, method="predict_proba")[:, 1]
    for (train, test), fitted in zip(cv.split(X, y), result["estimator"], strict=True):
        expected = make_pipeline(StandardScaler(), FairLogisticRegression(eta=3)).fit(
            X.iloc[train], y.iloc[train], sensitive_features=race.iloc[train]
        )
        assert np.array_equal(fitted[-1].coef_, expected[-1].coef_)
        assert scores[test] == pytest.approx(expected.predict_proba(X.iloc[test])[:, 1], rel=1e-12)


def test_thresholds_move_around_it(data, routing):
    X, y, race = data
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(eta=3))
    tuned = TunedThresholdClassifierCV(pipe, scoring="balanced_accuracy", cv=3, random_state=0)
    tuned.fit(X, y, sensitive_features=race)
    assert 0.3 < tuned.best_threshold_ < 0.7
    fixed = FixedThresholdClassifier(pipe, threshold=0.6, response_method="predict_proba")
    fixed.fit(X, y, sensitive_features=race)
    fitted = pipe.fit(X, y, sensitive_features=race)
    assert np.array_equal(fixed.predict(X), (fitted.predict_proba(X)[:, 1] >= 0.6).astype(int))


def test_the_request_can_be_taken_back(data, routing):
    X, y, race = data
    clf = FairLogisticRegression(eta=0).set_fit_request(sensitive_features=False, sample_weight=True)
    pipe = make_pipeline(StandardScaler(), clf)
    with pytest.raises(TypeError, match="sensitive_features"):
        pipe.fit(X, y, sensitive_features=race)
    weight = np.where(race == "Caucasian", 2.0, 1.0)
    pipe.set_params(standardscaler=StandardScaler().set_fit_request(sample_weight=False))
    pipe.fit(X, y, sample_weight=weight)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    reference.fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    assert pipe[-1].coef_ == pytest.approx(reference.coef_, abs=1e-4)
