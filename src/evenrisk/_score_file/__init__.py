"""The table an audit is made of: scores, groups, outcomes and weights, read from a file.

    read_table(path, scores, groups, label, positive, weight) → Table

Conventions
-----------
A file is CSV, gzipped CSV or Parquet, recognised by its first bytes; "-" is standard input. Only the columns
asked for are kept. Whatever a file holds, it ends in a `Table` or in a `TableError`,
which says what was required, what came, and in which data row: the first row of data is 1, a header is not
counted.

Text, for groups and labels: spaces around a value are not part of it, whole numbers are written without a
point (1.0 is "1"), booleans are "True" and "False". No value is a null, a NaN or an empty field; the words
NA, None and null are names like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk._score_file._columns import ATTRIBUTE, ColumnSpec, TableError, check_column, refuse_twice
from evenrisk._score_file._formats import read_columns
from evenrisk._validation import visible

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "TableError", "read_table"]


@dataclass(frozen=True)
class Table:
    """What an audit needs of a file; no value is missing, but of the attribute where that is allowed."""

    scores: dict[str, np.ndarray]  # (n,) float64 or narrower, finite, in the order asked for
    groups: pd.DataFrame  # the attribute: columns of text (categorical), then of numbers
    label: np.ndarray | None  # (n,) bool: True is positive
    label_words: tuple[str, str] | None  # negative and positive in the file's words
    weight: np.ndarray | None  # (n,) float64, none negative
    n: int

    def outcomes(self, name: str) -> pd.Series[str] | None:
        """Return the labels in the file's words, each held once; None without a label."""
        import pandas as pd

        if self.label is None:
            return None
        code, known = self.label.astype("int8"), pd.Index(self.label_words or ())
        return pd.Series(pd.Categorical.from_codes(code, known), name=name)


def read_table(
    path: str,
    *,
    scores: Sequence[str],
    groups: Sequence[str] = (),
    ordered: Sequence[str] = (),
    probabilities: Sequence[str] = (),
    label: str | None = None,
    positive: str | None = None,
    weight: str | None = None,
    may_lack: bool = False,
) -> Table:
    """Read the columns named from a file (CSV, gzipped CSV, Parquet) or from "-", standard input.

    `ordered` columns of the attribute, and `probabilities` of groups, are numbers. `may_lack` allows rows
    in which a column of the attribute has no value.

    Raises
    ------
    TableError
        Where the file, or what it holds, is not a table that can be audited.
    """
    asked = {
        "score": scores,
        "group": groups,
        "ordered": ordered,
        "probability": probabilities,
        "label": [label],
        "weight": [weight],
    }
    specs = [
        ColumnSpec(role, name, may_lack and role in ATTRIBUTE)
        for role, names in asked.items()
        for name in names
        if name is not None
    ]
    try:
        refuse_twice(specs)
        return _check(read_columns(path, specs), specs, positive)
    except TableError as error:
        place = "standard input" if path == "-" else visible(path.encode("utf-8", "replace").decode())
        raise TableError(f"{place}: {error}") from error


def _check(columns: dict[str, Any], specs: Sequence[ColumnSpec], positive: str | None) -> Table:
    """Return the table, each column checked for its role."""
    import pandas as pd

    found: dict[str, dict[str, Any]] = {each.role: {} for each in specs}
    for each in specs:
        found[each.role][each.name] = check_column(each, columns[each.name], positive)
    groups = {
        name: pd.Categorical.from_codes(code, pd.Index(known))
        for name, (code, known) in found.get("group", {}).items()
    }
    groups |= found.get("ordered", {}) | found.get("probability", {})
    label, label_words = next(iter(found.get("label", {}).values()), (None, None))
    return Table(
        scores=found["score"],
        groups=pd.DataFrame(groups),
        label=label,
        label_words=label_words,
        weight=next(iter(found.get("weight", {}).values()), None),
        n=len(columns[specs[0].name]),
    )
