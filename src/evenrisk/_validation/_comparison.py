"""Who is compared with whom: what a user says of the attribute's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenrisk._validation._arrays import check_choice, check_flag, check_number
from evenrisk._validation._warnings import ArgumentError

COLUMNS = ("crossed", "each", "each and crossed")
AGAINST = ("every", "rest")
UNKNOWN = ("error", "exclude", "group")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Who is compared with whom: the `comparison` of estimators, profiles, scorers and audits.

    Strings stand for the common cases: "crossed" is ``Comparison()``, "each" and "each and crossed" are
    `columns`, "rest" is ``against="rest"``, "ordered" is ``ordered=True`` and "probabilities" is
    ``probabilities=True``.

    Parameters
    ----------
    columns : {"crossed", "each", "each and crossed"}, default="crossed"
        What several columns are: one attribute whose groups are the combinations that occur, an attribute
        each, or both. An ordered column is always an attribute of its own.
    against : {"every", "rest"}, default="every"
        Whom a group is compared with: every other group of its attribute, or all others together.
    reference : group, dict or None, default=None
        The group that all others of its attribute are compared with instead. A dict from column to group
        where there are several attributes; one that it does not name is compared as `against` says. A group
        of crossed columns is a tuple.
    unknown : {"error", "exclude", "group"}, default="error"
        What a missing value is: an error, a row that counts in the loss and in no comparison of this
        attribute, or a group of its own.
    min_rows : int, default=None
        A group with fewer rows is listed and not compared. None is 0, and 30 in an audit, where it holds for
        every outcome that a rule looks at.
    min_share : float, default=0
        A group with a smaller share of the people whose group is known is listed and not compared.
    ordered : bool, column, list of columns or dict, default=False
        Which columns are measurements such as age: for each of several cuts, people up to the cut are
        compared with those over it. True is all columns. A dict maps a column to the number of cuts, or to
        the cuts themselves; without it there are ten, at quantiles in equal steps. Columns go by name, or by
        place if they have no name.
    probabilities : bool, default=False
        Whether the columns are groups and hold the probability that a person belongs to each. What is
        measured then is not the gap between the groups: see the documentation.
    left_out : list of str, default=()
        Groups that are listed and not compared whatever their size, by the names that a profile has for them.
        Names that do not occur are ignored, so that the `comparison_` of a fitted model, which has the groups
        that were left out, fits other rows too.

    Examples
    --------
    >>> from evenrisk import Comparison, FairLogisticRegression
    >>> who = Comparison(columns="each", unknown="exclude", ordered={"age": [25, 45]})
    >>> FairLogisticRegression(comparison=who).comparison.ordered
    {'age': [25, 45]}
    """

    columns: str = "crossed"
    against: str = "every"
    reference: Any = None
    unknown: str = "error"
    min_rows: int | None = None
    min_share: float = 0.0
    ordered: Any = False
    probabilities: bool = False
    left_out: Sequence[str] = ()

    def __post_init__(self) -> None:
        # arrays have no truth value, so that two comparisons with equal ones could not be compared
        object.__setattr__(self, "ordered", _plain(self.ordered))
        object.__setattr__(self, "reference", _plain(self.reference, tuple))
        if self.reference is not None and _is_missing(self.reference):
            raise ArgumentError("reference", f"must be a group, got {self.reference!r}")
        if isinstance(self.left_out, str) or not all(isinstance(name, str) for name in self.left_out):
            raise ArgumentError("left_out", f"must be a list of names of groups, got {self.left_out!r:.60}")
        object.__setattr__(self, "left_out", tuple(self.left_out))
        check_choice("columns", self.columns, COLUMNS)
        check_choice("against", self.against, AGAINST)
        check_choice("unknown", self.unknown, UNKNOWN)
        check_flag("probabilities", self.probabilities)
        if self.min_rows is not None:
            check_number("min_rows", self.min_rows, low=0, whole=True)
        if not 0 <= float(check_number("min_share", self.min_share, low=0)) < 1:
            raise ArgumentError("min_share", f"must be a number from 0 to below 1, got {self.min_share!r}")
        if self.probabilities and (self.columns != "crossed" or self.ordered is not False):
            what = f"columns={self.columns!r}" if self.columns != "crossed" else f"ordered={self.ordered!r}"
            raise ArgumentError(
                "probabilities", f"must be False with {what}, got True: its columns are the groups themselves"
            )

    def __hash__(self) -> int:
        return hash((self.columns, self.against, self.unknown, self.min_rows, self.min_share, self.left_out))

    @property
    def is_plain(self) -> bool:
        """Whether it says nothing: the groups that occur, each compared with every other."""
        return replace(self, min_rows=self.min_rows or None) == Comparison()


def _plain(value: Any, sequence: type = list) -> Any:
    """Return arrays and columns of a data frame, also those in a dict, as lists or tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(each, sequence) for key, each in value.items()}
    if isinstance(value, (range, set, frozenset)):
        value = sorted(value)
    value = value.tolist() if hasattr(value, "tolist") else value
    return sequence(value) if isinstance(value, list) else value


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA is neither equal nor unequal
        return True


COMPARISONS = {
    "crossed": Comparison(),
    "each": Comparison(columns="each"),
    "each and crossed": Comparison(columns="each and crossed"),
    "rest": Comparison(against="rest"),
    "ordered": Comparison(ordered=True),
    "probabilities": Comparison(probabilities=True),
}


def check_comparison(comparison: Any) -> Comparison:
    """Return a comparison that is given by its name, or itself."""
    if isinstance(comparison, Comparison):
        return comparison
    if isinstance(comparison, str) and comparison in COMPARISONS:
        return COMPARISONS[comparison]
    names = ", ".join(map(repr, COMPARISONS))
    raise ArgumentError("comparison", f"must be one of {names} or a Comparison, got {comparison!r:.60}")
