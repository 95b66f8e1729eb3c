"""The door: every input check, its wording, and the exceptions and warnings that are public.

Conventions
-----------
A message says what is required and what came. Rows of weight 0 are absent: they are dropped here, once, so
that no room below can tell them from rows that were never there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

SMALL_CELL = 30  # rows; below this a cell's distribution function is mostly noise
MAX_GROUPS = 200  # all pairs are compared: beyond this the attribute is a measurement, not a group
T = TypeVar("T")


class MissingSensitiveFeatures(ValueError):
    """A penalty was asked for (eta > 0) and no groups were given."""


class SmallCellWarning(UserWarning):
    """A group, or a group within a label, has fewer than 30 rows."""


class MisalignedIndexWarning(UserWarning):
    """Two pandas objects hold the same index labels in different order; rows are matched by position."""


class CollapseWarning(UserWarning):
    """The penalty has squeezed all risk scores into nearly one value."""


class MajorityRateWarning(UserWarning):
    """The fitted model is less accurate on its training data than a constant answer."""


class ReversedRankingWarning(UserWarning):
    """The fitted model ranks its training data worse than chance (AUC below 0.5)."""


@dataclass(frozen=True)
class Groups:
    """The protected attribute, encoded."""

    code: np.ndarray  # (n,) int32 in 0 … k−1
    labels: np.ndarray  # (k,) the values, sorted; tuples where several columns were crossed

    @property
    def names(self) -> list[str]:
        """The labels as text for messages, tables and plots; 1 and '1' stay apart."""
        names = [group_name(label) for label in self.labels]
        return names if len(set(names)) == len(names) else [repr(label) for label in self.labels.tolist()]

    def among(self, rows: np.ndarray) -> Groups:
        """Forget the groups that none of `rows` (a mask) is in; rows outside it get any code."""
        present = np.unique(self.code[rows])
        if len(present) < 2:
            raise ValueError(
                "`sensitive_features` must have 2 or more groups among rows of positive weight, "
                f"got {len(present)} ({_listed(self.labels[present])})"
            )
        recoded = np.zeros(len(self.labels), dtype=np.int32)
        recoded[present] = np.arange(len(present))
        return Groups(recoded[self.code], self.labels[present])

    def take(self, index: np.ndarray) -> Groups:
        """Keep some rows, and all groups."""
        return Groups(self.code[index], self.labels)


def group_name(label: Any) -> str:
    """Write a group's label as text; crossed columns are joined by ×."""
    if isinstance(label, tuple):
        return " × ".join(group_name(part) for part in label)
    return str(label.item() if isinstance(label, np.generic) else label)


def check_member(name: str, value: Any, known: Mapping[str, T], kind: Any) -> T:
    """Look `value` up among the `known` names, or let an instance of `kind` pass."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in known:
        return known[value]
    names = ", ".join(repr(key) for key in known)
    raise ValueError(f"`{name}` must be one of {names} or a {kind.__name__} instance, got {value!r}")


def check_choice(name: str, value: Any, known: Sequence[str]) -> str:
    """Let one of the `known` strings pass."""
    if isinstance(value, str) and value in known:
        return value
    raise ValueError(f"`{name}` must be one of {', '.join(map(repr, known))}, got {value!r}")


def check_number(name: str, value: Any, *, low: float, strict: bool = False, whole: bool = False) -> float:
    """Let a finite number of at least `low` (above it, if strict) pass."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    good = good and bool(np.isfinite(value)) and (value > low if strict else value >= low)
    if good and not (whole and int(value) != value):
        return value
    kind = "a whole number" if whole else "a finite number"
    raise ValueError(f"`{name}` must be {kind} {'above' if strict else 'of at least'} {low}, got {value!r}")


def check_weight(sample_weight: Any, n: int, dtype: Any = np.float64) -> np.ndarray:
    """Weights (n,): finite, none negative, not all 0. None is a view of one 1, which takes no memory."""
    if sample_weight is None:
        return np.broadcast_to(np.ones((), dtype=dtype), (n,))
    try:
        weight = _numbers("sample_weight", sample_weight, dtype)
    except ValueError as error:
        raise ValueError(f"{error}. Groups are passed as `sensitive_features=`") from error
    if weight.shape != (n,):
        raise ValueError(f"`sample_weight` must have shape ({n},), one weight per row, got {weight.shape}")
    if not np.isfinite(weight).all():
        raise ValueError(f"`sample_weight` must be finite, got {_first_bad(weight, ~np.isfinite(weight))}")
    if (weight < 0).any():
        raise ValueError(f"`sample_weight` must not be negative, got {_first_bad(weight, weight < 0)}")
    if not weight.any():
        raise ValueError(f"`sample_weight` must have a positive entry, got {n} zeros")
    return weight


