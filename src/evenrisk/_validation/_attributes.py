"""The protected attribute, read as a comparison says: the classes of every attribute, row by row.

    check_groups(values, n, comparison="each") → Groups(code, labels, attributes)

A *class* is one value of one attribute: a sex, a race, a sex and race where they are crossed, the ages
between two cuts. If nothing else is asked for, there is one attribute and every class is compared with every
other. Otherwise rows are coded by the finest classes that occur, those of all attributes together, so that a
row has one code whatever is compared, and an `Attribute` says which of its classes each code is part of.
Unknown values and small classes have codes like others, which take part in no comparison. With probabilities
a row is in every class, with a share in each.

Conventions
-----------
n rows, k codes, c classes of one attribute. A row *counts* if its weight is positive: classes, cuts and sizes
are those of the rows that count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from evenrisk._validation._arrays import check_length, check_number, listed
from evenrisk._validation._comparison import Comparison, check_comparison
from evenrisk._validation._groups import (
    MAX_GROUPS,
    Attribute,
    Groups,
    coded_column,
    cross,
    group_columns,
    group_name,
    missing_values,
)
from evenrisk._validation._warnings import ArgumentError

UNKNOWN_NAME = "unknown"
N_CUTS = 10  # of an ordered column, where nothing is said
MAX_CUTS = 100
MAX_CODES = 5000  # combinations of the classes of all attributes
SUM_TOLERANCE = 0.01  # of the probabilities of a row, which a file may have rounded
TIE = 1e-12  # of a share of all weight: the order of additions


def check_groups(
    sensitive_features: Any,
    n: int,
    *,
    name: str = "sensitive_features",
    at_least: int = 2,
    hint: str = "",
    comparison: Any = "crossed",
    weight: np.ndarray | None = None,
) -> Groups:
    """Encode the protected attribute: one column or several, and who is compared.

    `hint` says what to do where there are too few groups. Where every group is compared with every other,
    they are those of all rows, whatever their `weight` (n,). Groups that have been checked are returned as
    they are.
    """
    if isinstance(sensitive_features, Groups):
        check_length(name, len(sensitive_features.code), n)
        return sensitive_features
    asked = check_comparison(comparison)
    columns = group_columns(sensitive_features, name)
    for _, column in columns:
        check_length(name, len(column), n)
    title = " × ".join(title for title, _ in columns)
    if not asked.is_plain:
        counts = np.ones(n, dtype=bool) if weight is None else weight > 0
        rows = _Rows(name, counts, np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64))
        found = _soft_groups(columns, asked, rows) if asked.probabilities else _groups(columns, asked, rows)
        return replace(found, comparison=_resolved(asked, found), title=title)
    encoded = [coded_column(name, title, column) for title, column in columns]
    code, labels = encoded[0] if len(encoded) == 1 else cross(encoded)
    if len(labels) < at_least:
        came = f" ({listed(labels)})" if len(labels) else ""
        advice = f". {hint}" if hint else ""
        raise ArgumentError(name, f"must have {at_least} or more groups, got {len(labels)}{came}{advice}")
    _refuse_many(name, len(labels), n)
    groups = Groups(code.astype(np.int32), labels, comparison=asked, title=title)
    _refuse_equal_names(name, groups.names)
    return groups


def _refuse_many(name: str, found: int, n: int) -> None:
    if found > MAX_GROUPS:
        raise ArgumentError(
            name,
            f"must have at most {MAX_GROUPS} groups, got {found} distinct values in {n} rows: compare a "
            "measured attribute at cuts (Comparison(ordered=...); in the command --ordered), or sort it into "
            "classes",
        )


def _refuse_equal_names(name: str, names: Sequence[str], what: str = "groups") -> None:
    if len(set(names)) < len(names):
        twice = next(each for each in names if list(names).count(each) > 1)
        raise ArgumentError(
            name,
            f"must have {what} of different names, got {list(names).count(twice)} {what} that are written "
            f"{twice}",
        )


class _Rows(NamedTuple):
    """The rows whose attribute is read."""

    name: str  # of the argument
    counts: np.ndarray  # (n,) whether a row counts
    weight: np.ndarray  # (n,)


class _Classes(NamedTuple):
    """The classes of one attribute, row by row."""

    title: str  # of its column or columns; "" where it has none
    code: np.ndarray  # (n,) class of each row, −1 = unknown
    labels: np.ndarray  # (c,) objects
    crossed: bool = False  # of several columns
    cuts: tuple[float, ...] | None = None  # of an ordered one; its classes lie between them
    left_out: tuple[str, ...] = ()  # cuts with a small side, as text


def _groups(columns: list[tuple[str, Any]], asked: Comparison, rows: _Rows) -> Groups:
    """Encode columns in which a row has one value or none."""
    titles = [title for title, _ in columns]
    cuts = _asked_cuts(asked, titles)
    nominal, found = [], []
    for place, (title, column) in enumerate(columns):
        if place in cuts:
            found.append(_ordered(title, column, cuts[place], asked, rows))
        else:
            nominal.append(_nominal(title, column, asked, rows))
    several = nominal if asked.columns != "crossed" or len(nominal) == 1 else []
    if asked.columns != "each" and len(nominal) > 1:
        several = [*several, _crossed(nominal, rows)]
    found = [*several, *found]
    references = _references(asked, titles, found)
    attributes = [
        _attribute(each, asked, references.get(each.title), rows, prefix=len(found) > 1) for each in found
    ]
    code, row = _finest([attribute.classes for attribute in attributes], rows)
    attributes = [replace(each, classes=each.classes[row]) for each in attributes]
    labels = _labels_of_codes(attributes, [each.labels for each in found])
    _refuse_equal_names(rows.name, [each.name for each in attributes], "attributes")
    _refuse_equal_names(rows.name, [name for each in attributes for name in each.all_names])
    plain = len(attributes) == 1 and attributes[0].is_plain
    return Groups(code, labels, None if plain else tuple(attributes))


def _nominal(title: str, column: Any, asked: Comparison, rows: _Rows) -> _Classes:
    """Return the values of a column as classes, those of rows that count."""
    code, labels = coded_column(rows.name, title, column, missing=asked.unknown != "error")
    code, labels = _unknown_as_class(code, np.asarray(labels, dtype=object), asked)
    return _occurring(_Classes(title, code, labels), rows)


def _unknown_as_class(
    code: np.ndarray, labels: np.ndarray, asked: Comparison
) -> tuple[np.ndarray, np.ndarray]:
    """Give unknown values a class of their own where that is asked for."""
    if asked.unknown != "group" or not (code < 0).any():
        return code, labels
    known = [i for i, label in enumerate(labels) if isinstance(label, str) and label == UNKNOWN_NAME]
    if known:  # the data call some people so
        return np.where(code < 0, known[0], code), labels
    return np.where(code < 0, len(labels), code), np.append(labels, UNKNOWN_NAME)


def _occurring(found: _Classes, rows: _Rows) -> _Classes:
    """Forget the classes that no row which counts is in."""
    present = np.unique(found.code[rows.counts & (found.code >= 0)])
    recoded = np.full(len(found.labels) + 1, -1)  # the last is of −1
    recoded[present] = np.arange(len(present))
    _refuse_many(rows.name, len(present), len(found.code))
    return found._replace(code=recoded[found.code], labels=found.labels[present])


def _crossed(columns: list[_Classes], rows: _Rows) -> _Classes:
    """Return the combinations of several columns that occur; unknown where one of them is."""
    title = " × ".join(each.title for each in columns)
    known = np.logical_and.reduce([each.code >= 0 for each in columns])
    code = np.full(len(known), -1)
    if not known.any():
        return _Classes(title, code, np.empty(0, dtype=object), crossed=True)
    code[known], labels = cross([(each.code[known], each.labels) for each in columns])
    return _occurring(_Classes(title, code, labels, crossed=True), rows)


def _ordered(title: str, column: Any, cuts: Any, asked: Comparison, rows: _Rows) -> _Classes:
    """Cut a column of numbers; cuts with a small side are left out."""
    value = _measurements(title, column, asked, rows)
    known = ~np.isnan(value)
    counts = known & rows.counts
    if not counts.any():
        raise ArgumentError(rows.name, f"must have known values{_within(title)}, got none")
    distinct, index = np.unique(value[counts], return_inverse=True)
    mass = np.bincount(index.ravel(), rows.weight[counts])
    upto, n_upto = np.cumsum(mass) / mass.sum(), np.cumsum(np.bincount(index.ravel()))
    if isinstance(cuts, (int, np.integer)):
        share = np.arange(1, cuts + 1) / (cuts + 1)
        at = np.unique(np.searchsorted(upto, share - TIE))
        chosen = distinct[at[at < len(distinct) - 1]]
        if not len(chosen):
            came = f"{listed(distinct)}" + (" for nearly all" if len(distinct) > 1 else "")
            raise ArgumentError(rows.name, f"must have values to cut between{_within(title)}, got {came}")
    else:
        chosen = _given_cuts(title, cuts, distinct)
    at = np.searchsorted(distinct, chosen, side="right") - 1  # last value that is up to the cut
    small = _is_small(
        asked, np.minimum(n_upto[at], n_upto[-1] - n_upto[at]), np.minimum(upto[at], 1 - upto[at])
    )
    left_out = tuple(_number(cut) for cut in chosen[small])
    if small.all():
        raise ArgumentError(
            rows.name,
            f"must have a cut{_within(title)} with {_enough(asked)} on both sides, got none of "
            f"{', '.join(left_out[:5])}",
        )
    chosen = chosen[~small]
    code = np.where(known, np.searchsorted(chosen, value, side="left"), -1)
    ends = [_number(cut) for cut in chosen]
    if len(set(ends)) < len(ends):
        ends = [repr(float(cut)) for cut in chosen]
    between = [f"over {low} to {high}" for low, high in pairwise(ends)]
    labels = np.array([f"up to {ends[0]}", *between, f"over {ends[-1]}"], dtype=object)
    if (rows.counts & ~known).any():
        code, labels = _unknown_as_class(code, labels, asked)
    return _Classes(title, code, labels, cuts=tuple(float(cut) for cut in chosen), left_out=left_out)


def _measurements(title: str, column: Any, asked: Comparison, rows: _Rows) -> np.ndarray:
    """Return the numbers of an ordered column, NaN where one is unknown."""
    import pandas as pd

    if column.ndim != 1:
        raise ArgumentError(rows.name, f"must have one value per row, got shape {column.shape[1:]}")
    kind = column.dtype.kind
    entries = [each for each in column if not pd.isna(each)] if kind == "O" else []
    good = kind in "fiub" or (
        kind == "O" and all(isinstance(each, (int, float, np.number)) for each in entries)
    )
    if not good:
        text = [each for each in entries if not isinstance(each, (int, float, np.number))]
        came = repr(text[0]) if text else str(column.dtype)
        raise ArgumentError(rows.name, f"must have numbers in an ordered column, got {came}{_within(title)}")
    value = _as_floats(column)
    if np.isinf(value).any():
        raise ArgumentError(rows.name, f"must have finite numbers{_within(title)}, got an infinite one")
    missing = np.flatnonzero(np.isnan(value))
    if asked.unknown == "error" and len(missing):
        raise missing_values(rows.name, title, missing)
    return value


def _as_floats(column: np.ndarray) -> np.ndarray:
    """Return numbers as float64, NaN where one is missing."""
    import pandas as pd

    try:
        return pd.to_numeric(pd.Series(column)).to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:  # a whole number without end
        return np.array([np.nan if pd.isna(each) else _float(each) for each in column])


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else -float("inf")


def _within(title: str) -> str:
    return f" in {title!r}" if title else ""


def _given_cuts(title: str, cuts: Any, distinct: np.ndarray) -> np.ndarray:
    """Return cuts given by the user, in order; each must leave people on both sides."""
    if not isinstance(cuts, (list, tuple)) or not cuts:
        raise ArgumentError(
            "ordered", f"must have a number of cuts, or the cuts,{_within(title)}, got {cuts!r:.60}"
        )
    found = np.unique([float(check_number("ordered", cut, low=-np.inf)) for cut in cuts])
    if len(found) > MAX_CUTS:
        raise ArgumentError("ordered", f"must have at most {MAX_CUTS} cuts{_within(title)}, got {len(found)}")
    beyond = found[(found < distinct[0]) | (found >= distinct[-1])]
    if len(beyond):
        raise ArgumentError(
            "ordered",
            f"must leave people on both sides of each cut{_within(title)}, whose values run from "
            f"{_number(distinct[0])} to {_number(distinct[-1])}, got {_number(beyond[0])}",
        )
    return found


def _number(value: float) -> str:
    return f"{value:.10g}"


def _is_small(asked: Comparison, n: np.ndarray, share: np.ndarray) -> np.ndarray:
    return (n < (asked.min_rows or 0)) | (share < asked.min_share - TIE)


def _is_left_out(names: Sequence[str], asked: Comparison) -> np.ndarray:
    return np.array([name in asked.left_out for name in names], dtype=bool)


def _is_limited(asked: Comparison) -> bool:
    return bool(asked.min_rows or asked.min_share)


def _enough(asked: Comparison) -> str:
    """Return how large a group must be, in words."""
    parts = [f"{asked.min_rows} rows"] if asked.min_rows else []
    parts += [f"a share of {asked.min_share:g}"] if asked.min_share else []
    return " and ".join(parts) or "a row"


def _asked_cuts(asked: Comparison, titles: list[str]) -> dict[int, Any]:
    """Return the number of cuts, or the cuts, of each ordered column, by place."""
    if asked.ordered is False:
        return {}
    if asked.ordered is True:
        return dict.fromkeys(range(len(titles)), N_CUTS)
    given = asked.ordered
    if not isinstance(given, Mapping):
        one = isinstance(given, str) or not isinstance(given, Iterable)
        named = [given] if one else list(given)
        if not all(isinstance(column, (str, int)) for column in named):
            raise ArgumentError("ordered", f"must name columns, or map them to their cuts, got {given!r:.60}")
        given = dict.fromkeys(named, N_CUTS)
    found: dict[int, Any] = {}
    for column, cuts in given.items():
        place = _place("ordered", column, titles)
        if cuts is None or isinstance(cuts, (bool, str)):
            raise ArgumentError(
                "ordered", f"must map {column!r} to a number of cuts, or to the cuts, got {cuts!r:.60}"
            )
        if not isinstance(cuts, (list, tuple)):
            cuts = int(check_number("ordered", cuts, low=1, whole=True))
            if cuts > MAX_CUTS:
                raise ArgumentError("ordered", f"must have at most {MAX_CUTS} cuts, got {cuts}")
        found[place] = cuts
    return found


def _place(argument: str, column: Any, titles: list[str]) -> int:
    """Return the place of a column that goes by its name or by its place."""
    if column in titles:
        return titles.index(column)
    is_number = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
    if is_number and str(column) in titles:  # the names of a frame's columns may be numbers
        return titles.index(str(column))
    if is_number and 0 <= column < len(titles):
        return int(column)
    known = listed([title or place for place, title in enumerate(titles)], 12)
    raise ArgumentError(argument, f"must name columns of the attribute ({known}), got {column!r:.60}")


def _references(asked: Comparison, titles: list[str], found: list[_Classes]) -> dict[str, Any]:
    """Return the reference group of each attribute that has one, by the attribute's title."""
    if asked.reference is None:
        return {}
    nominal = [each.title for each in found if each.cuts is None]
    if not isinstance(asked.reference, Mapping):
        if asked.against == "rest":
            raise ArgumentError("reference", f"must be None with against='rest', got {asked.reference!r:.60}")
        if len(nominal) != 1:
            first = nominal[0] if nominal else "race"
            raise ArgumentError(
                "reference",
                f"must say which attribute it is of, as in {{{first!r}: {asked.reference!r:.60}}} (in the "
                f"command {first}={group_name(asked.reference):.60}), where not one has groups but "
                f"{listed(nominal) or 'none'}",
            )
        return {nominal[0]: asked.reference}
    out = {}
    for column, group in asked.reference.items():
        title = column if column in nominal else titles[_place("reference", column, [*titles])]
        if title not in nominal:
            raise ArgumentError(
                "reference", f"must name attributes with groups ({listed(nominal)}), got {column!r:.60}"
            )
        out[title] = group
    return out


