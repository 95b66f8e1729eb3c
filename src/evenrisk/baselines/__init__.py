"""The constrained classifiers that the paper compares with: a bound on one covariance, at one threshold.

Conventions
-----------
θ = (w, b), b only with an intercept; g = Xw + b; share = weight/Σweight. For group j, z is 1 inside it and 0
outside, and z̄ its share; q = share·(z − z̄), so that the covariance of z with any f(g) is Σ q·f(g). Two groups
have the same covariance but for its sign: one of them is bounded. With more, each against the rest.
"""

from evenrisk.baselines._demographic_parity import ZafarDP
from evenrisk.baselines._equalized_odds import ZafarEO

__all__ = ["ZafarDP", "ZafarEO"]
