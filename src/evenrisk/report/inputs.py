"""The data of an audit: checked once, named as the user names it, and who is compared under each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk._validation import (
    SMALL_CELL,
    ArgumentError,
    check_alignment,
    check_binary,
    check_codes,
    check_positive,
    check_scores,
    guessed_label,
    refuse_masked,
)
from evenrisk.metrics import STRATA, ScoredRows, check_parity, check_people
from evenrisk.report import words

if TYPE_CHECKING:
    from evenrisk.parity import Parity, Stratum

SMALLEST = 1e-150  # range of scores that plots and intervals can be computed for
FEWEST = 2  # rows of a compared cell; the rate of one person is 0 or 1 and would set every gap
DEFAULT_RULES = ("demographic_parity", "equalized_odds")  # the second where it can be measured


@dataclass(frozen=True)
class AuditData:
    """Score columns that all hold the same rows in the same groups, and what the data are called."""

    columns: dict[str, ScoredRows]
    group_name: str
    label: dict[str, str] | None  # "name", "negative", "positive"
    guess: str  # a sentence where the positive outcome was guessed

    @property
    def rows(self) -> ScoredRows:
        """The rows with the first of the scores."""
        return next(iter(self.columns.values()))

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Rows, negatives and positives of every group."""
        rows = self.rows
        n = np.bincount(rows.group, minlength=len(rows.groups)).tolist()
        positives: list[Any] = [None] * len(n)
        if rows.label is not None:
            positives = np.bincount(rows.group, rows.label, len(n)).astype(int).tolist()
        return [
            {"group": g, "rows": all_, "negatives": None if p is None else all_ - p, "positives": p}
            for g, all_, p in zip(rows.groups, n, positives, strict=True)
        ]