def _attribute(found: _Classes, asked: Comparison, reference: Any, rows: _Rows, *, prefix: bool) -> Attribute:
    """Return an attribute whose `classes` are of the rows, and refuse one with nothing to compare."""
    known = rows.counts & (found.code >= 0)
    c = len(found.labels)
    n = np.bincount(found.code[known], minlength=c)
    mass = np.bincount(found.code[known], rows.weight[known], minlength=c)
    words = [group_name(label) for label in found.labels]
    if len(set(words)) < len(words):
        words = [repr(label) for label in found.labels]
    titled = found.title and ((prefix and not found.crossed) or found.cuts is not None)
    names = tuple(f"{found.title} {word}" if titled else word for word in words)
    if c == 0:
        raise ArgumentError(rows.name, f"must have known values{_within(found.title)}, got none")
    compared = ~(_is_small(asked, n, mass / mass.sum()) | _is_left_out(names, asked))
    if found.cuts is not None:  # whose small sides are gone
        compared[: len(found.cuts) + 1] = True
    if np.count_nonzero(compared) < 2:
        big = "" if compared.all() or not _is_limited(asked) else f" of {_enough(asked)}"
        came = [f"{name} ({rows_})" for name, rows_ in zip(names, n, strict=True)]
        raise ArgumentError(
            rows.name,
            f"must have 2 or more groups{big}{_within(found.title)}, got {np.count_nonzero(compared)} of: "
            f"{listed(came, quote=str)}",
        )
    at = None if reference is None else _reference_at(found, names, compared, reference, asked)
    cuts = found.cuts or ()
    return Attribute(
        name=found.title,
        names=names,
        classes=found.code,
        compared=compared,
        rest=asked.against == "rest",
        reference=at,
        cuts=cuts,
        sides=tuple(_sides(found.title, cuts)),
        left_out=found.left_out,
        n_unknown=int(np.count_nonzero(rows.counts & (found.code < 0))),
    )


