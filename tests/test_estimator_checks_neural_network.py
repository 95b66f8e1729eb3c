"""scikit-learn's own checks, in full, for the network: all rows at once, in float64, nothing held out."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk.neural_network import FairMLPClassifier
from groups_from_rows import EXPECTED_WARNINGS, GroupsFromRows, derived_groups
from optional import need

need("torch")

# ten iterations from three hidden units end while the objective falls
pytestmark = [*EXPECTED_WARNINGS, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

SMALL = {"hidden_layer_sizes": (3,), "max_iter": 10}


class Whole(GroupsFromRows, FairMLPClassifier):
    """With the penalty on."""


class Network(Whole):
    """With the penalty on, piece by piece too."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        groups = derived_groups(X, y, sample_weight)
        return super().partial_fit(X, y, classes, sample_weight, sensitive_features=groups, groups=[0, 1])


@parametrize_with_checks(
    [
        FairMLPClassifier(eta=0, **SMALL),
        Network(**SMALL),
        Network("equal_opportunity", distance="histogram", eta=0.5, activation="tanh", **SMALL),
        # six fits each: up to this eta a path has no point between
        Whole(calibration="sigmoid", solver="lbfgs", hidden_layer_sizes=(), max_iter=3, eta=0.01),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
