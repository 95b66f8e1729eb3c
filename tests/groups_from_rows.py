"""What runs of scikit-learn's checks share: groups derived from the rows, and the warnings to expect."""

import numpy as np
import pytest
from scipy import sparse

EXPECTED_WARNINGS = [
    # the checks' data sets have a dozen rows, are separable, or random
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.CollapseWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.MajorityRateWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.ReversedRankingWarning"),
    pytest.mark.filterwarnings("ignore::evenrisk.exceptions.RepairWarning"),
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