def check_binary(y: Any, name: str = "y", *, at_least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Encode two labels of any kind as 0 and 1 (int8); also give the labels, sorted."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    _refuse_missing(_strict(y), name)
    y = column_or_1d(y, warn=True)
    _refuse_missing(y, name)
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"`{name}` must have 2 classes, got {len(classes)} ({_listed(classes)})"
        )
    if len(classes) < at_least:
        raise ValueError(f"`{name}` must have 2 classes, got 1 class ({_listed(classes)})")
    return (y == classes[-1]).astype(np.int8), classes


def check_scores(y_score: Any) -> np.ndarray:
    """Scores (n,): finite numbers; float32 stays float32."""
    score = np.asarray(y_score)
    if score.ndim == 2 and score.shape[1] == 1:
        score = score[:, 0]
    if score.ndim != 1:
        raise ValueError(f"`y_score` must have one score per row, shape (n,), got shape {score.shape}")
    if score.size == 0:
        raise ValueError("`y_score` must have at least 1 row, got 0")
    if score.dtype not in (np.float32, np.float64):
        score = _numbers("y_score", score, np.float64)
    if not np.isfinite(score).all():
        raise ValueError(f"`y_score` must be finite, got {_first_bad(score, ~np.isfinite(score))}")
    return score


def _numbers(name: str, values: Any, dtype: Any) -> np.ndarray:
    """Real numbers as an array; text is not parsed."""
    array = _strict(values)
    is_text = array.dtype.kind in "SU" or (
        array.dtype.kind == "O" and any(isinstance(value, (str, bytes)) for value in array.flat)
    )
    try:
        if is_text or array.dtype.kind == "c":
            raise TypeError("text" if is_text else "complex numbers")
        return array.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be numbers, got {error}") from error


def check_length(name: str, length: int, n: int) -> None:
    """Refuse an argument that does not have one entry per row."""
    if length != n:
        raise ValueError(f"`{name}` must have one entry per row, {n}, got {length}")


def check_alignment(stacklevel: int = 2, **named: Any) -> None:
    """Warn where pandas indexes hold the same labels in different order: nothing here aligns by label."""
    indexed = {name: value.index for name, value in named.items() if hasattr(value, "iloc")}
    names = list(indexed)
    for name in names[1:]:
        first, other = indexed[names[0]], indexed[name]
        if len(first) == len(other) and not first.equals(other) and first.is_unique and other.is_unique:
            if not first.isin(other).all():
                continue
            message = (
                f"`{names[0]}` and `{name}` have the same index labels in different order. Rows are matched "
                "by position, not by label: reorder one of them, or drop its index"
            )
            warnings.warn(message, MisalignedIndexWarning, stacklevel=stacklevel + 1)


