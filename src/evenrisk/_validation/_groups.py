"""The protected attribute, encoded: groups, the attributes they are part of, and the cells they make.

`check_groups` in `_attributes` makes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from evenrisk._validation._arrays import factorize, listed, strict
from evenrisk._validation._warnings import ArgumentError, SmallCellWarning, warn_user

SMALL_CELL = 30  # rows; below this a cell's distribution function is mostly noise
DIGITS = re.compile("([0-9]{1,18})")
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")  # as text
ALL_BUT = "all but "  # begins the name of everybody else
MANY_NUMBERS = 20  # groups that are numbers; more of them look like a measurement
NUMBER_QUOTED = re.compile(r"'[-+]?[0-9.]+'")
MAX_GROUPS = 200  # all pairs are compared: beyond this the attribute is a measurement, not a group


@dataclass(frozen=True)
class Attribute:
    """One attribute: its classes, and which of them are compared with whom."""

    name: str  # of its column or columns; "" where it has none
    names: tuple[str, ...]  # (c,) of its classes
    classes: np.ndarray  # (k,) the class that each code is part of, −1 = unknown
    compared: np.ndarray  # (c,) whether a class is large enough to be compared
    rest: bool = False  # each class is compared with all others together, not with each
    reference: int | None = None  # the class that all others are compared with
    cuts: tuple[float, ...] = ()  # of an ordered one, whose classes lie between them; a last may be unknown
    sides: tuple[tuple[str, str], ...] = ()  # names of the people up to each cut and over it
    left_out: tuple[str, ...] = ()  # cuts with a small side, as text
    n_unknown: int = 0  # rows without a known value that are in no comparison of it

    @property
    def rests(self) -> tuple[str, ...]:
        """Names of everybody but each compared class, where that is what it is compared with."""
        names = [self.names[j] for j in np.flatnonzero(self.compared)]
        return tuple(f"{ALL_BUT}{name}" for name in names) if self.rest and len(names) > 2 else ()

    @property
    def all_names(self) -> list[str]:
        """Names of its classes, and of the unions of them that are compared."""
        sides = [side for pair in self.sides for side in pair]
        if not self.cuts:
            return [*self.names, *self.rests]
        known = [f"{self.name} known"] if len(self.names) > len(self.cuts) + 1 else []
        ends = {sides[0], sides[-1]}  # the outermost classes are sides of cuts too
        return [*(name for name in self.names if name not in ends), *sides, *known]

    @property
    def is_plain(self) -> bool:
        """Whether every class is compared with every other, and nobody is left out."""
        whole = bool(self.compared.all() and (self.classes >= 0).all())
        return whole and not self.rest and self.reference is None and not self.cuts


@dataclass(frozen=True)
class Groups:
    """The protected attribute, encoded."""

    code: np.ndarray  # (n,) int32 in 0 … k−1; the most likely group where there are probabilities
    labels: np.ndarray  # (k,) the values, sorted; tuples where several columns were crossed
    attributes: tuple[Attribute, ...] | None = None  # None: one, every class compared with every other
    share: np.ndarray | None = None  # (n, k) probability of each group
    comparison: Any = None  # what was asked for, with the cuts that were chosen
    title: str = ""  # of its column, or of all columns

    def __len__(self) -> int:
        return len(self.code)

    @property
    def names(self) -> list[str]:
        """The labels as text for messages, tables and plots; 1 and '1' stay apart."""
        names = [group_name(label) for label in self.labels]
        return names if len(set(names)) == len(names) else [repr(label) for label in self.labels.tolist()]

    def among(self, rows: np.ndarray) -> Groups:
        """Forget the groups that none of `rows` (a mask) is in; rows outside it get any code.

        With attributes it is done: their classes are those of rows that count.
        """
        if self.attributes is not None:
            return self
        present = np.unique(self.code[rows])
        if len(present) < 2:
            raise ArgumentError(
                "sensitive_features",
                "must have 2 or more groups among rows of positive weight, "
                f"got {len(present)} ({listed(self.labels[present])})",
            )
        recoded = np.zeros(len(self.labels), dtype=np.int32)
        recoded[present] = np.arange(len(present))
        return replace(self, code=recoded[self.code], labels=self.labels[present])

    def take(self, index: np.ndarray) -> Groups:
        """Keep some rows, and all groups."""
        share = None if self.share is None else self.share[index]
        return replace(self, code=self.code[index], share=share)


def group_name(label: Any) -> str:
    """Write a group's label as text; crossed columns are joined by ×."""
    if isinstance(label, tuple):
        return " × ".join(group_name(part) for part in label)
    if isinstance(label, datetime):
        return label.isoformat().removesuffix("T00:00:00")
    return str(label.item() if isinstance(label, np.generic) else label)


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
    check_sizes(np.bincount(code + 1, minlength=len(names) + 1)[1:], names, name=name, warn=warn)


