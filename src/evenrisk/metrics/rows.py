"""Rows to measure: checked labels, scores, groups and weights, and who is compared.

Conventions
-----------
n rows, c classes (all groups of all attributes, those that are not compared too), h strata; a cell is
``stratum · c + class``. What is compared is a pair of classes or, where rows have `Compared`, of unions of
them. A row is in one class, in one of every attribute, or in each of them with a share of its weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evenrisk._validation import (
    ArgumentError,
    Attribute,
    Groups,
    check_alignment,
    check_binary,
    check_codes,
    check_comparison,
    check_groups,
    check_length,
    check_member,
    check_positive,
    check_scores,
    check_sizes,
    check_weight,
    guessed_label,
    warn_user,
)
from evenrisk.parity import PARITIES, Contrasts, Parity, cell_codes, check_compared_groups


@dataclass(frozen=True)
class Compared:
    """Who is compared, where that is not every class with every other."""

    attributes: tuple[Attribute, ...]
    classes: np.ndarray  # (n, a) the class of each row in each attribute, −1 = none; of soft groups unused
    share: np.ndarray | None = None  # (n, c) of soft groups, one attribute
    kept: np.ndarray | None = None  # (q,) which comparisons are made; None: all

    @classmethod
    def of(cls, groups: Groups) -> Compared | None:
        """Return what checked groups say; None where every class is compared with every other."""
        if groups.attributes is None:
            return None
        classes = np.stack([each.classes[groups.code] for each in groups.attributes], axis=1)
        return cls(groups.attributes, classes.astype(np.int32), groups.share)

    def take(self, kept: Any) -> Compared:
        """Return the same of some rows."""
        share = None if self.share is None else self.share[kept]
        return replace(self, classes=self.classes[kept], share=share)

    @cached_property
    def first(self) -> list[int]:
        """The place of each attribute's first class among all, and their number."""
        return [0, *np.cumsum([len(each.names) for each in self.attributes]).tolist()]

    @cached_property
    def contrasts(self) -> Contrasts:
        """What is compared, as unions of all classes."""
        n = self.first[-1]
        parts = []
        for each, start in zip(self.attributes, self.first, strict=False):
            classes = np.full(n, -1)
            classes[start : start + len(each.names)] = np.arange(len(each.names))
            parts.append(Contrasts.of_attribute(each).of_classes(classes))
        every = Contrasts.together(parts)
        return every if self.kept is None else every.some(self.kept)

    @cached_property
    def used(self) -> np.ndarray:
        """Whether each class takes part in a comparison (c,)."""
        return np.asarray(self.contrasts.unions.sum(axis=0) > 0)

    def members(self, weight: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield class, −1 = none, and weight of each row: once for each attribute, or for each soft group."""
        if self.share is not None:
            for j in range(self.share.shape[1]):
                yield np.full(len(weight), j), weight * self.share[:, j]
            return
        for column, start in zip(self.classes.T, self.first, strict=False):
            yield np.where(column < 0, -1, column + start), weight

    def weight_compared(self, weight: np.ndarray) -> np.ndarray:
        """Return how much of each row is in some comparison (n,)."""
        if self.share is not None:
            return np.asarray(weight * (self.share @ self.used))
        known = [self.used[code] & (code >= 0) for code, _ in self.members(weight)]
        return np.where(np.logical_or.reduce(known), weight, 0.0)

    @cached_property
    def owner(self) -> np.ndarray:
        """The place of the attribute that each comparison is of (q,)."""
        every = self._owners()
        return every if self.kept is None else every[self.kept]

    def _owners(self) -> np.ndarray:
        """Return the same of all comparisons, those that are not made too."""
        n = [len(Contrasts.of_attribute(each).pairs) for each in self.attributes]
        return np.repeat(np.arange(len(n)), n)

    def cuts(self, place: int) -> tuple[float, ...]:
        """Return the cuts of an attribute that are made; of one that has groups, none."""
        cuts = self.attributes[place].cuts
        if self.kept is None:
            return cuts
        kept = self.kept[self._owners() == place]  # a last comparison may be of unknown values
        return tuple(cut for cut, is_kept in zip(cuts, kept, strict=False) if is_kept)

    def only(self, place: int) -> Compared:
        """Return one of the attributes, with all of its comparisons that are made."""
        return self.of_places([place])

    def of_places(self, places: list[int]) -> Compared:
        """Return some of the attributes, with all of their comparisons that are made."""
        kept = None if self.kept is None else self.kept[np.isin(self._owners(), places)]
        attributes = tuple(self.attributes[i] for i in places)
        return replace(self, attributes=attributes, classes=self.classes[:, places], kept=kept)

    def where(self, enough: np.ndarray) -> Compared | None:
        """Return the comparisons of classes that are large `enough` (c,); None if there are none.

        The classes of an ordered attribute stay: what is compared of it are unions of them.
        """
        assert self.kept is None
        attributes, places = list(self.attributes), []
        for place, (each, start) in enumerate(zip(self.attributes, self.first, strict=False)):
            if not each.cuts:
                each = replace(each, compared=each.compared & enough[start : start + len(each.names)])
                attributes[place] = each
            gone = each.reference is not None and not each.compared[each.reference]
            if np.count_nonzero(each.compared) > 1 and not gone:
                places.append(place)
        return replace(self, attributes=tuple(attributes)).of_places(places) if places else None


@dataclass(frozen=True)
class ScoredRows:
    """Rows of positive weight with their score, group and stratum."""

    parity: Parity
    groups: tuple[str, ...]  # (c,) names of the classes
    score: np.ndarray  # (n,)
    weight: np.ndarray  # (n,)
    group: np.ndarray  # (n,) 0 … c−1; where there is `compared`, a code of what a row is in all attributes
    label: np.ndarray | None  # (n,) in {0, 1}
    precision: np.dtype[Any]  # of the scores as they came: float16, float32 or float64
    guess: str = ""  # which label was taken for the positive one, where that is not plain
    title: str = ""  # of the attribute's column or columns
    compared: Compared | None = None
    part: np.ndarray | None = None  # (n,) of each row, where these are the rows of a soft group

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

    @cached_property
    def contrasts(self) -> Contrasts:
        """What is compared in each stratum."""
        if self.compared is not None:
            return self.compared.contrasts
        return Contrasts.every_pair(len(self.groups))._replace(names=self.groups)

    @cached_property
    def stratum(self) -> np.ndarray:
        """The stratum of each row (n,), −1 = not compared."""
        return np.asarray(cell_codes(self.parity, self.label, np.zeros(len(self.score), np.int32), 1))

    @cached_property
    def code(self) -> np.ndarray:
        """The cell of each row (n,), where every group is compared with every other; −1 = in none."""
        return np.asarray(cell_codes(self.parity, self.label, self.group, len(self.groups)))

    def cells(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield cell, −1 = in none, and weight of each row, as often as a row may be in one."""
        for code, weight in self.members():
            yield (
                np.where((self.stratum < 0) | (code < 0), -1, self.stratum * len(self.groups) + code),
                weight,
            )

    def members(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield class, −1 = none, and weight of each row, as often as a row may be in one."""
        if self.compared is None:
            yield self.group, self.weight
        else:
            yield from self.compared.members(self.weight)

    def of_class(self, j: int) -> ScoredRows:
        """Return the rows of a class, each with its share of weight, as if there were no others."""
        return self._part(
            sum(np.where(code == j, weight, 0.0) for code, weight in self.members()), self.groups[j]
        )

    def of_union(self, u: int) -> ScoredRows:
        """Return the rows of one of the unions that are compared, likewise."""
        inside = np.append(self.contrasts.unions[u], 0.0)  # the last is of −1
        return self._part(
            sum(inside[code] * weight for code, weight in self.members()), self.contrasts.names[u]
        )

    def of_name(self, name: str) -> ScoredRows:
        """Return the rows of a class or a union, by its name."""
        if name in self.groups:
            return self.of_class(self.groups.index(name))
        return self.of_union(self.contrasts.names.index(name))

    def _part(self, weight: Any, name: str) -> ScoredRows:
        kept = np.flatnonzero(weight > 0)
        mine = self.take(kept)
        soft = self.compared is not None and self.compared.share is not None
        return replace(
            mine,
            weight=weight[kept],
            groups=(name,),
            group=0 * mine.group,
            compared=None,
            part=weight[kept] / mine.weight if soft else None,
        )

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each class (c,); of soft groups, those to expect."""
        share = None if self.compared is None else self.compared.share
        if share is not None:
            return np.asarray(share.sum(axis=0))
        return sum(np.bincount(code[code >= 0], minlength=len(self.groups)) for code, _ in self.members())  # type: ignore[return-value]

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

    def take(self, kept: Any) -> ScoredRows:
        """Return some rows (a mask or an index), and all groups."""
        return replace(
            self,
            score=self.score[kept],
            weight=self.weight[kept],
            group=self.group[kept],
            label=None if self.label is None else self.label[kept],
            part=None if self.part is None else self.part[kept],
            compared=None if self.compared is None else self.compared.take(kept),
        )

    def at_least(self, n: int) -> ScoredRows | None:
        """Return the rows with the comparisons of `n` rows or more in every stratum; None if there are none.

        A class with fewer takes part in no comparison, and no cut with fewer on one of its sides is made.
        """
        enough = self.cell_sizes().min(axis=0) >= n
        if self.compared is None:
            return self if enough.all() else self.among(enough) if np.count_nonzero(enough) > 1 else None
        compared = self.compared.where(enough)
        if compared is None:
            return None
        rows = self._comparing(compared)
        sizes = rows.union_sizes().reshape(len(self.parity.strata), -1).min(axis=0)
        kept = (sizes[compared.contrasts.pairs] >= n).all(axis=1)
        if kept.all():
            return rows
        places = np.unique(compared.owner[kept]).tolist()
        return self._comparing(replace(compared, kept=kept).of_places(places)) if places else None

    def _comparing(self, compared: Compared) -> ScoredRows:
        """Return the same rows, with these attributes compared."""
        names = tuple(name for each in compared.attributes for name in each.names)
        return replace(self, groups=names, compared=compared)

    def among(self, groups: np.ndarray) -> ScoredRows:
        """Return the rows of some groups (a mask (c,)), as if the others were not there."""
        kept = self.take(groups[self.group])
        code = (np.cumsum(groups) - 1).astype(self.group.dtype)
        names = tuple(name for name, is_kept in zip(self.groups, groups, strict=True) if is_kept)
        return replace(kept, groups=names, group=code[kept.group])

    def where(self, kept: np.ndarray) -> ScoredRows:
        """Return the same rows with some of the comparisons (a mask (q,))."""
        compared = self.compared
        if compared is None:
            one = Attribute(
                self.title, self.groups, np.arange(len(self.groups)), np.full(len(self.groups), True)
            )
            compared = Compared((one,), self.group[:, None])
        return replace(self, compared=replace(compared, kept=kept))

    def of_attribute(self, place: int) -> ScoredRows:
        """Return the same rows, one of several attributes compared."""
        assert self.compared is not None
        only = self.compared.only(place)
        return replace(self._comparing(only), title=only.attributes[0].name)

    def under(self, parity: str | Parity) -> ScoredRows:
        """Return the same rows, compared by another rule."""
        return replace(self, parity=check_parity(parity))

    def cell_sizes(self) -> np.ndarray:
        """Return the rows, to expect where groups are soft, of every class in each stratum (h, c)."""
        rows = np.zeros(self.n_cells)
        ones = replace(self, weight=np.ones(len(self.weight)))
        for code, share in ones.cells():
            rows += np.bincount(code[code >= 0], share[code >= 0], minlength=self.n_cells)
        return rows.reshape(len(self.parity.strata), -1)

    def union_sizes(self) -> np.ndarray:
        """Return the same of everything that is compared (h·u,)."""
        return (self.cell_sizes() @ self.contrasts.unions.T).ravel()

    def union_names(self) -> list[str]:
        """Return the names of everything that is compared, for messages."""
        return self.parity.cell_names([repr(name) for name in self.contrasts.names])


def check_compared_rows(rows: ScoredRows, *, name: str = "sensitive_features", warn: bool = True) -> None:
    """Refuse what is compared and has no rows, and warn of what has few."""
    check_codes(rows.stratum, len(rows.parity.strata))
    check_sizes(rows.union_sizes(), rows.union_names(), name=name, warn=warn)


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
    comparison: Any = "crossed",
) -> ScoredRows:
    """Check all data of a measure of one score."""
    named = {"y_true": y_true, "y_score": y_score, "sensitive_features": sensitive_features}
    check_alignment(**named, sample_weight=sample_weight)
    rule = check_parity(parity)
    score = check_scores(y_score)
    people = check_people(sensitive_features, sample_weight, len(score), comparison)
    if y_true is None and rule.needs_label:
        raise ArgumentError("y_true", f"is required under {rule.name}, got None")
    y, guess = _labels(y_true, pos_label, at_least=2 if rule.needs_label else 1)
    if rule.needs_label and check_comparison(comparison).min_rows:
        groups = check_compared_groups(rule, y, sensitive_features, people.weight, comparison=comparison)
        people = check_people(groups, sample_weight, len(score))
    rows = replace(people.with_labels(y).scored(score, rule), guess=guess)
    check_compared_rows(rows)
    return rows


@dataclass(frozen=True)
class People:
    """Checked groups, weights and labels of all rows that came; any number of scores may go with them."""

    groups: tuple[str, ...]
    group: np.ndarray  # (n,) 0 … c−1
    weight: np.ndarray  # (n,)
    label: np.ndarray | None = None  # (n,) in {0, 1}
    title: str = ""
    compared: Compared | None = None

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
        rows = ScoredRows(
            check_parity(parity),
            self.groups,
            score,
            self.weight,
            self.group,
            self.label,
            precision,
            title=self.title,
            compared=self.compared,
        )
        return rows if self.weight.all() else rows.take(self.weight > 0)


def check_people(sensitive_features: Any, sample_weight: Any, n: int, comparison: Any = "crossed") -> People:
    """Check the groups and weights of n rows; groups that have weight 0 alone are forgotten."""
    weight = check_weight(sample_weight, n)
    if sensitive_features is None:
        raise ArgumentError("sensitive_features", "is required: the group of each row, got None")
    exponent = int(np.frexp(weight.max())[1])
    if abs(exponent) > 100:  # sums of squares would overflow or vanish; powers of two change no digit
        weight = np.ldexp(weight, -exponent)
    groups = check_groups(sensitive_features, n, comparison=comparison, weight=weight)
    if not weight.all():
        groups = groups.among(weight > 0)
    compared = Compared.of(groups)
    names = (
        groups.names if compared is None else [name for each in compared.attributes for name in each.names]
    )
    return People(tuple(names), groups.code, weight, title=groups.title, compared=compared)


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
