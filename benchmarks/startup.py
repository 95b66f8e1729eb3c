"""How long until something happens: imports and ``--help``, in fresh processes, taken in turn."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from _machine import describe

REPEATS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import sklearn.linear_model": [sys.executable, "-c", "import sklearn.linear_model"],
    "import evenrisk": [sys.executable, "-c", "import evenrisk"],
    "from evenrisk import FairLogisticRegression": [
        sys.executable,
        "-c",
        "from evenrisk import FairLogisticRegression",
    ],
    "evenrisk --help": [str(Path(sys.executable).with_name("evenrisk")), "--help"],
}


def main():
    print(describe())
    taken = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            taken[name].append(time.perf_counter() - start)
    reference = median(taken["import sklearn.linear_model"])
    print(f"\n### Start-up, median of {REPEATS}\n\n| | seconds | to sklearn.linear_model |\n|---|---|---|")
    for name, times in taken.items():
        print(f"| `{name}` | {median(times):.3f} | {median(times) / reference:.2f}× |")


if __name__ == "__main__":
    main()