def _sides(title: str, cuts: tuple[float, ...]) -> list[tuple[str, str]]:
    """Name the two sides of each cut: 'age up to 47' and 'age over 47'."""
    ends = [_number(cut) for cut in cuts]
    if len(set(ends)) < len(ends):
        ends = [repr(cut) for cut in cuts]
    before = f"{title} " if title else ""
    return [(f"{before}up to {end}", f"{before}over {end}") for end in ends]


def _reference_at(
    found: _Classes, names: Sequence[str], compared: np.ndarray, reference: Any, asked: Comparison
) -> int:
    """Return the class of the reference group."""
    wanted = tuple(reference) if isinstance(reference, list) else reference
    for i, label in enumerate(found.labels):
        if label == wanted or names[i] == wanted or group_name(label) == wanted:
            if names[i] in asked.left_out:
                raise ArgumentError("reference", f"must not be left out, got {names[i]!r}")
            if not compared[i]:
                raise ArgumentError(
                    "reference", f"must have {_enough(asked)}, got {names[i]!r}, which has fewer"
                )
            return i
    raise ArgumentError(
        "reference",
        f"must be a group{_within(found.title)} ({listed(list(found.labels), 12)}), got {reference!r:.60}",
    )


def _finest(classes: list[np.ndarray], rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
    """Code rows by the combinations of classes that occur; return codes, and a row of each."""
    code = np.zeros(len(classes[0]), dtype=np.int64)
    for each in classes:
        code = np.unique(code * (each.max() + 2) + each + 1, return_inverse=True)[1].reshape(-1)
    row = np.unique(code, return_index=True)[1]
    if len(row) > MAX_CODES:
        raise ArgumentError(
            rows.name,
            f"must have at most {MAX_CODES} combinations of groups and cuts, got {len(row)}: compare fewer "
            "columns at a time, or with fewer cuts",
        )
    return code.astype(np.int32), row


def _labels_of_codes(attributes: list[Attribute], labels: list[np.ndarray]) -> np.ndarray:
    """Return what each code stands for: a class, or a tuple of one of each attribute; None is unknown."""
    columns = [
        [None if c < 0 else of[c] for c in each.classes] for each, of in zip(attributes, labels, strict=True)
    ]
    out = np.empty(len(columns[0]), dtype=object)
    out[:] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return out


def _soft_groups(columns: list[tuple[str, Any]], asked: Comparison, rows: _Rows) -> Groups:
    """Encode a table of probabilities, one column per group."""
    import pandas as pd

    if len(columns) < 2:
        raise ArgumentError(
            rows.name, f"must have a column of probabilities for each of 2 or more groups, got {len(columns)}"
        )
    share = np.empty((len(rows.counts), len(columns)))
    for j, (title, column) in enumerate(columns):
        if column.ndim != 1 or column.dtype.kind not in "fiubO":
            raise ArgumentError(rows.name, f"must have probabilities{_within(title)}, got {column.dtype}")
        entries = [each for each in column if not pd.isna(each)] if column.dtype.kind == "O" else []
        for each in entries:
            if not isinstance(each, (int, float, np.number)):
                raise ArgumentError(rows.name, f"must have probabilities{_within(title)}, got {each!r:.60}")
        share[:, j] = _as_floats(column)
    missing = np.logical_or.reduce(np.isnan(share), axis=1)
    if missing.any() and asked.unknown == "error":
        raise missing_values(rows.name, "", np.flatnonzero(missing))
    known = share[~missing]
    bad = np.flatnonzero(~missing)[((known < -TIE) | (known > 1 + TIE)).any(axis=1)]
    if len(bad):
        worst = share[bad[0]][(share[bad[0]] < 0) | (share[bad[0]] > 1)][0]
        raise ArgumentError(
            rows.name, f"must be probabilities from 0 to 1, got {worst:g} in row {bad[0]} (the first is 0)"
        )
    total = known.sum(axis=1)
    off = np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE + TIE)
    if len(off):
        raise ArgumentError(
            rows.name,
            f"must add up to 1 in each row, to within {SUM_TOLERANCE:g}, got {total[off[0]]:.4g} in row "
            f"{np.flatnonzero(~missing)[off[0]]} (the first is 0)",
        )
    share[~missing] = np.clip(known, 0.0, 1.0) / np.clip(known, 0.0, 1.0).sum(axis=1, keepdims=True)
    share[missing] = 0.0
    names = [title for title, _ in columns]
    if missing.any() and asked.unknown == "group":
        share, names = np.column_stack([share, missing]), [*names, UNKNOWN_NAME]
    return _compared_shares(share, names, missing, asked, rows)


