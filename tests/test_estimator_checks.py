"""scikit-learn's own checks, in full: without a penalty, and with one on groups derived from the rows."""

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk import BudgetSearchCV, FairKernelSVC, FairLinearSVC, FairLogisticRegression, GapDistance
from groups_from_rows import EXPECTED_WARNINGS, GroupsFromRows

pytestmark = EXPECTED_WARNINGS


class Logistic(GroupsFromRows, FairLogisticRegression):
    pass


class Linear(GroupsFromRows, FairLinearSVC):
    pass


class Kernel(GroupsFromRows, FairKernelSVC):
    pass


# Some have a small eta, so that the path to it is short.
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
        Linear("equal_opportunity", distance="histogram", eta=0.03),
        Linear(distance="gaussian", eta=0.1, alpha=0.1),
        Linear("equal_opportunity", distance=GapDistance(scale="rank"), loss="squared_hinge", alpha=0.01),
        Linear(calibration="sigmoid", eta=0.03, alpha=0.01),
        Linear(calibration="isotonic", eta=0.03, fit_intercept=False),
        FairKernelSVC(eta=0),
        FairKernelSVC(eta=0, kernel="poly", n_components=8, random_state=0, loss="squared_hinge"),
        Kernel(),
        Kernel("equal_opportunity", distance="histogram", eta=0.03, kernel="linear"),
        Kernel(distance="gaussian", eta=0.1, alpha=0.1, n_components=15, random_state=0),
        # six fits each
        Kernel(calibration="sigmoid", eta=0.01, alpha=0.1, tol=1e-3),
        Kernel(calibration="isotonic", eta=0.01, alpha=0.1, n_components=8, random_state=0, tol=1e-3),
    ]
)
def test_scikit_learns_checks(estimator, check):
    if check.func.__name__ == "check_class_weight_classifiers":
        # It wants nearly all predictions to be of the label with all the weight. A calibrated 0.5 is a risk
        # of people, whatever a mistake costs, and without an intercept scikit-learn's own LogisticRegression
        # fails: the same model is checked with calibration off and the intercept on.
        estimator = clone(estimator).set_params(calibration=None, fit_intercept=True)
    check(estimator)
