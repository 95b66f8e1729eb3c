"""`evenrisk reproduce` with a protocol that takes seconds: the same code, fewer rows, η and bounds.

With EVENRISK_FIGURES=none it draws no figures, which take longer than all fits.
"""

import os
from functools import partial

from evenrisk import cli, paper
from evenrisk.paper import figures, protocol
from evenrisk.paper.protocol import Row

ROWS = (
    Row("LR", "histogram", (0.0, 0.08, 0.16, 0.25, 0.5)),
    Row("LR", "gaussian", (0.0, 0.08, 0.16, 0.25, 0.5)),
    Row("LSVM", "histogram", (0.0, 0.2, 1.0)),
    Row("LR", "gap", (0.0, 5.0, 10.0), ours=True),
    Row("LightGBM", "gap", (0.0, 20.0), ours=True),
)
BOUNDS = {"demographic_parity": (0.0, 0.005, 0.01), "equalized_odds": (0.05,)}  # the last does not bind
TINY = partial(paper.Protocol, rows=ROWS, bounds=BOUNDS)

if __name__ in ("__main__", "__mp_main__"):  # the command, and each of its workers
    protocol.PERMUTATIONS = 50

if __name__ == "__main__":
    paper.Protocol = TINY
    if os.environ.get("EVENRISK_FIGURES") == "none":
        for draw in ("parity_curves", "tradeoff", "risk_distributions"):
            setattr(figures, draw, lambda experiment, folder: None)
    cli.main()
