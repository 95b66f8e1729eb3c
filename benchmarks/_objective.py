"""The penalised objective of a linear model, outside an estimator: to time it, or to hand it to SciPy."""

import numpy as np

from evenrisk.distances import DISTANCES
from evenrisk.losses import LOGISTIC
from evenrisk.objective import LinearObjective, Penalty, ScoreObjective
from evenrisk.parity import PARITIES, make_cells


def linear_objective(X, y, groups, *, parity, distance, eta, alpha=0.0, loss=LOGISTIC):
    """Return J(θ) = mean loss + α/2·‖w‖² + η·penalty with its gradient, θ = (w, b); no penalty for None."""
    weight = np.broadcast_to(1.0, len(y))
    penalty = None
    if distance is not None:
        penalty = Penalty(DISTANCES[distance], make_cells(PARITIES[parity], y, groups, 2, weight))
    scores = ScoreObjective(loss, y, weight, penalty, eta)
    return LinearObjective(scores, X, alpha=alpha, fit_intercept=True)
