"""Parity rules: who is compared with whom.

A rule is one function from the label to a stratum. Within a stratum every group is a *cell*, and pairs of
cells are compared. Nothing downstream knows what a group or a label is.

To add a rule, add an entry to `PARITIES`: scorers, reports and the command line are made from it.

Conventions
-----------
y (n,) in {0, 1}; group (n,) in 0 … k−1, or −1 where it is not known; the cell of a row is
``stratum · k + group``, −1 where it is left out. Of a row that may be in several groups, group (n, m) and
share (n, m), how much of it is in each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from evenrisk._validation import (
    ArgumentError,
    Attribute,
    Groups,
    check_codes,
    check_comparison,
    check_groups,
    check_sizes,
    shown,
)
from evenrisk._validation import Comparison as Comparison
from evenrisk._xp import Array, Cells, as_array, cast, namespace


@dataclass(frozen=True)
class Stratum:
    """People who are compared with one another, and how a report names them."""

    name: str
    rate: str  # the share of them above a cut-off, as an attribute of `Decisions`
    rate_words: str  # the same in a sentence
    outcome: str | None = None  # the outcome that defines them, if one does: "negative", "positive"

    def words(self, outcomes: Mapping[str, str] | None = None, people: str = "people") -> str:
        """Return who they are: 'everybody', 'people with two_year_recid = 0'.

        `outcomes` has the name of the label ("name") and its two values ("negative", "positive").
        """
        if outcomes is None or self.outcome is None:
            return shown(self.name)
        return f"{people} with {shown(outcomes['name'])} = {shown(outcomes[self.outcome])}"


STRATA: dict[str, Stratum] = {
    stratum.name: stratum
    for stratum in (
        Stratum("everybody", "selection_rate", "selection rate"),
        Stratum("negatives", "fpr", "false-positive rate", "negative"),
        Stratum("positives", "tpr", "true-positive rate", "positive"),
    )
}
_BY_LABELS = {(0, 1): "everybody", (0,): "negatives", (1,): "positives"}  # labels of a stratum's rows


@dataclass(frozen=True)
class Parity:
    """A parity rule: ``stratum(y)`` is the stratum of each row, −1 = not compared.

    Parameters
    ----------
    name : str
        The name of the rule in tables and messages.
    strata : tuple of str
        The names of the strata 0, 1, … Reports call a stratum by its name ("among repaid").
    stratum : callable
        Maps the labels y (n,) in {0, 1} to integers (n,) in −1 … len(strata) − 1. A rule with
        ``needs_label=False`` gets the group codes instead, and may use only their number.
    needs_label : bool, default=True
        Whether the rule looks at the label at all.

    Examples
    --------
    Equal opportunity, written by hand:

    >>> from evenrisk import Parity
    >>> Parity("my rule", ("repaid",), lambda y: y - 1).strata
    ('repaid',)
    """

    name: str
    strata: tuple[str, ...]
    stratum: Callable[[Array], Array]
    needs_label: bool = True

    @property
    def words(self) -> str:
        """The name in a sentence: 'equalized odds'."""
        return shown(self.name.replace("_", " "))

    @property
    def title(self) -> str:
        """The name at the beginning of a sentence: 'Equalized odds'."""
        return self.words[:1].upper() + self.words[1:]

    def describe(self) -> tuple[Stratum, ...]:
        """Return a description of each stratum; the rate of a user's own follows from its labels.

        Returns
        -------
        tuple of Stratum
            One per stratum.
        """
        code = np.asarray(self.stratum(np.array([0, 1])))
        if code.shape != (2,):
            raise ValueError(
                f"`stratum` of {self.name!r} must map each label to its stratum, got an array of shape "
                f"{code.shape} for 2 labels"
            )
        return tuple(self._stratum(name, np.flatnonzero(code == i)) for i, name in enumerate(self.strata))

    def _stratum(self, name: str, labels: np.ndarray) -> Stratum:
        if name in STRATA:
            return STRATA[name]
        same_people = STRATA[_BY_LABELS.get(tuple(labels.tolist()), "everybody")]
        return Stratum(name, same_people.rate, same_people.rate_words)

    def cell_names(self, groups: list[str]) -> list[str]:
        """Name every cell in words, in the order of the cell codes."""
        if len(self.strata) == 1 and not self.needs_label:
            return [f"group {name}" for name in groups]
        return [f"group {name} among {stratum}" for stratum in self.strata for name in groups]


def _everybody(rows: Array) -> Array:
    return rows * 0


def _label(y: Array) -> Array:
    return y


def _positives(y: Array) -> Array:
    return y - 1


def _negatives(y: Array) -> Array:
    return -y


PARITIES: dict[str, Parity] = {
    rule.name: rule
    for rule in (
        Parity("demographic_parity", ("everybody",), _everybody, needs_label=False),
        Parity("equalized_odds", ("negatives", "positives"), _label),
        Parity("equal_opportunity", ("positives",), _positives),
        Parity("predictive_equality", ("negatives",), _negatives),
    )
}


class Contrasts(NamedTuple):
    """Which unions of groups are compared, the same in every stratum.

    Sums add, so a union of groups costs nothing. An ordered attribute is cut into bins, and for each cut
    those below are compared with those above.
    """

    unions: np.ndarray  # (u, k) 1 for the groups of each union, else 0
    pairs: np.ndarray  # (q, 2) unions
    weight: np.ndarray  # (q,) of each comparison in the penalty; they add up to 1
    names: tuple[str, ...] = ()  # (u,) of the unions, where somebody needs them

    @classmethod
    def every_pair(cls, n_groups: int) -> Contrasts:
        """Every group against every other."""
        pairs = np.array(list(combinations(range(n_groups), 2)))
        return cls(np.eye(n_groups), pairs, np.full(len(pairs), 1 / len(pairs)))

    @classmethod
    def rest(cls, n_groups: int) -> Contrasts:
        """Every group against everybody else; of two groups, one comparison."""
        if n_groups == 2:
            return cls.every_pair(2)
        alone = np.arange(n_groups)
        unions = np.vstack([np.eye(n_groups), 1 - np.eye(n_groups)])
        return cls(unions, np.stack([alone, alone + n_groups], axis=1), np.full(n_groups, 1 / n_groups))

    @classmethod
    def reference(cls, n_groups: int, group: int) -> Contrasts:
        """Every other group against one of them."""
        others = np.delete(np.arange(n_groups), group)
        pairs = np.stack([others, np.full_like(others, group)], axis=1)
        return cls(np.eye(n_groups), pairs, np.full(len(pairs), 1 / len(pairs)))

    @classmethod
    def cuts(cls, n_bins: int) -> Contrasts:
        """Those below against those above, for each of the cuts between bins in order."""
        below = np.tri(n_bins - 1, n_bins)
        first = np.arange(n_bins - 1)
        pairs = np.stack([first, first + n_bins - 1], axis=1)
        return cls(np.vstack([below, 1 - below]), pairs, np.full(n_bins - 1, 1 / (n_bins - 1)))

    @classmethod
    def of_attribute(cls, attribute: Attribute) -> Contrasts:
        """Return what is compared of an attribute's classes, by name."""
        kept = np.flatnonzero(attribute.compared)
        names, k = [attribute.names[i] for i in kept], len(kept)
        if attribute.cuts:
            made, names = cls._ordered(attribute, k)
        elif attribute.reference is not None:
            made = cls.reference(k, int(np.searchsorted(kept, attribute.reference)))
        elif attribute.rest:
            made = cls.rest(k)
            names += attribute.rests
        else:
            made = cls.every_pair(k)
        place = np.where(attribute.compared, np.cumsum(attribute.compared) - 1, -1)
        return made.of_classes(place)._replace(names=tuple(names))

    @classmethod
    def _ordered(cls, attribute: Attribute, k: int) -> tuple[Contrasts, list[str]]:
        """Return the cuts of an attribute; people of unknown value, if a class, are compared with others."""
        n_bins = len(attribute.cuts) + 1
        below, over = (list(side) for side in zip(*attribute.sides, strict=True))
        made, names = cls.cuts(n_bins), [*below, *over]
        if k == n_bins:
            return made, names
        unknown = (np.arange(k) == n_bins) * 1.0
        unions = np.vstack([np.pad(made.unions, ((0, 0), (0, 1))), unknown, 1 - unknown])
        pairs = np.vstack([made.pairs, [len(names), len(names) + 1]])
        names += [attribute.names[n_bins], f"{attribute.name} known"]
        return cls(unions, pairs, np.full(len(pairs), 1 / len(pairs))), names

    def of_classes(self, classes: np.ndarray) -> Contrasts:
        """Return these contrasts for finer groups: classes (k,) is the group that each is part of, or −1."""
        part_of = classes[None, :] == np.arange(self.unions.shape[1])[:, None]
        return self._replace(unions=self.unions @ part_of)

    def some(self, kept: np.ndarray) -> Contrasts:
        """Return some of the comparisons (a mask (q,)), and the unions that they compare."""
        used, pairs = np.unique(self.pairs[kept], return_inverse=True)
        weight = self.weight[kept] / self.weight[kept].sum()
        names = tuple(self.names[i] for i in used) if self.names else ()
        return Contrasts(self.unions[used], pairs.reshape(-1, 2), weight, names)

    @staticmethod
    def together(several: Sequence[Contrasts]) -> Contrasts:
        """Return contrasts of the same groups as one, each with the same weight in all."""
        start = np.cumsum([0, *(len(each.unions) for each in several)])
        return Contrasts(
            np.vstack([each.unions for each in several]),
            np.vstack([each.pairs + first for each, first in zip(several, start, strict=False)]),
            np.concatenate([each.weight for each in several]) / len(several),
            tuple(name for each in several for name in each.names),
        )

    def in_strata(self, n_strata: int) -> Contrasts:
        """Return the same of every stratum's cells; the weights add up to 1 in each."""
        u = len(self.unions)
        pairs = [self.pairs + stratum * u for stratum in range(n_strata)]
        return Contrasts(
            np.kron(np.eye(n_strata), self.unions),
            np.vstack(pairs),
            np.tile(self.weight, n_strata),
            self.names * n_strata,
        )


