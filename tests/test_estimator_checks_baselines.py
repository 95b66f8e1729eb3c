"""scikit-learn's own checks, in full, for the constrained baselines: without a bound, and with one."""

import numpy as np
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenrisk.baselines import ZafarDP, ZafarEO
from groups_from_rows import EXPECTED_WARNINGS, derived_groups
from optional import need

pytestmark = EXPECTED_WARNINGS


class DPGroupsFromRows(ZafarDP):
    """With the bound on, and the signature that scikit-learn's checks know."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight, sensitive_features=derived_groups(X, y, sample_weight))


class EOGroupsFromRows(ZafarEO):
    """With the bound on, and the signature that scikit-learn's checks know."""

    def fit(self, X, y, sample_weight=None):
        group = derived_groups(X, y, sample_weight)
        X, y, sample_weight, group = in_both_groups(X, y, sample_weight, group)
        return super().fit(X, y, sample_weight, sensitive_features=group)


def in_both_groups(X, y, sample_weight, group):
    """Let the rows of a label that has one group only (one distinct row) be there again, in the other."""
    label, group = np.asarray(y).ravel(), np.asarray(group)
    weight = np.ones(len(group)) if sample_weight is None else np.asarray(sample_weight)
    if len(set(group)) < 2 or len(weight) != len(label):
        return X, y, sample_weight, group
    present = weight > 0
    lonely = [each for each in set(label[present]) if len(set(group[present & (label == each)])) < 2]
    again = np.flatnonzero(np.isin(label, lonely) & present)
    if not len(again):
        return X, y, sample_weight, group
    X = sparse.vstack([X, X[again]]) if sparse.issparse(X) else np.vstack([X, np.asarray(X)[again]])
    label, weight = np.append(label, label[again]), np.append(weight, weight[again])
    return X, label, weight, np.append(group, 1 - group[again])


@parametrize_with_checks(
    [
        ZafarDP(c=float("inf")),
        ZafarDP(c=float("inf"), alpha=0.01, fit_intercept=False),
        DPGroupsFromRows(),
        DPGroupsFromRows(c=0.01, alpha=0.01, fit_intercept=False),
        ZafarEO(c=float("inf")),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@parametrize_with_checks([EOGroupsFromRows(), EOGroupsFromRows(alpha=0.01, fit_intercept=False)])
def test_scikit_learns_checks_with_cvxpy(estimator, check):
    need("cvxpy"), need("dccp")
    check(estimator)
