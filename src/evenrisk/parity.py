"""Parity rules: who is compared with whom.

A rule is one function from the label to a stratum. Within a stratum every group is a *cell*, and pairs of
cells are compared. Nothing downstream knows what a group or a label is.

To add a rule, add an entry to `PARITIES`: scorers, reports and the command line are made from it.

Conventions
-----------
y (n,) in {0, 1}; group (n,) in 0 … k−1; the cell of a row is ``stratum · k + group``, −1 where the rule
leaves the row out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evenrisk._validation import shown
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


def cell_codes(parity: Parity, y: Array | None, group: Array, n_groups: int) -> Array:
    """Return the cell of each row, ``stratum · n_groups + group``, −1 = in none."""
    stratum = cast(parity.stratum(y if parity.needs_label else group), group.dtype)
    code = stratum * n_groups + group
    return namespace(group).where(stratum < 0, 0 * code - 1, code)


def group_pairs(n_strata: int, n_groups: int) -> list[tuple[int, int]]:
    """List every pair of groups inside every stratum, as cell codes."""
    return [
        (stratum * n_groups + a, stratum * n_groups + b)
        for stratum in range(n_strata)
        for a, b in combinations(range(n_groups), 2)
    ]


def make_cells(parity: Parity, y: Array | None, group: Array, n_groups: int, weight: Array) -> Cells:
    """Return the cells and comparisons of E_f: the **mean** over pairs of groups, summed over strata.

    With the mean, the scale of η does not depend on the number of pairs. For two groups this is the paper's
    sum over strata.
    """
    n_strata = len(parity.strata)
    pairs = group_pairs(n_strata, n_groups)
    code = cell_codes(parity, y, group, n_groups)
    return Cells(
        code=code,
        weight=weight,
        n_cells=n_strata * n_groups,
        pairs=as_array(pairs, code),
        pair_weight=as_array([n_strata / len(pairs)] * len(pairs), weight),
    )
