"""In the minimum environment, rooms whose packages are absent are not collected: no doctest can run there."""

import os
from importlib.util import find_spec

NEEDS = {"nn": ["torch"], "neural_network": ["torch"], "boosting": ["lightgbm", "xgboost"]}

collect_ignore_glob = [
    f"src/evenrisk/{room}*"
    for room, packages in NEEDS.items()
    if os.environ.get("EVENRISK_TESTS") == "minimum" and not all(map(find_spec, packages))
]
