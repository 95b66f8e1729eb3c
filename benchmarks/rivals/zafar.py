"""Zafar et al.'s covariance bounds, the baselines of the paper, by our own solvers.

The setting is the bound as a share of the plain model's own covariance, so that one list serves all data.
"""

import warnings

import numpy as np

from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.exceptions import CollapseWarning, ConvergenceWarning
from rivals._protocol import ALPHA, Rival, Score, risk_of

KINDS = {"demographic_parity": ZafarDP, "equalized_odds": ZafarEO}
DP_SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.0)
EO_SHARES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit under every bound; both solvers are deterministic."""
    kind = KINDS[parity]
    plain = kind(np.inf, alpha=ALPHA).fit(X, y, sensitive_features=groups)
    reach = float(np.abs(plain.covariance_).max())
    scores = []
    for share in settings:
        with warnings.catch_warnings():
            # strict bounds on mistakes end in a collapse or at a step that is not quite a minimum
            warnings.simplefilter("ignore", CollapseWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            bounded = kind(share * reach, alpha=ALPHA).fit(X, y, sensitive_features=groups)
        scores.append(risk_of(bounded))
    return scores


ZAFAR_DP = Rival("Zafar-DP", path, {"demographic_parity": DP_SHARES})
ZAFAR_EO = Rival("Zafar-EO", path, {"equalized_odds": EO_SHARES}, most_rows=3000)  # cones for every row
