"""scikit-learn's own checks of the repairs: without a penalty, and with groups derived from the rows."""

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk.postprocessing import BlindRepair, RepairedClassifier
from groups_from_rows import EXPECTED_WARNINGS, GroupsFromRows

pytestmark = EXPECTED_WARNINGS


class Blind(GroupsFromRows, BlindRepair):
    pass


def parity_of_bytes(X):
    """A group for any row, seen or not."""
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        return [i % 2 for i in range(len(rows))]
    return [sum(row.astype(np.float32).tobytes()) % 2 for row in rows]


class Aware(RepairedClassifier):
    """With the signatures that scikit-learn's checks know."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight, sensitive_features=self._groups(X))

    def predict(self, X):
        return super().predict(X, sensitive_features=self._groups(X))

    def predict_proba(self, X):
        return super().predict_proba(X, sensitive_features=self._groups(X))

    def decision_function(self, X):
        return super().decision_function(X, sensitive_features=self._groups(X))

    def score(self, X, y, sample_weight=None):
        decided = super().predict(X, sensitive_features=self._groups(X))
        return accuracy_score(y, decided, sample_weight=sample_weight)

    def _groups(self, X):
        return parity_of_bytes(X) if hasattr(X, "shape") else parity_of_bytes(np.asarray(X))


BASE = LogisticRegression(solver="newton-cholesky", tol=1e-10)


@parametrize_with_checks(
    [
        BlindRepair(LogisticRegression(), eta=0),
        Blind(BASE, eta=0.5, cv=2, tol=1e-9),
        Blind(BASE, eta=0.5, cv=2, calibration="sigmoid", coin=False, tol=1e-9),
        Aware(BASE, cv=2),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