def check_data(
    y_true: Any, y_score: Any, sensitive_features: Any, sample_weight: Any, positive: Any
) -> AuditData:
    """Check outcomes, groups and weights once, and every score column."""
    columns = score_columns(y_score)
    named = {"y_true": y_true, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    scores = y_score if isinstance(y_score, Mapping) else {"y_score": y_score}
    titles = {name: f"y_score[{name!r}]" if str(name) in named else str(name) for name in scores}
    check_alignment(**named, **{titles[name]: column for name, column in scores.items()})
    y, label, guess = _outcomes(y_true, positive)
    several, checked = len(columns) > 1, {}
    for name, column in columns.items():
        with _naming(name, several):
            checked[name] = check_scores(column)
    n = len(next(iter(checked.values())))
    people = check_people(sensitive_features, sample_weight, n).with_labels(y)
    rows = {}
    for name, score in checked.items():
        with _naming(name, several):
            rows[name] = people.scored(score)
            _refuse_extreme_range(rows[name].score)
    return AuditData(rows, _group_name(sensitive_features), label, guess)


@contextmanager
def _naming(column: str, several: bool) -> Iterator[None]:
    """Name the score column in an error, where there are several."""
    try:
        yield
    except ArgumentError as error:
        if several:
            raise ArgumentError(error.argument, f"{error.problem} (score column {column!r})") from error
        raise


def _refuse_extreme_range(score: np.ndarray) -> None:
    spread = float(np.ptp(score / 2)) * 2
    if not (spread == 0 or SMALLEST <= spread <= 1 / SMALLEST):
        raise ArgumentError("y_score", f"must span {SMALLEST:g} to {1 / SMALLEST:g}, got {spread:g}")


def score_columns(y_score: Any) -> dict[str, Any]:
    """Return every score column by its name."""
    import narwhals as nw

    if isinstance(y_score, Mapping):
        columns = {str(name): column for name, column in y_score.items()}
        if len(columns) < len(y_score):
            raise ArgumentError("y_score", f"must have columns of different names, got {list(y_score)!r}")
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
        raise ArgumentError("y_score", "must have at least 1 column, got none")
    return columns


def _outcomes(y_true: Any, positive: Any) -> tuple[np.ndarray | None, dict[str, str] | None, str]:
    """Return outcomes as 0 and 1, what they are called, and a sentence where the positive one was guessed."""
    if y_true is None:
        if positive is not None:
            raise ArgumentError("positive", f"needs `y_true`, got {positive!r} and no outcomes")
        return None, None, ""
    name = str(getattr(y_true, "name", None) or "outcome")
    if positive is None:
        y, classes = check_binary(y_true, "y_true")
        label = {"name": name, "negative": _text(classes[0]), "positive": _text(classes[1])}
        return y, label, guessed_label("`y_true`", classes, "`positive`")
    y, others = check_positive(y_true, positive, "y_true", argument="positive")
    negative = _text(others[0]) if len(others) == 1 else f"not {_text(positive)!r}"
    return y, {"name": name, "negative": negative, "positive": _text(positive)}, ""


def _text(label: Any) -> str:
    return str(label.item() if isinstance(label, np.generic) else label)


def _group_name(sensitive_features: Any) -> str:
    """Return what the groups are called together: the column's name, or the crossed columns' names."""
    is_mapping = isinstance(sensitive_features, Mapping)
    names = sensitive_features if is_mapping else getattr(sensitive_features, "columns", None)
    if names is not None:
        return " × ".join(map(str, names))
    return str(getattr(sensitive_features, "name", None) or "group")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a rule compares: the groups with `FEWEST` rows or more in every cell of it."""

    rule: Parity
    enough: np.ndarray  # (k,) whether a group is compared
    left_out: list[dict[str, Any]]  # the other groups: their rows, and those of each cell

    @classmethod
    def of(cls, rows: ScoredRows, parity: str | Parity) -> Comparison:
        """Count the rows of every cell of a rule."""
        under = rows.under(parity)
        check_codes(under.code, under.n_cells)
        strata, k = under.parity.strata, len(rows.groups)
        counts = np.bincount(under.code[under.code >= 0], minlength=under.n_cells).reshape(len(strata), k)
        total = np.bincount(rows.group, minlength=k)
        enough = counts.min(axis=0) >= FEWEST
        left_out = [
            {
                "group": rows.groups[j],
                "rows": int(total[j]),
                "cells": [
                    {"stratum": stratum, "rows": int(counts[i, j]), "too_few": bool(counts[i, j] < FEWEST)}
                    for i, stratum in enumerate(strata)
                ],
            }
            for j in np.flatnonzero(~enough)
        ]
        return cls(under.parity, enough, left_out)

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        """What each stratum of the rule is."""
        return self.rule.describe()

    @property
    def possible(self) -> bool:
        """Whether there are two groups to compare."""
        return int(self.enough.sum()) > 1

    @property
    def names_left_out(self) -> set[str]:
        """The groups that are not compared."""
        return {entry["group"] for entry in self.left_out}

    @property
    def needed(self) -> str:
        """How many rows a group must have to be compared, in words."""
        which = " of each outcome" if len(self.rule.strata) > 1 else " of the outcome that it looks at"
        return f"at least {FEWEST} rows{which if self.rule.needs_label else ''}"

    def take(self, rows: ScoredRows) -> ScoredRows:
        """Return the rows of the compared groups, as if the others were not there."""
        under = rows.under(self.rule)
        return under.among(self.enough) if self.left_out else under


def comparisons(data: AuditData, parity: Any) -> tuple[list[Comparison], list[str]]:
    """Return what is compared under each rule, and why one of ours cannot be measured."""
    if parity is not None:
        asked = tuple(parity) if isinstance(parity, (list, tuple)) else (parity,)
        if not asked:
            raise ArgumentError("parity", "must name at least 1 rule, got none")
        return [_comparison(data, rule) for rule in asked], []
    first, second = DEFAULT_RULES
    found = [_comparison(data, first)]
    if data.rows.label is None:
        return found, []
    odds = Comparison.of(data.rows, second)
    if odds.possible:
        return [*found, odds], []
    named = words.too_few(odds.left_out, data.label)
    return found, [
        f"{odds.rule.title} could not be measured: fewer than 2 groups have {odds.needed}. "
        f"Too few rows: {named}."
    ]


def _comparison(data: AuditData, parity: Any) -> Comparison:
    """Return what is compared under a rule that was asked for; refuse one that has nothing to compare."""
    rule = check_parity(parity)
    if data.rows.label is None and rule.needs_label:
        raise ArgumentError("y_true", f"is required under {rule.name}, got None")
    found = Comparison.of(data.rows, rule)
    if not found.possible:
        raise ArgumentError(
            "sensitive_features",
            f"must have 2 or more groups of {found.needed} under "
            f"{rule.name}, got {int(found.enough.sum())}. Too few rows: "
            f"{words.too_few(found.left_out, data.label)}",
        )
    return found


def rates_compared(data: AuditData, found: Sequence[Comparison]) -> dict[str, list[int]]:
    """Return which groups count in the highest and the lowest of each rate at one cut-off.

    Those that every rule on the same people compares, and that have enough such people at all.
    """
    out = {}
    for rate, people in words.RATES.items():
        if data.label is None and rate != "selection_rate":
            continue
        same = [each for each in found if people in {words.RATES[stratum.rate] for stratum in each.strata}]
        gone = set().union(*(each.names_left_out for each in same))
        out[rate] = [
            j for j, cell in enumerate(data.cells) if cell[people] >= FEWEST and cell["group"] not in gone
        ]
    return out


def small_cells(data: AuditData, found: Sequence[Comparison]) -> list[str]:
    """Return sentences that name every small cell, and every group that a rule leaves out."""
    by_rule = {each.rule: each for each in found}
    named = {
        (entry["group"], stratum.rate)
        for each in found
        for entry in each.left_out
        for stratum, cell in zip(each.strata, entry["cells"], strict=True)
        if cell["too_few"]
    }
    everywhere = set.intersection(*(each.names_left_out for each in found))
    small = [
        (name, n)
        for group, rate, name, n in _named_cells(data)
        if n < SMALL_CELL and group not in everywhere and (group, rate) not in named
    ]
    left_out = [
        words.left_out(rule.words, each.left_out, data.label, each.needed)
        for rule, each in by_rule.items()
        if each.left_out
    ]
    return [*words.small_cells(small, SMALL_CELL), *left_out]


def _named_cells(data: AuditData) -> list[tuple[str, str, str, int]]:
    """Return every group, and with labels every group within a label: group, rate, words, rows."""
    cells = []
    for cell in data.cells:
        name = words.quoted_group(cell["group"])
        cells.append((cell["group"], "selection_rate", name, cell["rows"]))
        if data.label is not None and cell["rows"] >= SMALL_CELL:
            cells += [
                (cell["group"], stratum.rate, f"{name} among {stratum.words(data.label)}", cell[key])
                for key, stratum in STRATA.items()
                if stratum.outcome is not None
            ]
    return cells
