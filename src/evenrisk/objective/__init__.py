"""The paper's objective: mean loss + λ/2‖w‖² + η·E_f, first in the scores, then in the parameters.

Everything is differentiated with respect to scores, and pulled back to the parameters once.
"""

from evenrisk.objective._linear import LinearObjective, LinearProblem, Problem, linear_scores
from evenrisk.objective._scores import Penalty, ScoreObjective

__all__ = ["LinearObjective", "LinearProblem", "Penalty", "Problem", "ScoreObjective", "linear_scores"]
