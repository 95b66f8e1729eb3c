"""scikit-learn's own checks, in full: without a penalty, and with one on groups derived from the rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk import BudgetSearchCV, FairKernelSVC, FairLinearSVC, FairLogisticRegression, GapDistance

pytestmark = [
    # the checks' data sets have a dozen rows, are separable, or random
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.ReversedRankingWarning"),
]


def derived_groups(X, y, sample_weight):
    """Alternate two groups over the distinct rows of each label that carry weight.

    A function of the rows alone: repeating a row, weighting it or dropping rows of weight 0 leaves every
    other row's group as it is. None where the input is not fit to be looked at; fit then says why.
    """
    dense = np.asarray(X.toarray() if sparse.issparse(X) else X)
    labels = None if y is None else np.asarray(y).ravel()
    if dense.ndim != 2 or labels is None or len(labels) != len(dense):
        return ["a"] * len(dense)
    weight = np.ones(len(dense)) if sample_weight is None else np.asarray(sample_weight)
    keys = [(str(label), row.tobytes()) for label, row in zip(labels, dense, strict=True)]
    if weight.shape != (len(keys),):
        return ["a"] * len(dense)
    group = {}
    for label in {key[0] for key in keys}:
        present = {key for key, w in zip(keys, weight, strict=True) if w > 0 and key[0] == label}
        group |= {key: i % 2 for i, key in enumerate(sorted(present))}
    return [group.get(key, 0) for key in keys]


class GroupsFromRows:
    """With the penalty on, and the signature that scikit-learn's checks know."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight, sensitive_features=derived_groups(X, y, sample_weight))


class Logistic(GroupsFromRows, FairLogisticRegression):
    pass


class Linear(GroupsFromRows, FairLinearSVC):
    pass


class Kernel(GroupsFromRows, FairKernelSVC):
    pass


@parametrize_with_checks(
    [
        FairLogisticRegression(eta=0),
        FairLogisticRegression(eta=0, alpha=0.01, fit_intercept=False),
        Logistic(),
        Logistic(distance=GapDistance(scale="rank")),
        Logistic(distance="histogram", eta=0.5),
        Logistic(distance="gaussian", eta=0.5),
        Logistic("equal_opportunity", distance="gaussian", eta=0.1, alpha=0.1),
        Logistic("equal_opportunity", distance="histogram"),
        Logistic("equal_opportunity"),
        Logistic(distance=GapDistance(power=8)),
        Logistic(solver="lbfgs"),
        Logistic(calibration="sigmoid"),
        Logistic(calibration="isotonic"),
        BudgetSearchCV(FairLogisticRegression(), max_gap=1),
        BudgetSearchCV(FairLinearSVC(calibration="isotonic"), max_gap=1),
        FairLinearSVC(eta=0),
        FairLinearSVC(eta=0, alpha=0.01, loss="squared_hinge", fit_intercept=False),
        Linear(),
        Linear("equal_opportunity", distance="histogram", eta=0.5),
        Linear(distance="gaussian", eta=0.1, alpha=0.1),
        Linear("equal_opportunity", distance=GapDistance(scale="rank"), loss="squared_hinge", alpha=0.01),
        Linear(calibration="sigmoid", alpha=0.01),
        Linear(calibration="isotonic", fit_intercept=False),
        FairKernelSVC(eta=0),
        FairKernelSVC(eta=0, kernel="poly", n_components=8, random_state=0, loss="squared_hinge"),
        Kernel(),
        Kernel("equal_opportunity", distance="histogram", eta=0.5, kernel="linear"),
        Kernel(distance="gaussian", eta=0.1, alpha=0.1, n_components=15, random_state=0),
        Kernel(calibration="sigmoid"),
        Kernel(calibration="isotonic", n_components=15, random_state=0),
    ]
)
def test_scikit_learns_checks(estimator, check):
    if check.func.__name__ == "check_class_weight_classifiers":
        # It wants nearly all predictions to be of the label with all the weight. A calibrated 0.5 is a risk
        # of people, whatever a mistake costs, and without an intercept scikit-learn's own LogisticRegression
        # fails: the same model is checked with calibration off and the intercept on.
        estimator = clone(estimator).set_params(calibration=None, fit_intercept=True)
    check(estimator)
