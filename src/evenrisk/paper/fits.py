"""All fits of one split: every row's path over η and every bound c, for validation and again on all of it.

Fits do not depend on which η or c is chosen in the end, so splits are independent of one another and can be
done in any order, by any number of processes, and kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from evenrisk.datasets import Dataset
from evenrisk.exceptions import CollapseWarning
from evenrisk.paper.measures import COLUMNS, by_chance, measure
from evenrisk.paper.protocol import PARITIES, Protocol, Row, features, zafar, zafar_name

Split = dict[str, np.ndarray]


def fit_split(data: Dataset, protocol: Protocol, split: int, step: Callable[[], Any] = lambda: None) -> Split:
    """Fit everything and measure it on rows that were not fitted.

    The arrays' names are such as "equalized_odds/LR-HA/scores" (etas, test rows); "…/validation" and "…/test"
    hold the tables' columns (etas, columns), "…/unfinished" how many fits did not converge.
    """
    rows = protocol.parts(len(data.y), split)
    y, group = data.y.to_numpy(), data.sensitive_features.to_numpy().astype(str)
    out = {"rows": rows.test, "y": y[rows.test].astype(np.int8), "group": group[rows.test]}
    for stage, fitted, shown in (
        ("validation", rows.fitted, rows.validation),
        ("test", rows.train, rows.test),
    ):
        X = features(data, fitted)
        for parity in PARITIES:
            for name, fit in _fits(protocol, parity):
                scores, unfinished = fit(X[fitted], y[fitted], group[fitted], X[shown])
                measured = [measure(y[shown], s, group[shown], parity) for s in scores]
                key = f"{parity}/{name}"
                out[f"{key}/{stage}"] = np.array([[each[column] for column in COLUMNS] for each in measured])
                out[f"{key}/unfinished"] = out.get(f"{key}/unfinished", np.array(0)) + unfinished
                if stage == "test":
                    out[f"{key}/scores"] = scores
                step()
    return out | _floor(protocol, out, np.random.default_rng([protocol.seed, split, 1]))


def _floor(protocol: Protocol, split: Split, rng: np.random.Generator) -> Split:
    """Measure what chance alone gives the plain model: its scores with the groups permuted."""
    found = {}
    for parity in PARITIES:
        plain = split[f"{parity}/{protocol.rows[0].name}/scores"][0]
        for name, values in by_chance(split["y"], plain, split["group"], parity, rng).items():
            found[f"{parity}/chance/{name}"] = values
    return found


def _fits(protocol: Protocol, parity: str) -> list[tuple[str, Callable[..., tuple[np.ndarray, int]]]]:
    """Name → what fits it and scores other rows: (settings, rows), and how many fits did not converge."""

    def bounded(X: Any, y: Any, group: Any, other: Any) -> tuple[np.ndarray, int]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            models = [zafar(parity, c).fit(X, y, sensitive_features=group) for c in protocol.bounds[parity]]
        return _scores(models, other), _count(caught, ConvergenceWarning, CollapseWarning)

    def path_of(row: Row) -> Callable[..., tuple[np.ndarray, int]]:
        def path(X: Any, y: Any, group: Any, other: Any) -> tuple[np.ndarray, int]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                models = _along(row.estimator(parity), X, y, row.etas, group)
            return _scores(models, other), _count(caught, ConvergenceWarning)

        return path

    return [(zafar_name(parity), bounded), *((row.name, path_of(row)) for row in protocol.rows)]


def _along(estimator: Any, X: Any, y: Any, etas: tuple[float, ...], group: Any) -> list[Any]:
    """Fit a model for each η, along its own path if it has one."""
    if hasattr(estimator, "fit_path"):
        return estimator.fit_path(X, y, etas, sensitive_features=group)
    return [clone(estimator).set_params(eta=eta).fit(X, y, sensitive_features=group) for eta in etas]


def _scores(models: list[Any], X: np.ndarray) -> np.ndarray:
    return np.array([model.predict_proba(X)[:, 1] for model in models])


def _count(caught: list[warnings.WarningMessage], *kinds: type[Warning]) -> int:
    """Count warnings: of fits that ended early and, for Zafar, of a norm guard that could not be held."""
    return sum(issubclass(warning.category, kinds) for warning in caught)
