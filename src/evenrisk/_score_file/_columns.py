"""Checks of the columns of a score file, and the messages of what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from evenrisk._validation import MAX_GROUPS, NUMBER, listed, merged_in_float64

FEW_COLUMNS = 12  # a header up to here is listed whole
MAX_LABELS = 10_000  # values of a label, one of which is positive; beyond this it is a measurement
PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")  # 02139 is a name
ATTRIBUTE = ("group", "ordered", "probability")
_UNKNOWN = ". Drop those rows, or say what they are by --unknown exclude or --unknown group"


class TableError(ValueError):
    """A table that cannot be audited; the message is for the person who passed it."""


class ColumnSpec(NamedTuple):
    """A column asked for."""

    role: str  # "score", "group", "ordered", "probability", "label" or "weight"
    name: str
    may_lack: bool = False  # whether a row may have no value

    def __str__(self) -> str:
        return f"{self.role} column {self.name!r}"

    @property
    def is_attribute(self) -> bool:
        """Whether it is part of the protected attribute."""
        return self.role in ATTRIBUTE

    @property
    def is_number(self) -> bool:
        """Whether its values must be numbers."""
        return self.role not in ("group", "label")


def check_column(spec: ColumnSpec, column: Any, positive: str | None) -> Any:
    """Return what the check for the column's role returns."""
    import pyarrow as pa

    try:
        if spec.role == "label":
            return binary(spec, column, positive)
        if spec.role == "group":
            return names(spec, column)
        return weights(spec, column) if spec.role == "weight" else numbers(spec, column)
    except pa.ArrowException as error:  # pyarrow has no way to work with this type
        kind = f"values of type {column.type} ({error})"
        raise TableError(f"{spec} must be text, numbers or booleans, got {kind}") from error


def numbers(spec: ColumnSpec, column: Any) -> np.ndarray:
    """Return finite numbers; booleans are 0 and 1, text is parsed. Narrow floats stay narrow.

    Where a row may have no value, that is NaN.
    """
    value = _floats(spec, column)
    bad = ~np.isfinite(value)
    if spec.may_lack and bad.any():
        bad[bad] = [_word(each) is not None for each in _some(column, bad)]
    if bad.any():
        came = column[int(np.argmax(bad))].as_py()
        hint = _number_hint(came) or (_UNKNOWN if spec.is_attribute and _word(came) is None else "")
        refuse_rows(spec, "be finite numbers", quoted(came), bad, hint)
    if lost := merged_in_float64(value, lambda rows: _exact(column, rows)):
        raise TableError(f"{spec} must be numbers that differ in float64 too, got {lost}")
    return value


def weights(spec: ColumnSpec, column: Any) -> np.ndarray:
    """Return numbers (float64), none negative, not all 0."""
    value = numbers(spec, column).astype(np.float64)
    if (value < 0).any():
        came = column[int(np.argmax(value < 0))].as_py()
        refuse_rows(spec, "not be negative", str(came), value < 0)
    if not value.any():
        raise TableError(f"{spec} must have a positive weight, got {len(value):,} zeros")
    return value


def names(spec: ColumnSpec, column: Any, most: int = MAX_GROUPS) -> tuple[np.ndarray, list[str]]:
    """Return the code of each row among the sorted distinct values, and those as text.

    A row without a value is −1 where it may have none, and an error elsewhere.
    """
    code, values = _encoded(spec, column, most)
    text = _as_text(values)
    known = sorted({name for name in text if name is not None})
    place = {name: i for i, name in enumerate(known)}
    code = np.array([-1 if name is None else place[name] for name in text] + [-1], dtype=np.int32)[code]
    if (code < 0).any() and not spec.may_lack:
        hint = _UNKNOWN if spec.is_attribute else ""
        refuse_rows(spec, "have a value in every row", "no value", code < 0, hint)
    return code, known


def binary(spec: ColumnSpec, column: Any, positive: str | None) -> tuple[np.ndarray, tuple[str, str]]:
    """Return whether each row is positive, and the words for negative and positive.

    `positive` is matched as text; where none is the same, as a number (1.0 is 1), then whatever the case
    (true is True). Not given, it is the greater of two numbers, True rather than False, or the last in the
    alphabet.
    """
    code, known = names(spec, column, MAX_LABELS)
    if len(known) < 2 or (len(known) > 2 and positive is None):
        hint = ". Say which one is positive with --positive" if len(known) > 2 else ""
        raise TableError(
            f"{spec} must have 2 values, got {len(known):,} ({listed(known, quote=quoted)}){hint}"
        )
    name = _ordered(known)[-1] if positive is None else _matched(spec, known, positive)
    others = [other for other in known if other != name]
    return code == known.index(name), (others[0] if len(others) == 1 else f"not {name!r}", name)


