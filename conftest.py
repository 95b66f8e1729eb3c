"""In the minimum environment, leave out modules whose packages are absent: no doctest can run there."""

import os
from importlib.util import find_spec

NEEDS = {
    "_kernels/_loops": ["numba"],
    "nn": ["torch"],
    "neural_network": ["torch"],
    "boosting": ["lightgbm", "xgboost"],
}

collect_ignore_glob = [
    f"src/evenrisk/{module}*"
    for module, packages in NEEDS.items()
    if os.environ.get("EVENRISK_TESTS") == "minimum" and not all(map(find_spec, packages))
]
