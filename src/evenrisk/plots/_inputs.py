"""What the trade-off display is given: points with errors and labels, scores by name, long tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any


def check_points(name: str, values: Any, n: int | None = None, least: float = float("-inf")) -> list[float]:
    """Let finite numbers pass, n of them where n is known."""
    given = _listed(name, values)
    if not given or (n is not None and len(given) != n):
        raise ValueError(f"`{name}` must have one entry per point, {n or '1 or more'}, got {len(given)}")
    what = "finite numbers" if least < 0 else f"finite numbers of at least {least:g}"
    found = []
    for i, value in enumerate(given):
        try:
            number = float("nan") if isinstance(value, (str, bytes)) else float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not isfinite(number) or number < least:
            raise ValueError(f"`{name}` must be {what}, got {value!r:.60} in place {i}")
        found.append(number)
    return found


def check_errors(name: str, error: Any, n: int) -> list[list[float]] | None:
    """Give the lengths of error bars below and above, from shape (n,) or (2, n)."""
    if error is None:
        return None
    sides = _listed(name, error)
    nested = [hasattr(side, "__len__") and not isinstance(side, str) for side in sides]
    if sides and all(nested):
        if len(sides) != 2:
            raise ValueError(f"`{name}` must have shape ({n},) or (2, {n}), got {len(sides)} rows")
        return [check_points(name, side, n, least=0.0) for side in sides]
    return [check_points(name, sides, n, least=0.0)] * 2


def check_labels(labels: Any, n: int) -> list[str] | None:
    """Write the labels of n points."""
    if labels is None:
        return None
    texts = [_text(label) for label in _listed("labels", labels)]
    if len(texts) != n:
        raise ValueError(f"`labels` must have one entry per point, {n}, got {len(texts)}")
    return texts


def named_scores(y_scores: Any) -> dict[str | None, Any]:
    """Give the scores by name; a single one without a name has None."""
    named: dict[str | None, Any]
    if isinstance(y_scores, Mapping):
        named = {_text(name): score for name, score in y_scores.items()}
    elif (frame := _frame(y_scores)) is not None:
        named = {_text(column.name): column.to_native() for column in frame.iter_columns()}
    else:
        named = {None: y_scores}
    if not named:
        raise ValueError("`y_scores` must hold 1 score or more, got none")
    return named


def methods_of(
    table: Any, method: str | None, numbers: Mapping[str, str | Sequence[str] | None], labels: str | None
) -> list[tuple[str, dict[str, Any], list[Any] | None]]:
    """Split a long table by method: its name, the `numbers` by their keys, and the labels of its rows."""
    wanted = {key: _column_names(name) for key, name in numbers.items()}
    columns = _columns(table, [method, *(name for names in wanted.values() for name in names), labels])
    rows: dict[str, list[int]] = {}
    n = len(next(iter(columns.values())))
    for i, name in enumerate([""] * n if method is None else columns[method]):
        if name is None or name != name:
            raise ValueError(f"`{method}` must name the method of each row, got {name!r} in row {i}")
        rows.setdefault(_text(name), []).append(i)
    for name in {name for names in wanted.values() for name in names}:
        check_points(name, columns[name])
    split = []
    for name, index in rows.items():
        part = {column: [values[i] for i in index] for column, values in columns.items()}
        found = {
            key: _as_given(numbers[key], [part[each] for each in names]) for key, names in wanted.items()
        }
        split.append((name, found, None if labels is None else part[labels]))
    return split


def _as_given(name: str | Sequence[str] | None, columns: list[list[Any]]) -> Any:
    """One column for one name, a list of columns for several, None for none."""
    return None if name is None else columns[0] if isinstance(name, str) else columns


def _column_names(name: str | Sequence[str] | None) -> list[str]:
    return [] if name is None else [name] if isinstance(name, str) else list(name)


def _columns(table: Any, names: Sequence[str | None]) -> dict[str, list[Any]]:
    """Give columns of a data frame as lists."""
    frame = _frame(table)
    if frame is None:
        raise ValueError(f"`table` must be a data frame, got {type(table).__name__}")
    wanted = [name for name in names if name is not None]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise ValueError(
            f"`table` must have the columns {', '.join(map(repr, wanted))}, got none named "
            f"{', '.join(map(repr, missing))} among {', '.join(map(repr, frame.columns))}"
        )
    if len(frame) == 0:
        raise ValueError("`table` must have 1 row or more, got 0")
    return {name: frame[name].to_list() for name in wanted}


def _frame(table: Any) -> Any:
    """A data frame of any library, or None where it is none."""
    import narwhals as nw

    frame: Any = nw.from_native(table, pass_through=True, eager_only=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _listed(name: str, values: Any) -> list[Any]:
    """Let anything but text be listed."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise ValueError(f"`{name}` must be a list of values, got {values!r:.60}")
    return list(values)


def _text(value: Any) -> str:
    """Write a label; numbers without needless digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)
