"""Rows to measure: checked labels, scores, groups and weights, and the cell of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenrisk._validation import (
    ArgumentError,
    check_alignment,
    check_binary,
    check_cells,
    check_groups,
    check_length,
    check_member,
    check_positive,
    check_scores,
    check_weight,
    guessed_label,
    warn_user,
)
from evenrisk.parity import PARITIES, Parity, cell_codes


@dataclass(frozen=True)
class ScoredRows:
    """Rows of positive weight with their score and cell; a cell is ``stratum · k + group``."""

    parity: Parity
    groups: tuple[str, ...]
    score: np.ndarray  # (n,)
    code: np.ndarray  # (n,) cell, −1 = in none
    weight: np.ndarray  # (n,)
    group: np.ndarray  # (n,) 0 … k−1
    label: np.ndarray | None  # (n,) in {0, 1}
    precision: np.dtype[Any]  # of the scores as they came: float16, float32 or float64
    guess: str = ""  # which label was taken for the positive one, where that is not plain

    def cut_offs(self, t: np.ndarray) -> np.ndarray:
        """Return cut-offs in the precision of the scores, as NumPy reads them in ``score > 0.2``.

        A score of 0.2 in float32 lies above 0.2 in float64: read as it is, the cut-off would select people
        whose score is the cut-off.
        """
        with np.errstate(over="ignore"):  # what is beyond all scores may be infinite
            return t.astype(self.precision)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.parity.strata) * len(self.groups)

    @property
    def weighted(self) -> bool:
        """Whether some rows weigh more than others."""
        return bool((self.weight != self.weight[0]).any())

    @property
    def has_both_labels(self) -> bool:
        """Whether there are labels, and two of them."""
        return self.label is not None and bool(self.label.min() < self.label.max())

    def warn_of_guess(self) -> None:
        """Warn where the positive label was guessed; for all who look at labels."""
        if self.guess:
            warn_user(self.guess, UserWarning)

    def take(self, kept: np.ndarray) -> ScoredRows:
        """Return some rows (a mask or an index), and all groups."""
        label = None if self.label is None else self.label[kept]
        score, code, weight = self.score[kept], self.code[kept], self.weight[kept]
        return replace(self, score=score, code=code, weight=weight, group=self.group[kept], label=label)

    def among(self, groups: np.ndarray) -> ScoredRows:
        """Return the rows of some groups (a mask (k,)), as if the others were not there."""
        kept = self.take(groups[self.group])
        code = (np.cumsum(groups) - 1).astype(self.group.dtype)
        names = tuple(name for name, is_kept in zip(self.groups, groups, strict=True) if is_kept)
        return replace(kept, groups=names, group=code[kept.group]).under(self.parity)

    def under(self, parity: str | Parity) -> ScoredRows:
        """Return the same rows, compared by another rule."""
        rule = check_parity(parity)
        return replace(self, parity=rule, code=cell_codes(rule, self.label, self.group, len(self.groups)))


def check_parity(parity: str | Parity) -> Parity:
    """Return a rule that is given by its name, or itself."""
    return check_member("parity", parity, PARITIES, Parity)


def scored_rows(
    y_true: Any,
    y_score: Any,
    sensitive_features: Any,
    parity: str | Parity,
    sample_weight: Any,
    pos_label: Any = None,
) -> ScoredRows:
    """Check all data of a measure of one score."""
    named = {"y_true": y_true, "y_score": y_score, "sensitive_features": sensitive_features}
    check_alignment(**named, sample_weight=sample_weight)
    rule = check_parity(parity)
    score = check_scores(y_score)
    people = check_people(sensitive_features, sample_weight, len(score))
    if y_true is None and rule.needs_label:
        raise ArgumentError("y_true", f"is required under {rule.name}, got None")
    y, guess = _labels(y_true, pos_label, at_least=2 if rule.needs_label else 1)
    rows = replace(people.with_labels(y).scored(score, rule), guess=guess)
    names = rule.cell_names([repr(name) for name in rows.groups])
    check_cells(rows.code, names)
    return rows


@dataclass(frozen=True)
class People:
    """Checked groups, weights and labels of all rows that came; any number of scores may go with them."""

    groups: tuple[str, ...]
    group: np.ndarray  # (n,) 0 … k−1
    weight: np.ndarray  # (n,)
    label: np.ndarray | None = None  # (n,) in {0, 1}

    def with_labels(self, label: np.ndarray | None) -> People:
        """Add labels."""
        if label is not None:
            check_length("y_true", len(label), len(self.weight))
        return replace(self, label=label)

    def scored(self, score: np.ndarray, parity: str | Parity = "demographic_parity") -> ScoredRows:
        """Return the rows of positive weight with their score, which `check_scores` has passed."""
        check_length("y_score", len(score), len(self.weight))
        precision = score.dtype
        if precision == np.float16:
            score = score.astype(np.float32)  # differences of halves need more digits
        kept = slice(None) if self.weight.all() else self.weight > 0
        score, group, weight = score[kept], self.group[kept], self.weight[kept]
        label = None if self.label is None else self.label[kept]
        rule = check_parity(parity)
        code = cell_codes(rule, label, group, len(self.groups))
        return ScoredRows(rule, self.groups, score, code, weight, group, label, precision)


def check_people(sensitive_features: Any, sample_weight: Any, n: int) -> People:
    """Check the groups and weights of n rows; groups that have weight 0 alone are forgotten."""
    weight = check_weight(sample_weight, n)
    if sensitive_features is None:
        raise ArgumentError("sensitive_features", "is required: the group of each row, got None")
    exponent = int(np.frexp(weight.max())[1])
    if abs(exponent) > 100:  # sums of squares would overflow or vanish; powers of two change no digit
        weight = np.ldexp(weight, -exponent)
    groups = check_groups(sensitive_features, n)
    if not weight.all():
        groups = groups.among(weight > 0)
    return People(tuple(groups.names), groups.code, weight)


def _labels(y_true: Any, pos_label: Any, *, at_least: int) -> tuple[np.ndarray | None, str]:
    """Return labels as 0 and 1, and where they are words which one was taken for 1.

    Where the rule does not look at labels, a fold with one of them is as good as any.
    """
    if y_true is None:
        if pos_label is not None:
            raise ArgumentError("pos_label", f"needs `y_true`, got {pos_label!r} and no labels")
        return None, ""
    if pos_label is not None:
        return check_positive(y_true, pos_label, "y_true", at_least=at_least)[0], ""
    y, classes = check_binary(y_true, "y_true", at_least=at_least)
    return y, guessed_label("`y_true`", classes, "`pos_label`")
