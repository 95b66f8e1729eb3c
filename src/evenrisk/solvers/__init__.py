"""Solvers: they minimise a function of parameters and know nothing of scores, losses or groups."""

from evenrisk.solvers._solution import Solution
from evenrisk.solvers.lbfgs import lbfgs
from evenrisk.solvers.momentum import momentum
from evenrisk.solvers.newton import RENEW, newton, ridged_inverse
from evenrisk.solvers.path import WIDE, ladder

__all__ = ["RENEW", "WIDE", "Solution", "ladder", "lbfgs", "momentum", "newton", "ridged_inverse"]
