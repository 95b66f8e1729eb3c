"""Solvers: they minimise a function of parameters, without knowing about scores, losses or groups."""

from evenrisk.solvers.descent import RENEW, Solution, lbfgs, newton, precondition, ridged_inverse
from evenrisk.solvers.momentum import momentum

__all__ = ["RENEW", "Solution", "lbfgs", "momentum", "newton", "precondition", "ridged_inverse"]
