"""What every rival is to the benchmark: a name, its settings from weak to strong, and a fit along them.

Conventions
-----------
X (n, d) float64 and standardised, y 0/1, groups 0/1, parity "demographic_parity" or "equalized_odds". A score
takes (X, groups) and returns a risk in [0, 1] for every row; only that of an `aware` rival uses groups.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

Score = Callable[[np.ndarray, Any], np.ndarray]

PARITIES = ("demographic_parity", "equalized_odds")
TREE_SIZES = ((8, 50), (8, 200), (8, 400), (31, 100))  # leaves and rounds of a repaired LightGBM
ALPHA = 1e-4  # ridge of every linear model here, α/2·‖w‖² beside the mean log loss


@dataclass(frozen=True)
class Rival:
    """A way to a fair score; `settings` has no entry for a parity that it does not serve."""

    name: str
    path: Callable[..., list[Score]]  # (X, y, groups, settings, *, parity, seed): a score for each setting
    settings: Mapping[str, Sequence[Any]]
    aware: bool = False  # needs the attribute at prediction
    randomised: bool = False  # the score is the chance of a yes, not a risk to be cut at 0.5
    most_rows: float = np.inf  # that it can be fitted to in minutes

    def fit(self, X, y, groups, setting, *, parity, seed) -> Score:
        """Return the score of a fit at one setting."""
        return self.path(X, y, groups, (setting,), parity=parity, seed=seed)[0]


def plain_model(n: int) -> LogisticRegression:
    """Return logistic regression with `ALPHA` on n rows, solved to the end."""
    return LogisticRegression(C=1 / (ALPHA * n), max_iter=2000, tol=1e-6)


def plain_trees(leaves: int, rounds: int, seed: int, **settings):
    """Return a LightGBM that is not fitted; one thread."""
    from lightgbm import LGBMClassifier

    size = {"num_leaves": leaves, "n_estimators": rounds}
    settings = {"colsample_bytree": 0.5, "n_jobs": 1, "verbosity": -1} | settings
    return LGBMClassifier(**size, **settings, random_state=seed)


def risk_of(model) -> Score:
    """Return `predict_proba` of a model as a score."""
    return lambda X, groups: model.predict_proba(X)[:, 1]