def check_flag(name: str, value: Any) -> None:
    """Let True and False pass."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"`{name}` must be True or False, got {value!r}")


def check_groups(sensitive_features: Any, n: int) -> Groups:
    """Encode the protected attribute: one column, or several crossed into intersectional groups."""
    columns = _columns(sensitive_features)
    encoded = []
    for name, column in columns:
        check_length("sensitive_features", len(column), n)
        encoded.append(_factorize(name, column))
    code, labels = encoded[0]
    if len(encoded) > 1:
        code, labels = _cross(encoded)
    if len(labels) < 2:
        came = f" ({_listed(labels)})" if len(labels) else ""
        raise ValueError(f"`sensitive_features` must have 2 or more groups, got {len(labels)}{came}")
    if len(labels) > MAX_GROUPS:
        raise ValueError(
            f"`sensitive_features` must have at most {MAX_GROUPS} groups, got {len(labels)} distinct values "
            f"in {n} rows: cut a measured attribute into classes first"
        )
    return Groups(code.astype(np.int32), labels)


def check_cells(code: np.ndarray, names: Sequence[str], *, warn: bool = True, stacklevel: int = 2) -> None:
    """Refuse an empty cell and warn of small ones, by name; `code` is the cell of each row."""
    if code.min() < -1 or code.max() >= len(names):
        raise ValueError(
            f"`parity` must map labels to strata from -1 to one less than their number, got a cell "
            f"{code.min() if code.min() < -1 else code.max()} of {len(names)}"
        )
    counts = np.bincount(code + 1, minlength=len(names) + 1)[1:]
    empty = [name for name, count in zip(names, counts, strict=True) if count == 0]
    if empty:
        raise ValueError(
            f"`sensitive_features` must leave rows in every compared cell, got none in: {'; '.join(empty)}"
        )
    if not warn:
        return
    small = [f"{name} ({count})" for name, count in zip(names, counts, strict=True) if count < SMALL_CELL]
    if small:
        message = f"fewer than {SMALL_CELL} rows in: {'; '.join(small)}. Gaps measured there are mostly noise"
        warnings.warn(message, SmallCellWarning, stacklevel=stacklevel + 1)


def _columns(values: Any) -> list[tuple[str, Any]]:
    """Split the attribute into named one-dimensional columns."""
    import narwhals as nw

    if isinstance(values, Mapping):
        columns = [(str(name), _strict(column)) for name, column in values.items()]
        if not columns or any(column.ndim != 1 for _, column in columns):
            raise ValueError(f"`sensitive_features` must map names to columns, got {values!r:.60}")
        return columns
    frame: Any = nw.from_native(values, pass_through=True, allow_series=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        if not frame.columns:
            raise ValueError("`sensitive_features` must have at least 1 column, got a frame with none")
        return [(str(column.name), column.to_numpy()) for column in frame.iter_columns()]
    if isinstance(frame, nw.Series):
        return [(str(frame.name or ""), frame.to_numpy())]
    array = _strict(values)
    if array.ndim == 0:
        raise ValueError(
            f"`sensitive_features` must be the column itself, one entry per row, got {values!r:.60}"
        )
    if array.ndim == 1:
        return [("", array)]
    if array.ndim == 2 and array.shape[1] > 0:
        return [(f"column {i}", array[:, i]) for i in range(array.shape[1])]
    raise ValueError(
        f"`sensitive_features` must be one column or several, shape (n,) or (n, m), got {array.shape}"
    )


def _strict(values: Any) -> np.ndarray:
    """An array that keeps None, NaN and masks apart from text: ['a', nan] must not make a group 'nan'."""
    if isinstance(values, np.ma.MaskedArray):
        plain = np.array(values.data, dtype=object)
        plain[np.ma.getmaskarray(values)] = None
        return plain
    return np.asarray(values, dtype=object) if isinstance(values, (list, tuple)) else np.asarray(values)


def _factorize(name: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Code a column by its sorted distinct values."""
    import pandas as pd

    if column.dtype.kind in "SU":
        column = column.astype(object)  # pandas hashes Python strings, not fixed-width ones
    code, labels = pd.factorize(column)
    if (code < 0).any():
        rows = np.flatnonzero(code < 0)
        where = f" in {name!r}" if name else ""
        listed = ", ".join(map(str, rows[:3])) + (", …" if len(rows) > 3 else "")
        raise ValueError(
            f"`sensitive_features` must not have missing values, got {len(rows)}{where} (row {listed}). "
            "Drop those rows or give them a group of their own"
        )
    labels = np.asarray(labels)
    try:
        order = np.argsort(labels, kind="stable")
    except TypeError:  # mixed kinds have no order of their own
        order = np.array(sorted(range(len(labels)), key=lambda i: (type(labels[i]).__name__, str(labels[i]))))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[code], labels[order]


def _cross(encoded: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Cross several coded columns into the combinations that occur, labelled by tuples."""
    shape = tuple(len(labels) for _, labels in encoded)
    flat = np.ravel_multi_index(tuple(code for code, _ in encoded), shape)
    present, code = np.unique(flat, return_inverse=True)
    parts = np.unravel_index(present, shape)
    crossed = np.empty(len(present), dtype=object)
    for i in range(len(present)):
        crossed[i] = tuple(
            labels[part[i]].item() if isinstance(labels[part[i]], np.generic) else labels[part[i]]
            for (_, labels), part in zip(encoded, parts, strict=True)
        )
    return code.reshape(-1), crossed


def _refuse_missing(y: np.ndarray, name: str) -> None:
    """Refuse NaN, None, NA and infinity among labels."""
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(f"Input {name} contains infinity: `{name}` must have two labels")
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind == "O":
        import pandas as pd

        missing = pd.isna(y)
    else:
        return
    if missing.any():
        raise ValueError(
            f"Input {name} contains NaN: `{name}` must not have missing values, got {missing.sum()}"
        )


def _first_bad(values: np.ndarray, bad: np.ndarray) -> str:
    """Quote the first offending value and its row."""
    row = int(np.flatnonzero(bad)[0])
    return f"{values[row]} in row {row} ({int(bad.sum())} of {len(values)} rows)"


def _listed(values: Any, most: int = 5, quote: Callable[[Any], str] = repr) -> str:
    """Write a few values for a message."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values[:most]]
    return ", ".join(quote(value) for value in plain) + (", …" if len(values) > most else "")
