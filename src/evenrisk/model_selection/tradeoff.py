"""The whole trade-off between quality and the gap, along η."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import check_number
from evenrisk.model_selection._held_out import (
    EtaEstimator,
    FitInput,
    Fold,
    HeldOutScorer,
    HeldOutScores,
    SearchRows,
    make_folds,
)

if TYPE_CHECKING:
    from evenrisk.parity import Comparison, Parity


def tradeoff_path(
    estimator: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    etas: Sequence[float],
    *,
    parity: str | Parity | None = None,
    comparison: str | Comparison | None = None,
    sample_weight: Any = None,
    cv: Any = 5,
    name: str | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Any:
    """Measure quality and gap of held-out scores at each of several eta.

    Parameters
    ----------
    estimator : estimator
        Any classifier with a parameter `eta`, or a pipeline with one such step, as in
        :class:`~evenrisk.BudgetSearchCV`. Or a :class:`~evenrisk.postprocessing.RepairedClassifier`, which
        is given the groups to predict: `etas` are then values of its map's `strength`.
    X, y, sensitive_features, sample_weight
        As in its `fit`.
    etas : sequence of float
        Values of eta, 0 or more.
    parity : str or Parity, default=None
        The rule whose gap is measured; None is the estimator's own.
    comparison : str or Comparison, default=None
        Which groups are compared, as in :func:`~evenrisk.metrics.threshold_profile`; None is the estimator's
        own.
    cv : int, splitter or iterable, default=5
        Number of folds, each with its share of every label in every group; or what scikit-learn takes. No
        row may be held out twice, nor fitted and held out by the same fold.
    name : str, default=None
        What to write into the column `method`; None is the estimator's class.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds.

    Returns
    -------
    pandas.DataFrame
        One row per eta, smallest first: `method`, `eta` (or `strength`); `max_gap` (worst stratum),
        `rank_gap`, `auc` and `accuracy` of the pooled held-out scores (gaps and AUC of a score's place among
        those of its fold, as in :class:`~evenrisk.BudgetSearchCV`); and `max_gap_error`, `auc_error`,
        `accuracy_error`, the standard errors of the folds' means, NaN where a fold cannot tell.

    See Also
    --------
    evenrisk.plots.TradeoffDisplay.from_frame : Draws it.

    Examples
    --------
    >>> from evenrisk import FairLogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.model_selection import tradeoff_path
    >>> X, y, race = load_compas()
    >>> X = (X - X.mean()) / X.std()
    >>> clf = FairLogisticRegression()
    >>> path = tradeoff_path(clf, X, y, sensitive_features=race, etas=[0, 1, 5], random_state=0)
    >>> bool(path["max_gap"].is_monotonic_decreasing)
    True
    """
    import pandas as pd

    found = EtaEstimator.find_eta_or_strength(estimator)
    ascending = _check_etas(etas)
    given = FitInput(X, y, sensitive_features, sample_weight)
    rows, found = SearchRows.check(given, found, parity, comparison)
    folds = make_folds(rows, cv, check_random_state(random_state))
    scorer = HeldOutScorer(found, rows.given, folds, n_jobs)
    setting = found.name.split("__")[-1]
    method = type(found.owner).__name__ if name is None else name
    return pd.DataFrame(
        [{"method": method, setting: eta} | _measure(rows, folds, scorer.scores(eta)) for eta in ascending]
    )


def _check_etas(etas: Any) -> list[float]:
    """Return the distinct η in ascending order."""
    if np.ndim(etas) != 1 or len(etas) == 0:
        raise ValueError(f"`etas` must be a sequence of at least 1 number, got {etas!r}")
    return sorted({float(check_number("etas", eta, low=0)) for eta in etas})


def _measure(rows: SearchRows, folds: list[Fold], scores: HeldOutScores) -> dict[str, float]:
    """Return the pooled values, and standard errors from those of the folds."""
    profile = rows.profile(scores.rank)
    pooled = {"max_gap": profile.max_gap, "rank_gap": profile.rank_gap} | rows.quality(scores)
    parts = [{"max_gap": _max_gap(rows, scores, test)} | rows.quality(scores, test) for _, test in folds]
    for column in ("max_gap", "auc", "accuracy"):
        values = [part[column] for part in parts]
        spread = np.std(values, ddof=1) if len(values) > 1 else np.nan
        pooled[f"{column}_error"] = float(spread / len(values) ** 0.5)
    return pooled


def _max_gap(rows: SearchRows, scores: HeldOutScores, test: np.ndarray) -> float:
    """Return the max gap of one fold; NaN where a cell is empty in it."""
    try:
        return rows.profile(scores.rank, test).max_gap
    except ValueError:
        return np.nan
