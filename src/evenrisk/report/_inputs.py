"""Score columns, outcomes and groups, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenrisk._validation import check_binary, check_positive, guessed_label, refuse_masked


def score_columns(y_score: Any) -> dict[str, Any]:
    """Name every score column."""
    import narwhals as nw

    if isinstance(y_score, Mapping):
        columns = {str(name): column for name, column in y_score.items()}
        if len(columns) < len(y_score):
            raise ValueError(f"`y_score` must have columns of different names, got {list(y_score)!r}")
    else:
        frame: Any = nw.from_native(y_score, pass_through=True, allow_series=True, eager_only=True)
        if isinstance(frame, nw.DataFrame):
            columns = {str(column.name): column.to_numpy() for column in frame.iter_columns()}
        elif isinstance(frame, nw.Series):
            columns = {str(frame.name or "score"): y_score}
        else:
            refuse_masked("y_score", y_score)
            # a list of whole numbers and floats would become floats, which merge whole numbers beyond 2⁵³
            nested = isinstance(y_score, (list, tuple))
            array = np.asarray(y_score, dtype=object if nested else None)
            columns = {"score": y_score}
            if array.ndim == 2 and array.shape[1] > 1:
                by_column = array.T.tolist() if nested else array.T
                columns = {f"score {i}": column for i, column in enumerate(by_column, 1)}
    if not columns:
        raise ValueError("`y_score` must have at least 1 column, got none")
    return columns


def outcomes(y_true: Any, positive: Any) -> tuple[np.ndarray | None, dict[str, str] | None, str]:
    """Outcomes as 0 and 1, what they are called, and a sentence where the positive one was guessed."""
    if y_true is None:
        if positive is not None:
            raise ValueError(f"`positive` needs `y_true`, got {positive!r} and no outcomes")
        return None, None, ""
    name = str(getattr(y_true, "name", None) or "outcome")
    if positive is None:
        y, classes = check_binary(y_true, "y_true")
        label = {"name": name, "negative": _text(classes[0]), "positive": _text(classes[1])}
        return y, label, guessed_label("`y_true`", classes, "`positive`")
    y, others = check_positive(y_true, positive, "y_true", argument="positive")
    negative = _text(others[0]) if len(others) == 1 else f"not {_text(positive)!r}"
    return y, {"name": name, "negative": negative, "positive": _text(positive)}, ""


def group_name(sensitive_features: Any) -> str:
    """What the groups are called together: the column's name, or the crossed columns' names."""
    if isinstance(sensitive_features, Mapping):
        return " × ".join(map(str, sensitive_features))
    names = getattr(sensitive_features, "columns", None)
    if names is not None:
        return " × ".join(map(str, names))
    return str(getattr(sensitive_features, "name", None) or "group")


def _text(label: Any) -> str:
    return str(label.item() if isinstance(label, np.generic) else label)
