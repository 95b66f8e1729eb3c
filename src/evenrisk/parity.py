"""Parity rules: who is compared with whom.

A rule is one function from the label to a stratum. Within a stratum every group is a *cell*, and pairs of
cells are compared. Nothing downstream knows what a group or a label is.

Conventions
-----------
y (n,) in {0, 1}; group (n,) in 0 … k−1; the cell of a row is ``stratum · k + group``, −1 where the rule
leaves the row out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from evenrisk._types import Array, Cells
from evenrisk._xp import as_array, cast, namespace


@dataclass(frozen=True)
class Parity:
    """A parity rule: ``stratum(y)`` is the stratum of each row, −1 = not compared.

    Parameters
    ----------
    name : str
        How the rule is called in tables and messages.
    strata : tuple of str
        The names of the strata 0, 1, …
    stratum : callable
        Maps the labels y (n,) in {0, 1} to integers (n,) in −1 … len(strata) − 1. A rule with
        ``needs_label=False`` gets the group codes instead, of which it may use the length alone.
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
    """Give the cell of each row, ``stratum · n_groups + group``, −1 = in none."""
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
    """Lay out the comparisons of E_f: the **mean** over pairs of groups, summed over strata.

    The mean keeps η from growing with the number of pairs; two groups give the paper's sum over strata.
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
