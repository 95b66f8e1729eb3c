"""The data of an audit: checked once, named as the user names it, and who is compared under each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk._validation import (
    SMALL_CELL,
    ArgumentError,
    Comparison,
    check_alignment,
    check_binary,
    check_codes,
    check_comparison,
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
FEWEST = 30  # rows of what is compared, if nothing else is asked for: a rate of fewer is mostly noise
RULE_OF_PEOPLE = {
    "rows": "demographic_parity",
    "positives": "equal_opportunity",
    "negatives": "predictive_equality",
}
DEFAULT_RULES = ("demographic_parity", "equalized_odds")  # the second where it can be measured


@dataclass(frozen=True)
class AuditData:
    """Score columns that all hold the same rows in the same groups, and what the data are called."""

    columns: dict[str, ScoredRows]
    label: dict[str, str] | None  # "name", "negative", "positive"
    guess: str  # a sentence where the positive outcome was guessed
    comparison: Comparison

    @property
    def fewest(self) -> int:
        """Rows of what is compared, in every outcome that a rule looks at."""
        asked = self.comparison.min_rows
        return FEWEST if asked is None else max(asked, 1)

    @property
    def rows(self) -> ScoredRows:
        """The rows with the first of the scores."""
        return next(iter(self.columns.values()))

    @cached_property
    def attributes(self) -> list[dict[str, Any]]:
        """What the attributes are: name, kind, places of their groups, cuts, rows of unknown value."""
        rows = self.rows
        if rows.compared is None:
            everybody = list(range(len(rows.groups)))
            return [_attribute(rows.title or "group", "groups", everybody)]
        kinds = ["probabilities" if self.comparison.probabilities else "groups", "ordered"]
        return [
            _attribute(
                each.name or "group",
                kinds[bool(each.cuts)],
                list(range(start, start + len(each.names))),
                list(each.cuts),
                each.n_unknown,
            )
            for each, start in zip(rows.compared.attributes, rows.compared.first, strict=False)
        ]

    @property
    def group_name(self) -> str:
        """What the groups are called together: "sex × race", or "sex, race and age"."""
        names = [each["name"] for each in self.attributes]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Rows, negatives and positives of every group; to expect, where groups are probabilities."""
        rows = self.rows
        n = _whole(rows.sizes)
        positives: list[Any] = [None] * len(n)
        if rows.label is not None:
            positives = _whole(rows.take(rows.label == 1).sizes)
        return [
            {"group": g, "rows": all_, "negatives": None if p is None else all_ - p, "positives": p}
            for g, all_, p in zip(rows.groups, n, positives, strict=True)
        ]


def _attribute(
    name: str, kind: str, groups: list[int], cuts: Sequence[float] = (), unknown: int = 0
) -> dict[str, Any]:
    return {"name": name, "kind": kind, "groups": groups, "cuts": list(cuts), "unknown": unknown}


def _whole(rows: np.ndarray) -> list[int]:
    return [int(n) for n in np.round(rows)]


