"""Methods compared at the same max gap: quality read off each one's path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenrisk._validation import ArgumentError, check_number


def quality_at_gap(paths: Any, gaps: Sequence[float], *, quality: str = "auc") -> Any:
    """Read off the quality of each method at equal max gap.

    Parameters
    ----------
    paths : pandas.DataFrame
        One row for each method and setting, as :func:`~evenrisk.model_selection.tradeoff_path` returns them;
        tables of several methods joined by ``pandas.concat``. Columns `method`, `max_gap` and the quality.
    gaps : sequence of float
        Where to compare.
    quality : str, default="auc"
        Column of the quality.

    Returns
    -------
    pandas.DataFrame
        One row for each method, one column for each gap: the best quality of settings whose max gap is at
        most that, interpolated linearly between two of them; NaN where the method never reaches it.

    Examples
    --------
    >>> import pandas as pd
    >>> paths = pd.DataFrame({"method": "ours", "max_gap": [0.3, 0.1], "auc": [0.9, 0.8]})
    >>> quality_at_gap(paths, [0.4, 0.2, 0.05])
    max gap  0.40  0.20  0.05
    ours      0.9  0.85   NaN
    """
    import pandas as pd

    if not isinstance(paths, pd.DataFrame):
        raise ArgumentError("paths", f"must be a pandas DataFrame, got {type(paths).__name__}")
    if not isinstance(quality, str):
        raise ArgumentError("quality", f"must be the name of a column, got {quality!r:.60}")
    if missing := [name for name in ("method", "max_gap", quality) if name not in paths.columns]:
        raise ArgumentError(
            "paths", f"must have the columns method, max_gap and {quality}, got no {missing[0]}"
        )
    if np.ndim(gaps) != 1 or not len(gaps):
        raise ArgumentError("gaps", f"must be a sequence of at least 1 number, got {gaps!r:.60}")
    wanted = [float(check_number("gaps", gap, low=0, strict=True)) for gap in gaps]
    for name in ("max_gap", quality):
        if not pd.api.types.is_numeric_dtype(paths[name]):
            raise ArgumentError("paths", f"must have numbers in the column {name}, got {paths[name].dtype}")
    found = {}
    for method, whole in paths.groupby("method", sort=False):
        path = whole.dropna(subset=["max_gap", quality])
        if not len(path):
            found[method] = np.full(len(wanted), np.nan)
            continue
        ordered = path.sort_values(["max_gap", quality])
        best = np.maximum.accumulate(ordered[quality].to_numpy(dtype=float))
        gap, last = np.unique(ordered["max_gap"].to_numpy(dtype=float)[::-1], return_index=True)
        found[method] = np.interp(wanted, gap, best[::-1][last], left=np.nan)
    return pd.DataFrame.from_dict(found, orient="index", columns=pd.Index(wanted, name="max gap"))