def contrasts_of(groups: Groups) -> Contrasts | None:
    """Return what is compared of the codes of groups; None where it is every pair of them.

    Every attribute has the same weight.
    """
    if groups.attributes is None:
        return None
    several = [Contrasts.of_attribute(each).of_classes(each.classes) for each in groups.attributes]
    return Contrasts.together(several)


def check_compared_groups(
    parity: Parity,
    y: np.ndarray | None,
    sensitive_features: Any,
    weight: np.ndarray,
    *,
    comparison: Any,
    name: str = "sensitive_features",
) -> Groups:
    """Encode the protected attribute; `min_rows` holds in every stratum that a rule compares."""
    groups = check_groups(sensitive_features, len(weight), name=name, comparison=comparison, weight=weight)
    least = check_comparison(comparison).min_rows
    if isinstance(sensitive_features, Groups) or not least or not parity.needs_label or y is None:
        return groups
    stratum = np.asarray(parity.stratum(y))
    strata = [(stratum == i) & (weight > 0) for i in range(len(parity.strata))]
    left_out, cuts = list(groups.comparison.left_out), {}
    alone = Attribute(groups.title, tuple(groups.names), np.arange(len(groups.labels)), np.array([True]))
    for each in groups.attributes or (alone,):
        sizes = np.array([_class_sizes(each, groups, rows) for rows in strata])
        small, n_bins = sizes.min(axis=0) < least, len(each.cuts) + 1
        if each.cuts:
            below = np.cumsum(sizes[:, :n_bins], axis=1)
            kept = np.minimum(below[:, :-1], below[:, -1:] - below[:, :-1]).min(axis=0) >= least
            cuts[each.name or 0] = [cut for cut, is_kept in zip(each.cuts, kept, strict=True) if is_kept]
            small[:n_bins] = False
        left_out += [each.names[j] for j in np.flatnonzero(small)]
        n_left = len(cuts[each.name or 0]) if each.cuts else np.count_nonzero(each.compared & ~small) - 1
        if n_left < 1:
            where = f" in {each.name!r}" if each.name else ""
            what = "a cut" if each.cuts else "2 or more groups"
            raise ArgumentError(
                name, f"must have {what} with at least {least} rows of every outcome{where}, got fewer"
            )
    kept_ones = replace(
        groups.comparison,
        left_out=tuple(dict.fromkeys(left_out)),
        ordered=cuts or groups.comparison.ordered,
        min_rows=0,
    )
    return check_groups(sensitive_features, len(weight), name=name, comparison=kept_ones, weight=weight)


