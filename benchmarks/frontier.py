"""AUC and accuracy against the max gap on unseen people: our methods and every rival.

How a split is made and measured is told in `_frontier_runs.py`.
"""

import _frontier_runs as runs
from _our_methods import OURS
from rivals import AWARE, UNAWARE

if __name__ == "__main__":
    runs.main(__doc__, (runs.COMPAS, runs.ADULT, runs.SYNTHETIC), (*OURS, *UNAWARE, *AWARE))
