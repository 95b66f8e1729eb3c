"""What a report of a problem should say about the machine."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from evenrisk import __version__, _kernels

REQUIRED = (
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "narwhals",
    "array-api-compat",
    "pyarrow",
    "matplotlib",
)
OPTIONAL = ("numba", "torch", "cupy", "lightgbm", "xgboost", "cvxpy", "dccp")


def show_versions() -> None:
    """Print the versions of Python and of the packages in use, and what does the work on many rows.

    Examples
    --------
    >>> import evenrisk
    >>> evenrisk.show_versions()  # doctest: +ELLIPSIS
    evenrisk          ...
    """
    lines = {"evenrisk": __version__, "python": sys.version.split()[0], "system": platform.platform()}
    lines |= {name: _version(name) for name in REQUIRED + OPTIONAL}
    threads = _kernels.n_threads()
    if _kernels.kind() == "numba":
        lines["many rows"] = f"compiled by numba, {threads} thread{'s'[: threads > 1]}"
    else:
        lines["many rows"] = "NumPy, one thread; pip install evenrisk[fast] for compiled loops on every core"
    print("\n".join(f"{name:<18}{value}" for name, value in lines.items()))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
