"""The bare objective, for people who call `lgb.train` or `xgb.train` themselves.

A library's own training loop sees one number of curvature per row, so what stands for the penalty there
must bound all it can do when rows move together: `Distance.curvature_bound`. Estimators solve a tree's
leaves at once instead (`_rounds`), which takes longer steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk._validation import (
    Comparison,
    check_binary,
    check_groups,
    check_length,
    check_member,
    check_number,
    check_scores,
    check_weight,
    count_rows,
)
from evenrisk._xp import Sums
from evenrisk.distances import DISTANCES, Distance, cell_weights, penalty, psi_sums
from evenrisk.losses import LOGISTIC
from evenrisk.parity import PARITIES, Parity, check_compared, group_cells

LEAST_CURVATURE = 1e-6  # of a row, so that none is without


class ParityObjective:
    """Log loss + eta·E_f as gradient and curvature in the scores, for LightGBM and XGBoost.

    An object is called with ``(scores, data)`` by ``lgb.train`` and ``xgb.train``, data being their own kind
    of training set, or with ``(y, scores)`` or ``(y, scores, weight)`` by their scikit-learn classes. Labels
    and weights are the data's. The scores it leads to are raw: apply the sigmoid.

    Parameters
    ----------
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row of the data; several columns are crossed.
    parity : str or Parity, default="demographic_parity"
        Among which people groups are compared.
    comparison : str or Comparison, default="crossed"
        Which groups are compared, as in the estimators.
    distance : "gap" or GapDistance, default="gap"
        Only squares on the score scale have a curvature that is known to be safe row by row.
    eta : float, default=1.0
        Weight of the penalty.
    learning_rate : float, default=0.1
        That of the training. Of the curvature's bound half this share is enough: what a step is shrunk by
        need not be held back twice. A larger number is safer, a smaller one faster.

    See Also
    --------
    FairLGBMClassifier, FairXGBClassifier : Take longer steps at a large eta, and never one that raises the
        objective.

    Examples
    --------
    >>> import lightgbm
    >>> from evenrisk.boosting import ParityObjective
    >>> from evenrisk.datasets import load_compas
    >>> X, y, race = load_compas()
    >>> data = lightgbm.Dataset(X.to_numpy(), y)
    >>> parity = ParityObjective(race, eta=10)
    >>> settings = {"objective": parity, "verbosity": -1, "num_threads": 1}
    >>> booster = lightgbm.train(settings, data, num_boost_round=50)
    >>> round(parity.metric(booster.predict(X.to_numpy()), data)[1], 2)
    0.68
    """

    def __init__(
        self,
        sensitive_features: Any,
        *,
        parity: str | Parity = "demographic_parity",
        comparison: str | Comparison = "crossed",
        distance: str | Distance = "gap",
        eta: float = 1.0,
        learning_rate: float = 0.1,
    ) -> None:
        self.eta = float(check_number("eta", eta, low=0))
        self.learning_rate = float(check_number("learning_rate", learning_rate, low=0, strict=True))
        self.parity: Parity = check_member("parity", parity, PARITIES, Parity)
        chosen: Distance = check_member("distance", distance, DISTANCES, Distance)
        if not chosen.traits.bounded:
            raise ValueError(
                "`distance` must be 'gap' or a GapDistance on the score scale with power 2, whose curvature "
                f"has a bound row by row, got {distance!r}"
            )
        self.distance = chosen
        n = count_rows(sensitive_features)
        self.groups = check_groups(sensitive_features, n, comparison=comparison)

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature in the scores (n,), (n,)."""
        y, g, weight = self._read(first, second, sample_weight)
        slope = weight * LOGISTIC.value_gradient(y, g)[1]
        bend = weight * LOGISTIC.curvature(y, g)
        if self.eta > 0:
            cells = group_cells(self.parity, y, self.groups, weight)
            D = self._penalty(g, cells)[1]
            scale = self.eta * float(weight.sum())
            slope = slope + scale * sum(self.distance.gradient(g, one, D) for one in cells.memberships())
            bend = bend + scale * self.distance.curvature_bound(g, cells, D, 0.5 * self.learning_rate)
        return slope, np.maximum(bend, LEAST_CURVATURE)

    def metric(self, scores: Any, data: Any) -> Any:
        """Return the objective's value: the `feval` of ``lgb.train``, the `custom_metric` of ``xgb.train``.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Raw scores of the rows whose groups this object was given.
        data : lightgbm.Dataset or xgboost.DMatrix
            The data.

        Returns
        -------
        tuple
            Name and value, and for LightGBM that smaller is better.
        """
        y, g, weight = self._read(scores, data)
        value = float(weight @ LOGISTIC.value_gradient(y, g)[0] / weight.sum())
        if self.eta > 0:
            cells = group_cells(self.parity, y, self.groups, weight)
            value += self.eta * float(self._penalty(g, cells)[0])
        known = type(data).__module__.startswith("lightgbm")
        return ("objective", value, False) if known else ("objective", value)

    def _penalty(self, g: np.ndarray, cells: Any) -> tuple[Any, np.ndarray]:
        return penalty(self.distance, Sums(psi_sums(self.distance, g, cells), *cell_weights(cells)), cells)

    def _read(self, first: Any, second: Any, weight: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels, scores and weights, however they came."""
        if hasattr(second, "get_label"):
            scores, y, weight = first, second.get_label(), second.get_weight()
        else:
            y, scores = first, second
        target, _ = check_binary(y)
        check_length("sensitive_features", len(self.groups.code), len(target))
        absent = weight is None or len(weight) == 0
        w = np.array(check_weight(None if absent else weight, len(target)))
        cells = group_cells(self.parity, target, self.groups, w)
        check_compared(self.parity, cells, self.groups, w > 0, warn=False)
        g = check_scores(scores, name="scores").astype(np.float64)
        check_length("scores", len(g), len(target))
        return target, g, w
