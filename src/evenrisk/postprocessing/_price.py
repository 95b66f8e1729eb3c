"""What it costs not to know the group at prediction: the same classifier, repaired blind and aware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from evenrisk._validation import ArgumentError, check_number
from evenrisk.distances import Distance
from evenrisk.model_selection import tradeoff_path
from evenrisk.postprocessing._aware import BarycenterRepair
from evenrisk.postprocessing._base_models import check_classifier
from evenrisk.postprocessing._blind import BlindRepair
from evenrisk.postprocessing._repaired_classifier import RepairedClassifier

PLAIN = "plain model"
BLIND = "blind repair: group unknown at prediction"
AWARE = "aware repair: group known at prediction"


def price_of_blindness(
    estimator: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    etas: Sequence[float] = (1, 3, 10, 30, 100),
    strengths: Sequence[float] = (0.2, 0.4, 0.6, 0.8, 1),
    distance: str | Distance = "gap",
    sample_weight: Any = None,
    cv: Any = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Any:
    """Measure a classifier as it is, repaired blind, and repaired aware, under demographic parity.

    Knowing the group at prediction can only help. How much it helps, at the same max gap, is the price of a
    score that does not look at the group.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `predict_proba`.
    X, y, sensitive_features, sample_weight
        As in :meth:`BlindRepair.fit`.
    etas : sequence of float
        For :class:`BlindRepair`.
    strengths : sequence of float
        For :class:`BarycenterRepair`, from 0 to 1.
    distance : str or Distance, default="gap"
        For :class:`BlindRepair`.
    cv : int, splitter or iterable, default=5
        As in :func:`~evenrisk.model_selection.tradeoff_path`. Within each fold the repairs have five folds of
        their own.
    n_jobs : int, default=None
        How many folds to fit at once; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds, and seeds the repairs.

    Returns
    -------
    pandas.DataFrame
        The three paths, one after the other, as :func:`~evenrisk.model_selection.tradeoff_path` measures
        them; the column `method` names the regime.

    See Also
    --------
    evenrisk.plots.PriceOfBlindnessDisplay : Draws it, with the AUC of each at equal max gap.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.postprocessing import price_of_blindness
    >>> X, y, race = load_compas()
    >>> model = LogisticRegression(solver="newton-cholesky")
    >>> paths = price_of_blindness(model, X, y, race, etas=[10], strengths=[1], random_state=0)
    >>> for method, gap in zip(paths["method"], paths["max_gap"]):
    ...     print(f"{method}, max gap {gap:.1f}")
    plain model, max gap 0.3
    blind repair: group unknown at prediction, max gap 0.1
    aware repair: group known at prediction, max gap 0.0
    """
    import pandas as pd

    # drawn once, and folds are listed once: all are measured on the same people
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    cv = list(cv) if isinstance(cv, Iterator) else cv
    for name, values in (("etas", etas), ("strengths", strengths)):
        if np.ndim(values) != 1 or not len(values):
            raise ArgumentError(name, f"must be a sequence of at least 1 number, got {values!r:.60}")
    if any(not 0 <= float(check_number("strengths", each, low=0)) <= 1 for each in strengths):
        raise ArgumentError("strengths", f"must be numbers from 0 to 1, got {strengths!r:.60}")
    check_classifier("estimator", estimator, prefit=False)
    rows: dict[str, Any] = {"X": X, "y": y, "sensitive_features": sensitive_features}
    how = {"sample_weight": sample_weight, "cv": cv, "n_jobs": n_jobs, "random_state": seed}
    aware = RepairedClassifier(estimator, BarycenterRepair(), random_state=seed)
    blind = BlindRepair(estimator, distance=distance, random_state=seed)
    moved = tradeoff_path(aware, **rows, etas=[0, *strengths], name=AWARE, **how)
    plain = moved[:1].assign(method=PLAIN)  # strength 0 moves nothing
    repaired = tradeoff_path(blind, **rows, etas=etas, name=BLIND, **how)
    return pd.concat([plain, repaired, moved[1:]], ignore_index=True)
