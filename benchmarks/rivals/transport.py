"""Optimal transport: every group's plain scores moved to the Wasserstein barycentre of all groups' scores.

T_a(s) = Σ_b p_b·Q_b(F_a(s)), F_a the distribution of scores in group a, Q_b the quantiles and p_b the share
of group b. The setting is how far to go: (1 − t)·s + t·T_a(s). Demographic parity only: equalized odds would
need the label at prediction.
"""

import numpy as np

from rivals._protocol import Rival, Score, plain_model

STEPS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit the plain model and the transport once, and stop at every step of the way."""
    plain = plain_model(len(y)).fit(X, y)
    s = plain.predict_proba(X)[:, 1]
    scores = [np.sort(s[groups == a]) for a in (0, 1)]
    share = [len(each) / len(s) for each in scores]

    def repaired(X, groups, t):
        s = plain.predict_proba(X)[:, 1]
        moved = np.empty_like(s)
        for a in (0, 1):
            at = rank(scores[a], s[groups == a])
            moved[groups == a] = sum(p * quantile(each, at) for p, each in zip(share, scores, strict=True))
        return (1 - t) * s + t * moved

    return [lambda X, groups, t=t: repaired(X, groups, t) for t in settings]


def rank(ordered: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return F(s), halfway up the jump where scores are tied; between two scores in proportion."""
    values = np.unique(ordered)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.interp(s, values, below / (2 * len(ordered)))


def quantile(ordered: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return Q(at), in proportion between two scores."""
    return np.interp(at, (np.arange(len(ordered)) + 0.5) / len(ordered), ordered)


TRANSPORT = Rival("optimal transport", path, {"demographic_parity": STEPS}, aware=True)