def check_sizes(
    rows: np.ndarray, names: Sequence[str], *, name: str = "sensitive_features", warn: bool = True
) -> None:
    """Refuse what has no rows and warn of what has few, by name; of soft groups `rows` are expected ones."""
    empty = [each for each, n in zip(names, rows, strict=True) if n == 0]
    if empty:
        raise ArgumentError(name, f"must leave rows in every compared cell, got none in: {'; '.join(empty)}")
    if not warn:
        return
    small = [f"{each} ({n:.5g})" for each, n in zip(names, rows, strict=True) if n < SMALL_CELL]
    if small:
        message = f"fewer than {SMALL_CELL} rows in: {'; '.join(small)}. Gaps measured there are mostly noise"
        if len(names) > MANY_NUMBERS and all(NUMBER_QUOTED.search(each) for each in names):
            message += ". A measured attribute, such as age, can be compared at cuts: comparison='ordered'"
        warn_user(message, SmallCellWarning)


def group_columns(values: Any, name: str = "sensitive_features") -> list[tuple[str, Any]]:
    """Split the attribute into named one-dimensional columns."""
    import narwhals as nw

    if isinstance(values, Mapping):
        _refuse_equal_titles(name, values)
        opened = {str(title): (column, _opened(column)) for title, column in values.items()}
        columns = [
            (title, _values(series) if isinstance(series, nw.Series) else strict(column))
            for title, (column, series) in opened.items()
        ]
        if not columns or any(column.ndim != 1 for _, column in columns):
            raise ArgumentError(name, f"must map names to columns, got {values!r:.60}")
        return columns
    if getattr(values, "ndim", 0) == 2 and hasattr(values, "columns"):
        _refuse_equal_titles(name, values.columns)
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


def count_rows(values: Any, name: str = "sensitive_features") -> int:
    """Return the number of rows of the attribute, whatever holds its columns."""
    return len(group_columns(values, name)[0][1])


def _refuse_equal_titles(name: str, titles: Any) -> None:
    written = [str(title) for title in titles]
    twice = [title for title in written if written.count(title) > 1]
    if twice:
        raise ArgumentError(
            name, f"must have columns of different names, got {len(twice)} that are written {twice[0]!r}"
        )


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


def coded_column(
    name: str, title: str, column: Any, *, missing: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Code a column by its sorted distinct values; `name` is the argument, `title` the column of it.

    A missing value is −1 where it may be `missing`.
    """
    if column.ndim != 1:
        raise ArgumentError(name, f"must have one value per row, got shape {column.shape[1:]}")
    code, found = factorize(name, column)
    again, labels = factorize(name, _objects(found))
    code = np.append(again, -1)[code]
    if (code < 0).any() and not missing:
        raise missing_values(name, title, np.flatnonzero(code < 0))
    labels = np.asarray(labels)
    order = _order(labels)
    rank = np.full(len(order) + 1, -1, dtype=np.int64)  # the last is of −1
    rank[order] = np.arange(len(order))
    return rank[code], labels[order]


def missing_values(name: str, title: str, rows: np.ndarray) -> ArgumentError:
    """Return the error of a column in which some rows have no value."""
    where = f" in {title!r}" if title else ""
    return ArgumentError(
        name,
        f"must not have missing values, got {len(rows)}{where} (row {listed(rows, 3)}). "
        "Drop those rows, or say what they are by comparison=Comparison(unknown='exclude') or "
        "Comparison(unknown='group')",
    )


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


def cross(encoded: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
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
