"""`evenrisk reproduce` with a protocol that takes seconds: the same code, fewer rows, η and bounds."""

from functools import partial

from evenrisk import cli, paper
from evenrisk.paper import protocol
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
    cli.main()
