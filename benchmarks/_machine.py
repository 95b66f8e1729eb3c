"""What every benchmark prints first: the machine, the thread count, the versions."""

import os
import platform
from importlib.metadata import version

from threadpoolctl import threadpool_info


def describe() -> str:
    """One line about where the figures come from."""
    import numpy  # noqa: F401  (loads the BLAS whose threads are counted)

    threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, BLAS threads {threads or '?'}, load {load:.1f}, "
        f"Python {platform.python_version()}, {packages}"
    )
