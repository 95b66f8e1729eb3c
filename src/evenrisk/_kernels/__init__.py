"""Compiled loops over rows, on every core, where numba is installed; NumPy does the same work without.

A compiled loop needs a second to be loaded in a process, so it is used from `FEW_ROWS` rows on. The rows are
cut into parts by their number alone, and the sums of the parts are added in order: results do not depend on
the number of threads. How many threads there are follows scikit-learn: `OMP_NUM_THREADS`, threadpoolctl's
limits, joblib's workers and a container's share of the processor all count.

`EVENRISK_KERNELS=numpy` in the environment, or `use("numpy")`, turns compiled loops off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from evenrisk._kernels._threads import at_most, n_threads, one_blas_thread, run

KINDS = ("numba", "numpy")
FEW_ROWS = 20_000
LEAST_PART, MOST_PART, MANY_PARTS = 4096, 65_536, 32  # rows of a part, and how many parts if that allows
SCORES_PART = (
    32_768  # the least where nothing is done but with scores, which is so little that threads must pay
)

_wanted: list[str] = []  # by `use`; the last one counts


def kind() -> str:
    """Return what does the work on many rows: "numba" or "numpy"."""
    wanted = _wanted[-1] if _wanted else os.environ.get("EVENRISK_KERNELS", "")
    if wanted not in ("", *KINDS):
        raise ValueError(f"EVENRISK_KERNELS must be 'numba' or 'numpy', got {wanted!r}")
    if wanted == "numba" and not _installed():
        raise ImportError("EVENRISK_KERNELS is 'numba', which is not installed: pip install evenrisk[fast]")
    return "numba" if _installed() and wanted != "numpy" else "numpy"


@contextmanager
def use(wanted: str, few_rows: int | None = None) -> Iterator[None]:
    """Work by `wanted` inside a with statement, compiled loops from `few_rows` rows on."""
    global FEW_ROWS
    before = FEW_ROWS
    _wanted.append(wanted)
    FEW_ROWS = before if few_rows is None else few_rows
    try:
        kind()
        yield
    finally:
        _wanted.pop()
        FEW_ROWS = before


def loops(*arrays: Any) -> ModuleType | None:
    """Return the compiled loops for these arrays of n rows; None where NumPy is to do the work."""
    n = len(arrays[0]) if isinstance(arrays[0], np.ndarray) else 0
    if n < FEW_ROWS or kind() != "numba" or not all(isinstance(each, np.ndarray) for each in arrays):
        return None
    from evenrisk._kernels import _loops

    return _loops


def parts(n: int, least: int = LEAST_PART) -> list[slice]:
    """Cut n rows into equal parts of about `least` rows or more; how depends on these numbers alone."""
    wanted = max(min(n // max(least, 1), MANY_PARTS), 1)
    if least <= MOST_PART:
        wanted = max(wanted, -(-n // MOST_PART))
    step = max(-(-n // wanted), 1)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


__all__ = ["SCORES_PART", "at_most", "kind", "loops", "n_threads", "one_blas_thread", "parts", "run", "use"]