def _floats(spec: ColumnSpec, column: Any) -> np.ndarray:
    """Return numbers, float64 or narrower floats; NaN where a row has none."""
    import pyarrow as pa

    column = _decoded(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parsed(column)
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise TableError(f"{spec} must be numbers, got values of type {kind}")
    value = np.asarray(column.to_numpy())
    return value if value.dtype.kind == "f" else value.astype(np.float64)


def _exact(column: Any, rows: np.ndarray) -> list[Any]:
    """Return the numbers of some rows to their last digit."""
    return [Decimal(value.strip()) if isinstance(value, str) else value for value in _some(column, rows)]


def _some(column: Any, rows: np.ndarray) -> list[Any]:
    """Return the values of some rows (a mask)."""
    import pyarrow as pa

    found: list[Any] = _decoded(column).filter(pa.array(rows)).to_pylist()
    return found


def _parsed(column: Any) -> Any:
    """Parse text as numbers; null where it is none."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:  # spaces, or no number: the slow way
        column = compute.utf8_trim_whitespace(column)
        is_number = compute.match_substring_regex(column, f"^{NUMBER.pattern}$")
        return compute.if_else(is_number, column, pa.scalar(None, column.type)).cast(pa.float64())


def _number_hint(value: Any) -> str:
    """Suggest how to write what looks like a number and is none."""
    text = value.strip() if isinstance(value, str) else ""
    if text.endswith("%"):
        return ". Write percentages without the sign: 45, or 0.45"
    if re.fullmatch(r"[-+]?[0-9]+(,[0-9]+)+", text):
        return ". Write decimals with a point, and thousands without a sign"
    return ""


def _decoded(column: Any) -> Any:
    """Return a column without its dictionary."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _encoded(spec: ColumnSpec, column: Any, most: int) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each row among the distinct values, −1 where it has none, and those."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = _check_nameable(spec, column).dictionary_encode()
    column = column.combine_chunks()  # unites the dictionaries of the chunks
    values = _check_nameable(spec, column.dictionary)
    code = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(code + 1, minlength=len(values) + 1)[1:])
    if len(used) > most:
        hint = ". Name a measured attribute, such as age, with --ordered" if spec.role == "group" else ""
        came = f"{len(used):,} in {len(code):,} rows"
        raise TableError(f"{spec} must have at most {most:,} distinct values, got {came}{hint}")
    place = np.full(len(values) + 1, -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    return place[code], values.take(pa.array(used)).to_pylist()


def _check_nameable(spec: ColumnSpec, values: Any) -> Any:
    """Refuse types of values that name nothing: all but text, numbers and booleans."""
    from pyarrow import types as kinds

    text = (kinds.is_string, kinds.is_large_string)
    others = (kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_boolean, kinds.is_null)
    if any(is_kind(values.type) for is_kind in (*text, *others)):
        return values
    raise TableError(f"{spec} must be text, numbers or booleans, got values of type {values.type}")


def _as_text(values: Sequence[Any]) -> list[str | None]:
    """Return distinct values as text, None for none. Text that is all numbers is written as numbers are."""
    text = [_word(value) for value in values]
    if all(name is None or PLAIN_NUMBER.fullmatch(name) for name in text):
        return [name and re.sub(r"\.0+$", "", name) for name in text]
    return text


def _word(value: Any) -> str | None:
    """Return one value as text; None for none."""
    if isinstance(value, str):
        return value.strip() or None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (float, Decimal)) and abs(float(value)) < 1e15 and value == int(value):
        return str(int(value))
    return str(value)


def _ordered(known: Sequence[str]) -> list[str]:
    """Sort by number where all are numbers, else by the alphabet whatever the case."""
    number = {name: _number(name) for name in known}
    likeness: Callable[[str], Any] = str.casefold if None in number.values() else number.get
    return sorted(known, key=lambda name: (likeness(name), name))


def _matched(spec: ColumnSpec, known: Sequence[str], positive: str) -> str:
    """Return the value that `positive` names."""
    likenesses: tuple[Callable[[str], Any], ...] = (str.strip, _number, str.casefold)
    for likeness in likenesses:
        asked = likeness(positive)
        found = [name for name in known if asked is not None and likeness(name) == asked]
        if len(found) == 1:
            return found[0]
    near, has = suggestion(positive, known), listed(known, quote=quoted)
    raise TableError(f"positive must be a value of {spec}, got {quoted(positive)}{near} (it has {has})")


def _number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def quoted(value: Any, most: int = 60) -> str:
    """Return a value of the file as a message shows it, shortened."""
    if value is None:
        return "no value"
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, if one is near."""
    by_case = {other.strip().casefold(): other for other in known}
    near = get_close_matches(name.strip().casefold(), by_case, n=1)
    return f"; did you mean {quoted(by_case[near[0]])}?" if near else ""


def refuse_rows(spec: ColumnSpec, required: str, came: str, bad: np.ndarray, hint: str = "") -> None:
    """Refuse the rows of a mask: the message shows the first of them, and how many there are."""
    row = int(np.argmax(bad)) + 1
    count = f"{np.count_nonzero(bad):,} of {len(bad):,} rows; the first data row is 1"
    raise TableError(f"{spec} must {required}, got {came} in data row {row:,} ({count}){hint}")


def refuse_twice(specs: Sequence[ColumnSpec]) -> None:
    """Refuse a column asked for twice in one role, or in two roles of the attribute."""
    seen: dict[str, ColumnSpec] = {}
    for spec in specs:
        kind = "attribute" if spec.is_attribute else spec.role
        other = seen.setdefault(f"{kind} {spec.name}", spec)
        if other is not spec:
            as_both = "twice" if other == spec else f"as {other.role} and as {spec.role}"
            raise TableError(f"{spec.role} columns must differ, got {spec.name!r} {as_both}")


def positions(header: Sequence[str], specs: Sequence[ColumnSpec]) -> dict[str, int]:
    """Return the place of each column in the header, whose names may have spaces around them."""
    found = {}
    for spec in specs:
        at = [i for i, name in enumerate(header) if name == spec.name]
        at = at or [i for i, name in enumerate(header) if name.strip() == spec.name]
        if not at:
            columns = f"its columns are {listed(header, FEW_COLUMNS, quoted)}"
            if len(header) > FEW_COLUMNS:
                columns = f"it has {len(header)} columns"
            raise TableError(f"{spec} must be in the file{suggestion(spec.name, header)} ({columns})")
        if len(at) > 1:
            raise TableError(f"{spec} must be in the file once, got {len(at)} columns of that name")
        found[spec.name] = at[0]
    return found
