"""fairret: the norm of relative differences of rates between groups, as a loss beside the log loss.

`NormLoss` of the PositiveRate under demographic parity, of the true and the false positive rate under
equalized odds; rates are means of scores. The setting is (weight, rows in a batch). On all rows at once the
norm has a kink where the rates agree: beyond some weight they agree exactly and more weight changes nothing.
In batches, as its own examples train, they never do, so more weight goes on evening scores out, and the path
is longer: both are offered and validation chooses.
"""

import warnings

import torch

from rivals._protocol import Rival, Score
from rivals._torch_linear import LinearProblem, adam, minimum

with warnings.catch_warnings():  # of its docstrings, when they are first compiled
    warnings.filterwarnings("ignore", "invalid escape sequence")
    from fairret.loss import NormLoss
    from fairret.statistic import FalsePositiveRate, PositiveRate, TruePositiveRate

FULL = tuple((weight, None) for weight in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 1.0))
BATCHED = tuple((weight, 512) for weight in (0.2, 0.5, 1.0, 2.0, 5.0, 10.0))
STEPS = 1000  # in batches
AGREE = 1e-4  # a norm this small is at the kink: a minimum for every larger weight too


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Train at every setting, each from where the last one ended."""
    members = torch.nn.functional.one_hot(torch.tensor(groups), 2).to(torch.float64)
    problem = LinearProblem(X, y, _penalty(torch.tensor(y, dtype=torch.float64), members, parity))
    v = minimum(problem, torch.zeros(X.shape[1] + 1, dtype=torch.float64), 0.0)
    scores = []
    for weight, rows in settings:
        if rows is None:
            agree = float(problem.penalty(problem.Z @ v, slice(None))) < AGREE
            v = v if agree else minimum(problem, v, weight)
        else:
            v = adam(problem, v, weight, STEPS, rows, torch.Generator().manual_seed(seed))
        scores.append(problem.score(v))
    return scores


def _penalty(y, members, parity):
    """Return the loss as a function of raw scores g and their rows."""
    if parity == "demographic_parity":
        rates = NormLoss(PositiveRate())
        return lambda g, rows: rates(g[:, None], members[rows])
    both = NormLoss(TruePositiveRate()), NormLoss(FalsePositiveRate())
    return lambda g, rows: sum(rates(g[:, None], members[rows], y[rows, None]) for rates in both)


FAIRRET = Rival("fairret", path, {"demographic_parity": FULL + BATCHED, "equalized_odds": FULL + BATCHED})
