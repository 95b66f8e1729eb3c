"""The door for evaluation sets: one or several, each with its groups and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evenrisk._estimator import TrainingData
from evenrisk._validation import (
    Groups,
    MissingSensitiveFeatures,
    check_binary,
    check_cells,
    check_groups,
    check_length,
    check_weight,
    listed,
)
from evenrisk.parity import Parity, cell_codes, make_cells


class Given(NamedTuple):
    """An evaluation set as it came."""

    pair: Any
    features: Any
    weight: Any


def listed_sets(eval_set: Any, features: Any, weights: Any) -> list[Given]:
    """Put one or several sets, and what comes with them, into a list."""
    if eval_set is None:
        return []
    pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise ValueError("`eval_set` must be (X, y) or a list of such pairs, got something else")
    groups = _one_each("eval_sensitive_features", features, len(pairs))
    return [
        Given(*each)
        for each in zip(pairs, groups, _one_each("eval_sample_weight", weights, len(pairs)), strict=True)
    ]


def _one_each(name: str, values: Any, n: int) -> list[Any]:
    """Give one entry per set; that of a single set may come without a list around it."""
    if values is None:
        return [None] * n
    if n == 1 and not (isinstance(values, (list, tuple)) and len(values) == 1):
        return [values]
    if len(values) != n:
        raise ValueError(f"`{name}` must have one entry per evaluation set, {n}, got {len(values)}")
    return list(values)


def check_set(
    given: Given, data: TrainingData, parity: Parity | None, columns: Callable[[Any], Any], place: int
) -> TrainingData:
    """Check one set against the training data; `columns` checks its features. No parity, no groups."""
    pair = given.pair
    X = columns(pair[0])
    _, classes = check_binary(pair[1], "y of the eval_set", at_least=1)
    unknown = [label for label in classes.tolist() if label not in data.classes.tolist()]
    if unknown:
        raise ValueError(f"`eval_set` must have the labels of y, got {listed(unknown)} too")
    y = (np.asarray(pair[1]).reshape(-1) == data.classes[1]).astype(np.int8)
    check_length("y of the eval_set", len(y), X.shape[0])
    weight = check_weight(given.weight, X.shape[0])
    if parity is None or data.groups is None:
        return TrainingData(X, y, weight, data.classes, None, None)
    if given.features is None:
        raise MissingSensitiveFeatures(
            f"`eval_sensitive_features` is required with eval_set when eta > 0, got None for set {place}: "
            "the objective it measures has the penalty in it"
        )
    try:
        code = _codes(given.features, y, weight, data.groups, parity)
    except ValueError as error:
        raise ValueError(str(error).replace("`sensitive", "`eval_sensitive")) from error
    cells = make_cells(parity, y, code, len(data.groups.labels), weight)
    return TrainingData(X, y, weight, data.classes, None, cells)


def _codes(features: Any, y: np.ndarray, weight: np.ndarray, known: Groups, parity: Parity) -> np.ndarray:
    """Code the groups as the training rows' are, and refuse empty cells."""
    groups = check_groups(features, len(y))
    place = {label: code for code, label in enumerate(known.labels.tolist())}
    unknown = [label for label in groups.labels.tolist() if label not in place]
    if unknown:
        raise ValueError(f"`sensitive_features` must have groups that fit's have, got {listed(unknown)} too")
    code = np.array([place[label] for label in groups.labels.tolist()], dtype=np.int32)[groups.code]
    names = parity.cell_names([repr(name) for name in known.names])
    check_cells(cell_codes(parity, y, code, len(known.labels))[weight > 0], names, warn=False)
    return code
