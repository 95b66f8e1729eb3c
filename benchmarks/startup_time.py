"""How long imports and `--help` take.

In fresh processes that take turns.
"""

import subprocess
import sys
from pathlib import Path

from _report import option_parser, print_heading, print_table, results_file, time_in_turn

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
    parser = option_parser(__doc__, "3 repeats")
    args = parser.parse_args()
    repeats = 3 if args.quick else 15
    tasks = {
        name: lambda command=command: subprocess.run(command, check=True, capture_output=True)
        for name, command in COMMANDS.items()
    }
    with results_file(parser, args):
        seconds, _ = time_in_turn(tasks, repeats)
        reference = seconds["import sklearn.linear_model"]
        print_heading(
            f"Median of {repeats} processes",
            "Targets: `import evenrisk` < 1.5× `import sklearn.linear_model`, `evenrisk --help` < 0.3 s.",
        )
        print_table(
            ["", "seconds", "to sklearn.linear_model"],
            ([f"`{name}`", f"{t:.3f}", f"{t / reference:.2f}×"] for name, t in seconds.items()),
        )


if __name__ == "__main__":
    main()
