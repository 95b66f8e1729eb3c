"""Models repaired afterwards beside models trained fair, and copies of the repaired ones, on unseen people.

How a split is made and measured is told in `_frontier_runs.py`. `crowd` is a synthetic world a fifth of which
shares a risk near 0, unequally by group. The distilled model learns the repaired score from x alone; at
each η it stands beside the repair that it imitates.
"""

from dataclasses import replace

import numpy as np

import _frontier_runs as runs
from _frontier_tables import mean_and_error
from _repair_methods import PAIR, REPAIRS
from _report import print_heading, print_table

TABLES = (
    replace(runs.COMPAS, targets=(0.15, 0.10, 0.075)),
    replace(runs.ADULT, targets=(0.105, 0.08, 0.06, 0.045, 0.035, 0.025)),
    runs.CROWD,
)


def beside_the_repair(frame, name):
    """Print how far the distilled model is from the repair it imitates, at the same η."""
    for parity, part in frame.groupby("parity", sort=False):
        keys = ["split", "setting"]
        repair, copy = (part[part.method == each] for each in PAIR)
        both = repair.merge(copy, on=keys, suffixes=("", "_copy"))
        if not len(both):
            continue
        print_heading(
            f"{name}, {parity.replace('_', ' ')}: distilled minus repaired, test rows, at the same η",
            "Targets on Adult under demographic parity: max gap at most .01 above.",
        )
        print_table(
            ["(leaves, rounds), η", "repaired max gap", "max gap", "AUC"],
            (
                [
                    setting,
                    f"{rows.max_gap.mean():.4f}",
                    mean_and_error(np.asarray(rows.max_gap_copy - rows.max_gap)),
                    mean_and_error(np.asarray(rows.auc_copy - rows.auc)),
                ]
                for setting, rows in both.groupby("setting", sort=False)
            ),
        )


def methods():
    """Return the repairs, the models trained fair, and the rivals beside them."""
    from _our_methods import LIGHTGBM
    from rivals.linear_post import LINEAR_POST, LINEAR_POST_TREES
    from rivals.trees import PLAIN_TREES

    return (*REPAIRS, LIGHTGBM, LINEAR_POST, LINEAR_POST_TREES, PLAIN_TREES)


if __name__ == "__main__":
    runs.main(__doc__, TABLES, methods(), more=beside_the_repair)