def _class_sizes(attribute: Attribute, groups: Groups, rows: np.ndarray) -> np.ndarray:
    """Return how many of `rows` (a mask) are in each class of an attribute, to expect where it is soft."""
    if groups.share is not None:
        return np.asarray(groups.share[rows].sum(axis=0))
    code = attribute.classes[groups.code[rows]]
    return np.bincount(code[code >= 0], minlength=len(attribute.names))


def group_cells(parity: Parity, y: Array | None, groups: Groups, weight: Array) -> Cells:
    """Return the cells and comparisons of checked groups."""
    contrasts, k = contrasts_of(groups), len(groups.labels)
    if contrasts is None:
        return make_cells(parity, y, groups.code, k, weight)
    if groups.share is not None:
        code = np.broadcast_to(np.arange(k, dtype=np.int32), groups.share.shape)
        return make_cells(parity, y, code, k, weight, contrasts, cast(groups.share, weight.dtype))
    compared = contrasts.unions.sum(axis=0) > 0  # nobody is in a cell without being compared
    code = np.where(compared[groups.code], groups.code, -1)
    return make_cells(parity, y, code, k, weight, contrasts)


def check_compared(
    parity: Parity,
    cells: Cells,
    groups: Groups,
    counts: np.ndarray,
    *,
    name: str = "sensitive_features",
    warn: bool = True,
) -> None:
    """Refuse what is compared and has no row that `counts` (n,), and warn of what has few."""
    check_codes(cells.code, cells.n_cells)
    rows = cells.union_sums(counts.astype(np.float64))
    check_sizes(rows, compared_names(parity, groups), name=name, warn=warn)


