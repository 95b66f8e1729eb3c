"""From columns as they were read to clean arrays: numbers, names and yes or no."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from evenrisk._tables._messages import TableError, Wanted, listed, meant, quoted, refuse_rows
from evenrisk._validation._arrays import merged
from evenrisk._validation._groups import MAX_GROUPS

MAX_LABELS = 10_000  # values of a label, one of which is positive; beyond this it is a measurement
NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")  # 02139 is a name


def numbers(wanted: Wanted, column: Any) -> np.ndarray:
    """Finite numbers; booleans are 0 and 1, text is parsed. Narrower floats than float64 stay narrow."""
    value = _floats(wanted, column)
    bad = ~np.isfinite(value)
    if bad.any():
        came = column[int(np.argmax(bad))].as_py()
        refuse_rows(wanted, "be finite numbers", quoted(came), bad, _number_hint(came))
    if lost := merged(value, lambda rows: _exact(column, rows)):
        raise TableError(f"{wanted} must be numbers that differ in float64 too, got {lost}")
    return value


def weights(wanted: Wanted, column: Any) -> np.ndarray:
    """Numbers (float64), none negative, not all 0."""
    value = numbers(wanted, column).astype(np.float64)
    if (value < 0).any():
        came = column[int(np.argmax(value < 0))].as_py()
        refuse_rows(wanted, "not be negative", str(came), value < 0)
    if not value.any():
        raise TableError(f"{wanted} must have a positive weight, got {len(value):,} zeros")
    return value


def names(wanted: Wanted, column: Any, most: int = MAX_GROUPS) -> tuple[np.ndarray, list[str]]:
    """Code a column by its distinct values as text, sorted; every row must have one."""
    code, values = _encoded(wanted, column, most)
    text = _as_text(values)
    known = sorted({name for name in text if name is not None})
    place = {name: i for i, name in enumerate(known)}
    code = np.array([-1 if name is None else place[name] for name in text] + [-1], dtype=np.int32)[code]
    if (code < 0).any():
        hint = ". Drop those rows or give them a group of their own" if wanted.role == "group" else ""
        refuse_rows(wanted, "have a value in every row", "no value", code < 0, hint)
    return code, known


def binary(wanted: Wanted, column: Any, positive: str | None) -> tuple[np.ndarray, tuple[str, str]]:
    """Whether each row is positive, and the words for negative and positive.

    `positive` is matched as text; where none is the same, as a number (1.0 is 1), then whatever the case
    (true is True). Not given, it is the greater of two numbers, True rather than False, or the last in the
    alphabet.
    """
    code, known = names(wanted, column, MAX_LABELS)
    if len(known) < 2 or (len(known) > 2 and positive is None):
        hint = ". Say which one is positive with --positive" if len(known) > 2 else ""
        raise TableError(f"{wanted} must have 2 values, got {len(known):,} ({listed(known)}){hint}")
    name = _ordered(known)[-1] if positive is None else _matched(wanted, known, positive)
    others = [other for other in known if other != name]
    return code == known.index(name), (others[0] if len(others) == 1 else f"not {name!r}", name)


def _floats(wanted: Wanted, column: Any) -> np.ndarray:
    """Numbers, float64 or narrower floats; NaN where a row has none."""
    import pyarrow as pa

    column, kind = _decoded(column)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parsed(column)
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise TableError(f"{wanted} must be numbers, got values of type {kind}")
    value = np.asarray(column.to_numpy())
    return value if value.dtype.kind == "f" else value.astype(np.float64)


def _exact(column: Any, rows: np.ndarray) -> list[Any]:
    """Numbers of some rows to their last digit."""
    import pyarrow as pa

    values = _decoded(column)[0].filter(pa.array(rows)).to_pylist()
    return [Decimal(value.strip()) if isinstance(value, str) else value for value in values]


def _parsed(column: Any) -> Any:
    """Text to numbers; null where it is none."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:  # spaces, or no number: the slow way
        column = compute.utf8_trim_whitespace(column)
        is_number = compute.match_substring_regex(column, NUMBER)
        return compute.if_else(is_number, column, pa.scalar(None, column.type)).cast(pa.float64())


def _number_hint(value: Any) -> str:
    """How to write what looks like a number and is none."""
    text = value.strip() if isinstance(value, str) else ""
    if text.endswith("%"):
        return ". Write percentages without the sign: 45, or 0.45"
    if re.fullmatch(r"[-+]?[0-9]+(,[0-9]+)+", text):
        return ". Write decimals with a point, and thousands without a sign"
    return ""


def _decoded(column: Any) -> tuple[Any, Any]:
    """A column without its dictionary, and its type."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column, column.type


def _encoded(wanted: Wanted, column: Any, most: int) -> tuple[np.ndarray, list[Any]]:
    """Code a column by its distinct values, −1 where it has none."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = _nameable(wanted, column).dictionary_encode()
    column = column.combine_chunks()  # unites the dictionaries of the chunks
    values = _nameable(wanted, column.dictionary)
    code = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(code + 1, minlength=len(values) + 1)[1:])
    if len(used) > most:
        hint = ": cut a measured attribute into classes first" if wanted.role == "group" else ""
        came = f"{len(used):,} in {len(code):,} rows"
        raise TableError(f"{wanted} must have at most {most:,} distinct values, got {came}{hint}")
    place = np.full(len(values) + 1, -1, dtype=np.int32)
    place[used] = np.arange(len(used))
    return place[code], values.take(pa.array(used)).to_pylist()


def _nameable(wanted: Wanted, values: Any) -> Any:
    """Let kinds of values pass that name something: text, numbers and booleans."""
    import pyarrow as pa

    known = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_null,
    )
    if any(is_kind(values.type) for is_kind in known):
        return values
    raise TableError(f"{wanted} must be text, numbers or booleans, got values of type {values.type}")


def _as_text(values: Sequence[Any]) -> list[str | None]:
    """Write distinct values as text; None for none. Text that is all numbers is written as numbers are."""
    text = [_word(value) for value in values]
    if all(name is None or PLAIN_NUMBER.fullmatch(name) for name in text):
        return [name and re.sub(r"\.0+$", "", name) for name in text]
    return text


def _word(value: Any) -> str | None:
    """Write one value as text; None for none."""
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


def _matched(wanted: Wanted, known: Sequence[str], positive: str) -> str:
    """Find the value that `positive` names."""
    likenesses: tuple[Callable[[str], Any], ...] = (str.strip, _number, str.casefold)
    for likeness in likenesses:
        asked = likeness(positive)
        found = [name for name in known if asked is not None and likeness(name) == asked]
        if len(found) == 1:
            return found[0]
    near = meant(positive, known)
    raise TableError(
        f"positive must be a value of {wanted}, got {quoted(positive)}{near} (it has {listed(known)})"
    )


def _number(text: str) -> float | None:
    """The number that a text is, or None."""
    return float(text) if re.fullmatch(NUMBER, text.strip()) else None
