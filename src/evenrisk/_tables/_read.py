"""Read a file and make a table of it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from evenrisk._tables._columns import binary, names, numbers, weights
from evenrisk._tables._csv import read_csv
from evenrisk._tables._messages import TableError, Wanted, refuse_twice
from evenrisk._tables._parquet import read_parquet
from evenrisk._tables._source import open_source, unwrap
from evenrisk._validation import visible

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """What an audit needs of a file; no value is missing."""

    scores: dict[str, np.ndarray]  # (n,) float64 or narrower, finite, in the order asked for
    groups: pd.DataFrame  # a categorical column of text each, in the order asked for
    label: np.ndarray | None  # (n,) bool: True is positive
    label_words: tuple[str, str] | None  # negative and positive in the file's words
    weight: np.ndarray | None  # (n,) float64, none negative
    n: int

    def outcomes(self, name: str) -> pd.Series[str] | None:
        """The labels in the file's words, each held once; None without a label."""
        import pandas as pd

        if self.label is None:
            return None
        code, known = self.label.astype("int8"), pd.Index(self.label_words or ())
        return pd.Series(pd.Categorical.from_codes(code, known), name=name)


def read_table(
    path: str,
    *,
    scores: Sequence[str],
    groups: Sequence[str],
    label: str | None = None,
    positive: str | None = None,
    weight: str | None = None,
) -> Table:
    """Read the columns named from a file (CSV, gzipped CSV, Parquet) or from "-", standard input.

    Raises
    ------
    TableError
        Where the file, or what it holds, is not a table that can be audited.
    """
    asked = {"score": scores, "group": groups, "label": [label], "weight": [weight]}
    wanted = [Wanted(role, name) for role, listed in asked.items() for name in listed if name is not None]
    try:
        refuse_twice(wanted)
        return _table(_columns(path, wanted), wanted, positive)
    except TableError as error:
        place = "standard input" if path == "-" else visible(path.encode("utf-8", "replace").decode())
        raise TableError(f"{place}: {error}") from error


def _columns(path: str, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Read the wanted columns, whatever the format."""
    try:
        with open_source(path) as source:
            stream, is_parquet = unwrap(source, path)
            columns = (read_parquet if is_parquet else read_csv)(stream, wanted)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"must be a whole gzip file, got one that cannot be unpacked ({error})") from error
    except OSError as error:
        raise TableError(f"must be a file that can be read, got: {error.strerror or error}") from error
    if not len(columns[wanted[0].name]):
        raise TableError("must have at least 1 row of data, got 0")
    return columns


def _table(columns: dict[str, Any], wanted: Sequence[Wanted], positive: str | None) -> Table:
    """Check each column for what it is wanted for."""
    import pandas as pd

    check: dict[str, Callable[[Wanted, Any], Any]] = {
        "score": numbers,
        "group": _categorical,
        "label": partial(binary, positive=positive),
        "weight": weights,
    }
    checked = {one: _checked(check[one.role], one, columns[one.name]) for one in wanted}
    by_role = {role: {one.name: checked[one] for one in wanted if one.role == role} for role in check}
    label, words = next(iter(by_role["label"].values()), (None, None))
    return Table(
        scores=by_role["score"],
        groups=pd.DataFrame(by_role["group"]),
        label=label,
        label_words=words,
        weight=next(iter(by_role["weight"].values()), None),
        n=len(columns[wanted[0].name]),
    )


def _checked(check: Callable[[Wanted, Any], Any], wanted: Wanted, column: Any) -> Any:
    """Check a column; that pyarrow has no way to do it is the fault of the column's type."""
    import pyarrow as pa

    try:
        return check(wanted, column)
    except pa.ArrowException as error:
        kind = f"values of type {column.type} ({error})"
        raise TableError(f"{wanted} must be text, numbers or booleans, got {kind}") from error


def _categorical(wanted: Wanted, column: Any) -> pd.Categorical[str]:
    """A column of names, each of which is held once."""
    import pandas as pd

    code, known = names(wanted, column)
    return pd.Categorical.from_codes(code, pd.Index(known))