def compared_names(parity: Parity, groups: Groups) -> list[str]:
    """Name what is compared, in the order of the unions of the cells, for messages."""
    contrasts = contrasts_of(groups)
    names = groups.names if contrasts is None else contrasts.names
    return parity.cell_names([repr(name) for name in names])


def cell_codes(parity: Parity, y: Array | None, group: Array, n_groups: int) -> Array:
    """Return the cell of each row, ``stratum · n_groups + group``, −1 = in none; group (n,) or (n, m)."""
    one = group if group.ndim == 1 else group[:, 0]
    stratum = cast(parity.stratum(y if parity.needs_label else one * (one >= 0)), group.dtype)
    stratum = stratum if group.ndim == 1 else stratum[:, None]
    code = stratum * n_groups + group
    return namespace(group).where((stratum < 0) | (group < 0), 0 * code - 1, code)


def group_pairs(n_strata: int, n_groups: int) -> list[tuple[int, int]]:
    """List every pair of groups inside every stratum, as cell codes."""
    return [
        (stratum * n_groups + a, stratum * n_groups + b)
        for stratum in range(n_strata)
        for a, b in combinations(range(n_groups), 2)
    ]


def make_cells(
    parity: Parity,
    y: Array | None,
    group: Array,
    n_groups: int,
    weight: Array,
    contrasts: Contrasts | None = None,
    share: Array | None = None,
) -> Cells:
    """Return the cells and comparisons of E_f: the **mean** over comparisons, summed over strata.

    Without `contrasts` every pair of groups is compared. With the mean, the scale of η does not depend on the
    number of comparisons. For two groups this is the paper's sum over strata. `share` (n, m) goes with a
    group (n, m) in several of which a row may be.
    """
    n_strata = len(parity.strata)
    code = cell_codes(parity, y, group, n_groups)
    unions: Any = None
    pairs: Any
    pair_weight: Any
    if contrasts is None:
        pairs = group_pairs(n_strata, n_groups)
        pair_weight = [n_strata / len(pairs)] * len(pairs)
    else:
        unions, pairs, pair_weight, _ = contrasts.in_strata(n_strata)
        unions = as_array(unions, weight)
    return Cells(
        code=code,
        weight=weight,
        n_cells=n_strata * n_groups,
        pairs=as_array(pairs, code),
        pair_weight=as_array(pair_weight, weight),
        share=share,
        unions=unions,
    )
