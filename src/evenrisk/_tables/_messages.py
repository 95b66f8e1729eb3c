"""What is said of a bad table, and the check that its columns are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

FEW_COLUMNS = 12  # a header up to here is listed whole


class TableError(ValueError):
    """A table that cannot be audited; the message is for the person who gave it."""


class Wanted(NamedTuple):
    """A column asked for."""

    role: str  # "score", "group", "label" or "weight"
    name: str

    def __str__(self) -> str:
        return f"{self.role} column {self.name!r}"

    @property
    def is_number(self) -> bool:
        """Whether its values must be numbers."""
        return self.role in ("score", "weight")


def quoted(value: Any, most: int = 60) -> str:
    """Write a value of the file for a message, shortened; no value is said in words."""
    if value is None:
        return "no value"
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(values: Iterable[Any], most: int = 5) -> str:
    """Write a few values for a message."""
    few = list(islice(values, most + 1))
    return ", ".join(map(quoted, few[:most])) + (", …" if len(few) > most else "")


def meant(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, where one is near."""
    by_case = {other.strip().casefold(): other for other in known}
    near = get_close_matches(name.strip().casefold(), by_case, n=1)
    return f"; did you mean {quoted(by_case[near[0]])}?" if near else ""


def refuse_rows(wanted: Wanted, required: str, came: str, bad: np.ndarray, hint: str = "") -> None:
    """Raise for the rows of a mask: what came in the first of them, and how many there are."""
    row = int(np.argmax(bad)) + 1
    count = f"{np.count_nonzero(bad):,} of {len(bad):,} rows; the first data row is 1"
    raise TableError(f"{wanted} must {required}, got {came} in data row {row:,} ({count}){hint}")


def refuse_twice(wanted: Sequence[Wanted]) -> None:
    """Refuse a column asked for twice in one role."""
    for i, column in enumerate(wanted):
        if column in wanted[:i]:
            raise TableError(f"{column.role} columns must differ, got {column.name!r} twice")


def positions(header: Sequence[str], wanted: Sequence[Wanted]) -> dict[str, int]:
    """Find each column in the header: as it is written there, or else but for spaces around it."""
    found = {}
    for column in wanted:
        at = [i for i, name in enumerate(header) if name == column.name]
        at = at or [i for i, name in enumerate(header) if name.strip() == column.name]
        if not at:
            columns = f"its columns are {listed(header, FEW_COLUMNS)}"
            if len(header) > FEW_COLUMNS:
                columns = f"it has {len(header)} columns"
            raise TableError(f"{column} must be in the file{meant(column.name, header)} ({columns})")
        if len(at) > 1:
            raise TableError(f"{column} must be in the file once, got {len(at)} columns of that name")
        found[column.name] = at[0]
    return found
