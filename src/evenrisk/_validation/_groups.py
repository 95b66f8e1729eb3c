"""The protected attribute, and the cells it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from evenrisk._validation._arrays import check_length, factorize, listed, strict
from evenrisk._validation._warnings import ArgumentError, SmallCellWarning, warn_user

SMALL_CELL = 30  # rows; below this a cell's distribution function is mostly noise
DIGITS = re.compile("([0-9]{1,18})")
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")  # as text
MAX_GROUPS = 200  # all pairs are compared: beyond this the attribute is a measurement, not a group


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
            raise ArgumentError(
                "sensitive_features",
                "must have 2 or more groups among rows of positive weight, "
                f"got {len(present)} ({listed(self.labels[present])})",
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
    if isinstance(label, datetime):
        return label.isoformat().removesuffix("T00:00:00")
    return str(label.item() if isinstance(label, np.generic) else label)


def check_groups(
    sensitive_features: Any,
    n: int,
    *,
    name: str = "sensitive_features",
    at_least: int = 2,
    hint: str = "",
) -> Groups:
    """Encode the protected attribute: one column, or several crossed into intersectional groups.

    `hint` says what to do where there are too few groups.
    """
    columns = group_columns(sensitive_features, name)
    encoded = []
    for title, column in columns:
        check_length(name, len(column), n)
        encoded.append(_factorize(name, title, column))
    code, labels = encoded[0]
    if len(encoded) > 1:
        code, labels = _cross(encoded)
    if len(labels) < at_least:
        came = f" ({listed(labels)})" if len(labels) else ""
        advice = f". {hint}" if hint else ""
        raise ArgumentError(name, f"must have {at_least} or more groups, got {len(labels)}{came}{advice}")
    if len(labels) > MAX_GROUPS:
        raise ArgumentError(
            name,
            f"must have at most {MAX_GROUPS} groups, got {len(labels)} distinct values "
            f"in {n} rows: cut a measured attribute into classes first",
        )
    groups = Groups(code.astype(np.int32), labels)
    names = groups.names
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise ArgumentError(
            name,
            f"must have groups of different names, got {names.count(twice)} groups that are written {twice}",
        )
    return groups


def check_codes(code: np.ndarray, n_cells: int) -> None:
    """Refuse a cell that does not exist; `code` is the cell of each row."""
    if code.min() < -1 or code.max() >= n_cells:
        raise ArgumentError(
            "parity",
            f"must map labels to strata from -1 to one less than their number, got a cell "
            f"{code.min() if code.min() < -1 else code.max()} of {n_cells}",
        )


def check_cells(
    code: np.ndarray,
    names: Sequence[str],
    *,
    name: str = "sensitive_features",
    warn: bool = True,
) -> None:
    """Refuse an empty cell and warn of small ones, by name; `code` is the cell of each row."""
    check_codes(code, len(names))
    counts = np.bincount(code + 1, minlength=len(names) + 1)[1:]
    empty = [each for each, count in zip(names, counts, strict=True) if count == 0]
    if empty:
        raise ArgumentError(name, f"must leave rows in every compared cell, got none in: {'; '.join(empty)}")
    if not warn:
        return
    small = [f"{each} ({count})" for each, count in zip(names, counts, strict=True) if count < SMALL_CELL]
    if small:
        message = f"fewer than {SMALL_CELL} rows in: {'; '.join(small)}. Gaps measured there are mostly noise"
        warn_user(message, SmallCellWarning)


def group_columns(values: Any, name: str = "sensitive_features") -> list[tuple[str, Any]]:
    """Split the attribute into named one-dimensional columns."""
    import narwhals as nw

    if isinstance(values, Mapping):
        opened = {str(title): (column, _opened(column)) for title, column in values.items()}
        columns = [
            (title, _values(series) if isinstance(series, nw.Series) else strict(column))
            for title, (column, series) in opened.items()
        ]
        if not columns or any(column.ndim != 1 for _, column in columns):
            raise ArgumentError(name, f"must map names to columns, got {values!r:.60}")
        return columns
    frame = _opened(values)
    if isinstance(frame, nw.DataFrame):
        if not frame.columns:
            raise ArgumentError(name, "must have at least 1 column, got a frame with none")
        return [(str(column.name), _values(column)) for column in frame.iter_columns()]
    if isinstance(frame, nw.Series):
        return [(str(frame.name or ""), _values(frame))]
    array = strict(values)
    if array.ndim == 0:
        raise ArgumentError(name, f"must be the column itself, one entry per row, got {values!r:.60}")
    if array.ndim == 1:
        return [("", array)]
    if array.ndim == 2 and array.shape[1] > 0:
        return [(f"column {i}", array[:, i]) for i in range(array.shape[1])]
    raise ArgumentError(name, f"must be one column or several, shape (n,) or (n, m), got {array.shape}")


def _opened(values: Any) -> Any:
    """A data frame or column of any library as narwhals knows it; anything else as it is."""
    import narwhals as nw

    if type(values).__module__ == "pyarrow.lib":
        import pyarrow as pa

        values = pa.chunked_array([values]) if isinstance(values, pa.Array) else values
    return nw.from_native(values, pass_through=True, allow_series=True, eager_only=True)


def _values(series: Any) -> np.ndarray:
    """The entries of a column of a data frame."""
    import pandas as pd

    zone = getattr(series.dtype, "time_zone", None)
    if zone is not None:  # NumPy has no time zones
        utc = pd.Series(series.to_numpy()).dt.tz_localize("UTC")
        return np.asarray(utc.dt.tz_convert(zone), dtype=object)
    return strict(series.to_native()) if series.implementation.is_pyarrow() else series.to_numpy()


def _factorize(name: str, title: str, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Code a column by its sorted distinct values; `name` is the argument, `title` the column of it."""
    if column.ndim != 1:
        raise ArgumentError(name, f"must have one value per row, got shape {column.shape[1:]}")
    code, found = factorize(name, column)
    again, labels = factorize(name, _objects(found))
    code = np.append(again, -1)[code]
    if (code < 0).any():
        rows = np.flatnonzero(code < 0)
        where = f" in {title!r}" if title else ""
        raise ArgumentError(
            name,
            f"must not have missing values, got {len(rows)}{where} (row {listed(rows, 3)}). "
            "Drop those rows or give them a group of their own",
        )
    labels = np.asarray(labels)
    order = _order(labels)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[code], labels[order]


