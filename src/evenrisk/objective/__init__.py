"""The paper's objective: mean loss + λ/2‖w‖² + η·E_f, first in the scores, then in the parameters.

Derivatives are taken with respect to the scores; one last step turns them into those of the parameters.
"""

from evenrisk.objective._linear import LinearObjective, LinearProblem, Problem, linear_scores
from evenrisk.objective._sample import sample_rows
from evenrisk.objective._scores import Penalty, ScoreObjective, Terms

__all__ = [
    "LinearObjective",
    "LinearProblem",
    "Penalty",
    "Problem",
    "ScoreObjective",
    "Terms",
    "linear_scores",
    "sample_rows",
]
