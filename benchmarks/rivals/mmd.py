"""MinDiff's loss: the squared maximum mean discrepancy of the groups' scores, Gaussian kernel of length 0.1.

MMD² = mean k(s, s') in one group − 2·mean across + mean in the other, k(s, s') = exp(−((s − s')/0.1)²). On
[0, 1] the kernel is a short cosine series, k(d) = Σ_m a_m·cos(2πmd/P), so that MMD² = Σ_m a_m·|φ_m1 − φ_m0|²
with φ_m the groups' means of exp(2πims/P): all pairs in O(n), where MinDiff takes those within a batch.
Equalized odds adds up both labels; MinDiff's own recipe is the negatives alone.
"""

import numpy as np
import torch

from rivals._protocol import Rival, Score
from rivals._torch_linear import LinearProblem, minimum

LENGTH = 0.1
PERIOD = 1.5  # the next copy of the kernel is 0.5 away from the largest difference: exp(−25)
M = np.arange(1, 21)  # the first term left out is 1e-9
A = 2 * LENGTH * np.sqrt(np.pi) / PERIOD * np.exp(-((np.pi * M * LENGTH / PERIOD) ** 2))
WEIGHTS = (0.0, 0.2, 0.5, 0.7, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 100.0)


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Train at every weight, each from where the last one ended; all rows at once, so nothing is random.

    The problem is not convex and a leap ends in worse minima: the path includes half of `WEIGHTS` on the way.
    """
    strata = [y == y] if parity == "demographic_parity" else [y == 0, y == 1]
    contrast = np.column_stack([_contrast(groups, rows) for rows in strata])
    problem = LinearProblem(X, y, lambda g, rows: squared_mmd(torch.sigmoid(g), torch.tensor(contrast)))
    v = minimum(problem, torch.zeros(X.shape[1] + 1, dtype=torch.float64), 0.0)
    scores = {}
    for weight in sorted({*settings, *(weight for weight in WEIGHTS[::2] if weight < max(settings))}):
        v = minimum(problem, v, weight)
        scores[weight] = problem.score(v)
    return [scores[weight] for weight in settings]


def _contrast(groups, rows) -> np.ndarray:
    """Return 1/n of the one group, −1/n of the other, 0 outside the stratum (n,)."""
    one, other = rows & (groups == 1), rows & (groups == 0)
    return one / one.sum() - other / other.sum()


def squared_mmd(s: torch.Tensor, contrast: torch.Tensor) -> torch.Tensor:
    """Return Σ_h MMD² of scores s (n,) under contrasts (n, h)."""
    angle = (2 * np.pi / PERIOD) * s[:, None] * torch.tensor(M)
    a = torch.tensor(A)[:, None]
    return (a * ((torch.cos(angle).T @ contrast) ** 2 + (torch.sin(angle).T @ contrast) ** 2)).sum()


MMD = Rival("MinDiff (MMD)", path, {"demographic_parity": WEIGHTS, "equalized_odds": WEIGHTS})
