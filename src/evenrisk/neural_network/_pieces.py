"""Labels and groups of rows that come piece by piece, some pieces without all of them.

The first piece settles which labels and groups there are: those declared, or those in it. Later pieces are
coded by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evenrisk._validation import Groups, check_binary, check_groups, check_length, group_columns, listed
from evenrisk.neural_network._network import layer_sizes


def check_same_layers(hidden_layer_sizes: Any, coefs: list[np.ndarray]) -> None:
    """Refuse to go on with another network than the fitted one."""
    here = tuple(W.shape[1] for W in coefs[:-1])
    asked = layer_sizes(len(coefs[0]), hidden_layer_sizes)[1:-1]
    if asked != here:
        raise ValueError(
            f"`hidden_layer_sizes` must be {here} as with the first piece, got {asked}: clone the "
            "estimator to begin anew"
        )


def piece_labels(y: Any, classes: Any, known: np.ndarray | None, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as 0 and 1 (int8), maybe one of them only, and the two labels they stand for.

    `known` are those of the first piece, None in it; `classes` the declared ones.
    """
    if known is None:
        known = _declared_classes(classes, y)
    elif not (classes is None or np.array_equal(np.unique(np.asarray(classes)), known)):
        raise ValueError(f"`classes` must be {listed(known)} as with the first piece, got {listed(classes)}")
    check_binary(y, at_least=1)
    labels = np.asarray(y).ravel()
    check_length("y", len(labels), n)
    unknown = np.setdiff1d(labels, known)
    if len(unknown):
        raise ValueError(
            f"`y` must be {listed(known)} as declared with the first piece, got {listed(unknown)}"
        )
    return (labels == known[1]).astype(np.int8), known


def piece_groups(sensitive_features: Any, groups: Any, known: np.ndarray | None, n: int) -> Groups:
    """Return the groups of a piece, maybe one of them only, coded by all of them.

    `known` are those of the first piece, None in it; `groups` the declared ones.
    """
    if groups is not None:
        declared = check_groups(groups, len(groups), name="groups").labels
        if known is not None and not np.array_equal(declared, known):
            raise ValueError(
                f"`groups` must be {listed(known)} as with the first piece, got {listed(declared)}"
            )
        known = declared if known is None else known
    if known is None:
        known = _groups_of(sensitive_features)
    return _coded(sensitive_features, known, n)


def _declared_classes(classes: Any, y: Any) -> np.ndarray:
    """Return the two labels, sorted, as declared with the first piece or as they are in it."""
    if classes is None:
        return check_binary(y, hint="Declare both labels with the first piece as `classes`")[1]
    known = np.unique(np.asarray(classes))
    if len(known) != 2:
        raise ValueError(f"`classes` must be the 2 labels, got {len(known)} ({listed(known)})")
    return known


def _groups_of(sensitive_features: Any) -> np.ndarray:
    """Return the groups of the first piece, sorted."""
    values = _as_rows(sensitive_features)
    hint = "Declare all groups with the first piece as `groups`"
    return check_groups(values, len(values), hint=hint).labels


def _coded(sensitive_features: Any, labels: np.ndarray, n: int) -> Groups:
    """Return the groups of a piece, coded by all labels."""
    import pandas as pd

    values = _as_rows(sensitive_features)
    check_length("sensitive_features", len(values), n)
    missing = pd.isna(values).reshape(n, -1).any(axis=1)
    if missing.any():
        raise ValueError(
            f"`sensitive_features` must not have missing values, got {np.count_nonzero(missing)}"
        )
    known = _as_rows(labels.tolist())
    if known.shape[1:] != values.shape[1:]:
        raise ValueError(
            f"`sensitive_features` must have the columns declared with the first piece, {known[0]!r}, got "
            f"shape {values.shape}"
        )
    coded = check_groups(np.concatenate([known, values]), len(known) + n)
    if len(coded.labels) > len(labels):
        unknown = np.setdiff1d(np.arange(len(coded.labels)), coded.code[: len(known)])
        raise ValueError(
            f"`sensitive_features` must be of the groups declared with the first piece, {listed(labels)}, "
            f"got {listed(coded.labels[unknown])}. Declare all groups there as `groups`"
        )
    place = np.empty(len(labels), dtype=np.int32)
    place[coded.code[: len(known)]] = np.arange(len(labels))
    return Groups(place[coded.code[len(known) :]], labels)


def _as_rows(values: Any) -> np.ndarray:
    """Return one column (n,) or several (n, m), as objects."""
    import pandas as pd

    # by pandas, because NumPy makes nanoseconds of dates
    columns = [pd.Series(column).astype(object).to_numpy() for _, column in group_columns(values)]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