def check_data(
    y_true: Any,
    y_score: Any,
    sensitive_features: Any,
    sample_weight: Any,
    positive: Any,
    comparison: str | Comparison = "crossed",
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
    asked = check_comparison(comparison)
    # how many rows there are is looked at rule by rule
    people = check_people(sensitive_features, sample_weight, n, replace(asked, min_rows=0)).with_labels(y)
    rows = {}
    for name, score in checked.items():
        with _naming(name, several):
            rows[name] = people.scored(score)
            _refuse_extreme_range(rows[name].score)
    return AuditData(rows, label, guess, asked)


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


@dataclass(frozen=True, eq=False)
class RuleRows:
    """What a rule compares: all that has enough rows in every stratum of it."""

    rule: Parity
    fewest: int
    least_share: float
    n_groups: int  # with enough rows, of the attribute that has most of them
    possible: bool  # whether there is anything to compare
    left_out: list[dict[str, Any]]  # groups, and sides of cuts, with too few: their rows, by stratum too

    @classmethod
    def of(cls, data: AuditData, parity: str | Parity) -> RuleRows:
        """Count the rows of everything that a rule could compare."""
        rows = data.rows.under(parity)
        check_codes(rows.stratum, len(rows.parity.strata))
        enough = rows.at_least(data.fewest)
        left_out = [_left_out(rows, name, data.fewest) for name in _not_compared(rows, data.fewest)]
        n_groups = _most_groups(rows, data.fewest) if enough is None else len(enough.contrasts.unions)
        return cls(
            rows.parity, data.fewest, data.comparison.min_share, n_groups, enough is not None, left_out
        )

    @cached_property
    def strata(self) -> tuple[Stratum, ...]:
        """What each stratum of the rule is."""
        return self.rule.describe()

    @property
    def names_left_out(self) -> set[str]:
        """The groups that are not compared."""
        return {entry["group"] for entry in self.left_out}

    @property
    def needed(self) -> str:
        """How many rows a group must have to be compared, in words."""
        which = " of each outcome" if len(self.rule.strata) > 1 else " of the outcome that it looks at"
        least = f"at least {self.fewest} {'row' if self.fewest == 1 else 'rows'}"
        share = f" and a share of {self.least_share:g}" if self.least_share else ""
        return f"{least}{which if self.rule.needs_label else ''}{share}"

    def take(self, rows: ScoredRows) -> ScoredRows:
        """Return the rows of one score column, with what is compared of them."""
        kept = rows.under(self.rule).at_least(self.fewest)
        assert kept is not None
        return kept


def _most_groups(rows: ScoredRows, fewest: int) -> int:
    """Return how many groups with enough rows the attribute has that has most; an ordered one has none."""
    enough = rows.cell_sizes().min(axis=0) >= fewest
    if rows.compared is None:
        return int(np.count_nonzero(enough))
    first, attributes = rows.compared.first, rows.compared.attributes
    parts = zip(attributes, first, strict=False)
    return max(0 if each.cuts else int(enough[i : i + len(each.names)].sum()) for each, i in parts)


def _not_compared(rows: ScoredRows, fewest: int) -> list[str]:
    """Name the groups, and the sides of cuts, that are in no comparison because they are too small."""
    small = rows.cell_sizes().min(axis=0) < fewest
    if rows.compared is None:
        return [name for name, is_small in zip(rows.groups, small, strict=True) if is_small]
    names = []
    for each, start in zip(rows.compared.attributes, rows.compared.first, strict=False):
        if not each.cuts:
            few = ~each.compared | small[start : start + len(each.names)]
            names += [each.names[i] for i in np.flatnonzero(few)]
    ordered = {side for each in rows.compared.attributes for sides in each.sides for side in sides}
    sizes = rows.union_sizes().reshape(len(rows.parity.strata), -1).min(axis=0)
    contrasts = rows.contrasts
    names += [contrasts.names[u] for u in np.flatnonzero(sizes < fewest) if contrasts.names[u] in ordered]
    return names


def _left_out(rows: ScoredRows, name: str, fewest: int) -> dict[str, Any]:
    """Return the rows of a group that is left out, in each stratum too."""
    mine = rows.of_name(name)
    part = np.ones(len(mine.score)) if mine.part is None else mine.part
    counts = [float(part[mine.stratum == i].sum()) for i in range(len(rows.parity.strata))]
    attributes = () if rows.compared is None else rows.compared.attributes
    return {
        "group": name,
        "is_cut": any(name in pair for each in attributes for pair in each.sides),
        "rows": round(float(part.sum())),
        "cells": [
            {"stratum": stratum, "rows": round(n), "too_few": n < fewest}
            for stratum, n in zip(rows.parity.strata, counts, strict=True)
        ],
    }


def rules_compared(data: AuditData, parity: Any) -> tuple[list[RuleRows], list[str]]:
    """Return what is compared under each rule, and why one of ours cannot be measured."""
    if parity is not None:
        asked = tuple(parity) if isinstance(parity, (list, tuple)) else (parity,)
        if not asked:
            raise ArgumentError("parity", "must name at least 1 rule, got none")
        return [_rule_rows(data, rule) for rule in asked], []
    first, second = DEFAULT_RULES
    found = [_rule_rows(data, first)]
    if data.rows.label is None:
        return found, []
    odds = RuleRows.of(data, second)
    if odds.possible:
        return [*found, odds], []
    named = words.too_few(odds.left_out, data.label)
    return found, [
        f"{odds.rule.title} could not be measured: fewer than 2 groups have {odds.needed}. "
        f"Too few rows: {named}."
    ]


def _rule_rows(data: AuditData, parity: str | Parity) -> RuleRows:
    """Return what is compared under a rule that was asked for; refuse one that has nothing to compare."""
    rule = check_parity(parity)
    if data.rows.label is None and rule.needs_label:
        raise ArgumentError("y_true", f"is required under {rule.name}, got None")
    found = RuleRows.of(data, rule)
    if not found.possible:
        raise ArgumentError(
            "sensitive_features",
            f"must have 2 or more groups{_with_reference(data)} of {found.needed} under "
            f"{rule.name}, got {found.n_groups} (min_rows sets another number). Too few rows: "
            f"{words.too_few(found.left_out, data.label)}",
        )
    return found


def _with_reference(data: AuditData) -> str:
    return ", the reference among them," if data.comparison.reference is not None else ""


def rates_compared(data: AuditData, found: Sequence[RuleRows]) -> dict[str, dict[str, Any]]:
    """Return which groups are compared in each rate at one cut-off, and how.

    That is what every rule on the same people compares, and has enough such people at all. "groups" are
    places of groups; "pairs" are the places of the groups on both sides, None for each against every other.
    """
    out: dict[str, dict[str, Any]] = {}
    for rate, people in words.RATES.items():
        if data.label is None and rate != "selection_rate":
            continue
        same = [each for each in found if people in {words.RATES[stratum.rate] for stratum in each.strata}]
        rules = [each.rule for each in same] + [check_parity(RULE_OF_PEOPLE[people])]
        kept = [data.rows.under(rule).at_least(data.fewest) for rule in rules]
        if any(each is None for each in kept):
            out[rate] = {"groups": [], "pairs": None if data.rows.compared is None else []}
        elif data.rows.compared is None:
            in_all = set.intersection(*(set(each.groups) for each in kept if each is not None))
            places = [j for j, name in enumerate(data.rows.groups) if name in in_all]
            out[rate] = {"groups": places, "pairs": None}
        else:
            out[rate] = _pairs_in_all(data.rows, [_pairs_by_name(each) for each in kept if each is not None])
    return out


def _pairs_by_name(rows: ScoredRows) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """Return the names of the groups on both sides of each comparison, by the names of the sides."""
    contrasts = rows.contrasts
    members = [[rows.groups[j] for j in np.flatnonzero(union)] for union in contrasts.unions]
    return {
        (contrasts.names[a], contrasts.names[b]): (members[a], members[b])
        for a, b in contrasts.pairs.tolist()
    }


def _pairs_in_all(rows: ScoredRows, kept: list[dict[tuple[str, str], Any]]) -> dict[str, Any]:
    """Return the comparisons that are in all of several lists, by places of groups."""
    place = {name: j for j, name in enumerate(rows.groups)}
    pairs = [
        [[place[name] for name in side] for side in sides]
        for key, sides in kept[-1].items()
        if all(key in each for each in kept)
    ]
    return {"groups": sorted({j for pair in pairs for side in pair for j in side}), "pairs": pairs}


def small_cells(data: AuditData, found: Sequence[RuleRows]) -> list[str]:
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


def about_attributes(data: AuditData, found: Sequence[RuleRows]) -> list[str]:
    """Return sentences on unknown values, on probabilities, and on attributes that a rule cannot compare."""
    sentences = words.unknown_values(data.attributes, len(data.rows.score))
    sentences += [" ".join(words.PROBABLE.split())] if data.comparison.probabilities else []
    for each in found:
        kept = each.take(data.rows).compared
        measured = None if kept is None else {attribute.name for attribute in kept.attributes}
        sentences += [
            words.not_measured(attribute["name"], each.rule.words, each.needed, _with_reference(data))
            for attribute in data.attributes
            if len(data.attributes) > 1 and measured is not None and attribute["name"] not in measured
        ]
    return sentences


def _named_cells(data: AuditData) -> list[tuple[str, str, str, int]]:
    """Return every group, and with labels every group within a label: group, rate, words, rows.

    Not the parts of an ordered attribute between two cuts: they are not compared.
    """
    cells = []
    between = {j for each in data.attributes if each["kind"] == "ordered" for j in each["groups"]}
    for j, cell in enumerate(data.cells):
        if j in between:
            continue
        name = words.quoted_group(cell["group"])
        cells.append((cell["group"], "selection_rate", name, cell["rows"]))
        if data.label is not None and cell["rows"] >= SMALL_CELL:
            cells += [
                (cell["group"], stratum.rate, f"{name} among {stratum.words(data.label)}", cell[key])
                for key, stratum in STRATA.items()
                if stratum.outcome is not None
            ]
    return cells
