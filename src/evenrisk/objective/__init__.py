"""The paper's objective: mean loss + λ/2‖w‖² + η·E_f, first in the scores, then in the parameters.

Everything is differentiated with respect to scores, and pulled back to the parameters once. Rows are worked
through in blocks that stay in cache, in two rounds, because the penalty's derivative needs the sums of all
rows: round 1 adds the loss and the sums, round 2 adds the gradient.
"""

from evenrisk.objective._linear import LinearObjective
from evenrisk.objective._moments import second_moments
from evenrisk.objective._scores import Penalty, ScoreObjective

__all__ = ["LinearObjective", "Penalty", "ScoreObjective", "second_moments"]