def _compared_shares(
    share: np.ndarray, names: list[str], missing: np.ndarray, asked: Comparison, rows: _Rows
) -> Groups:
    """Return soft groups, small ones not compared; a row's code is its most likely group."""
    _refuse_many(rows.name, len(names), len(share))
    _refuse_equal_names(rows.name, names)
    known = rows.counts & (share.sum(axis=1) > 0)
    if not known.any():
        raise ArgumentError(rows.name, "must have known values, got none")
    n = share[known].sum(axis=0)
    mass = rows.weight[known] @ share[known]
    compared = ~(_is_small(asked, n, mass / mass.sum()) | _is_left_out(names, asked)) & (mass > 0)
    if np.count_nonzero(compared) < 2:
        came = listed([f"{name} ({rows_:.1f})" for name, rows_ in zip(names, n, strict=True)], quote=str)
        raise ArgumentError(
            rows.name,
            f"must have 2 or more groups of {_enough(asked)}, got {np.count_nonzero(compared)} of: {came}",
        )
    labels = np.array(names, dtype=object)
    classes = _Classes("", np.arange(len(names)), labels)
    if isinstance(asked.reference, Mapping):
        raise ArgumentError("reference", f"must be a column of probabilities, got {asked.reference!r:.60}")
    at = None
    if asked.reference is not None:
        at = _reference_at(classes, names, compared, asked.reference, asked)
    attribute = Attribute(
        name="",
        names=tuple(names),
        classes=classes.code,
        compared=compared,
        rest=asked.against == "rest",
        reference=at,
        n_unknown=int(np.count_nonzero(missing & rows.counts)) if asked.unknown == "exclude" else 0,
    )
    _refuse_equal_names(rows.name, attribute.all_names)
    return Groups(share.argmax(axis=1).astype(np.int32), labels, (attribute,), share)


def _resolved(asked: Comparison, found: Groups) -> Comparison:
    """Return the comparison with the cuts that were chosen and the groups that were left out by name.

    Other rows are then compared alike: how many of them are in a group does not matter any more.
    """
    attributes = found.attributes or ()
    cuts: dict[Any, list[float]] = {each.name: list(each.cuts) for each in attributes if each.cuts}
    if len(attributes) == 1 and "" in cuts:  # other rows' column may have a name
        cuts = {0: cuts[""]}
    small = [each.names[j] for each in attributes for j in np.flatnonzero(~each.compared)]
    return replace(
        asked,
        ordered=cuts or asked.ordered,
        left_out=tuple(dict.fromkeys([*asked.left_out, *small])),
        min_rows=0 if asked.min_rows else asked.min_rows,
        min_share=0.0,
    )