def _objects(labels: Any) -> np.ndarray:
    """Labels as they are, except dates, which NumPy counts in nanoseconds, and pyarrow's hidden nulls."""
    import pandas as pd

    labels = np.asarray(labels)
    if labels.dtype.kind not in "mMO":
        return labels
    plain = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):
        if isinstance(label, np.datetime64):
            label = pd.Timestamp(label)
        elif isinstance(label, np.timedelta64):
            label = pd.Timedelta(label)
        plain[i] = label.as_py() if hasattr(label, "as_py") else label
    return plain


def _order(labels: np.ndarray) -> np.ndarray:
    """Index that sorts labels; numbers in text, as a file gives it, sort as numbers: 1, 2, 10, x."""
    if all(isinstance(label, str) for label in labels):
        numbers = all(NUMBER.fullmatch(label.strip()) for label in labels)  # −10 comes before −9
        key: Any = float if numbers else _pieces
        return np.array(sorted(range(len(labels)), key=lambda i: (key(labels[i]), labels[i])), dtype=np.intp)
    try:
        return np.argsort(labels, kind="stable")
    except TypeError:  # mixed kinds have no order of their own
        return np.array(sorted(range(len(labels)), key=lambda i: _by_kind(labels[i])))


def _pieces(label: str) -> list[Any]:
    """Text and whole numbers in turn: "9-17" is "", 9, "-", 17, ""."""
    return [int(piece) if i % 2 else piece for i, piece in enumerate(DIGITS.split(label))]


def _by_kind(label: Any) -> tuple[str, Any, str]:
    """Sort key of labels of mixed kinds: by kind, numbers within theirs as numbers."""
    return type(label).__name__, label if isinstance(label, (int, float)) else 0, str(label)


def _cross(encoded: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Cross several coded columns into the combinations that occur, labelled by tuples."""
    code = np.zeros(len(encoded[0][0]), dtype=np.int64)
    for column, labels in encoded:  # one by one: the product of all sizes may be beyond any integer
        code = np.unique(code * len(labels) + column, return_inverse=True)[1].reshape(-1)
    row = np.unique(code, return_index=True)[1]  # one row of each combination
    crossed = np.empty(len(row), dtype=object)
    for i in range(len(row)):
        parts = (labels[column[row[i]]] for column, labels in encoded)
        crossed[i] = tuple(part.item() if isinstance(part, np.generic) else part for part in parts)
    return code, crossed
