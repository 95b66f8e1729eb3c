"""What the two penalties in torch share: a linear model on all rows at once, trained to the end.

J(w, b) = mean log loss of g = Xw + b, plus α/2·‖w‖², plus weight·penalty(g, rows). Training is in coordinates
in which the plain loss is round: (w, b) = T v with TTᵀ the inverse of its Hessian at 0. The minimum is the
same; Adam and L-BFGS reach it in hundreds of steps where on one-hot columns they need many thousands.
"""

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn.functional import binary_cross_entropy_with_logits

from rivals._protocol import ALPHA, Score

OPTIONS = {"maxiter": 500, "maxfun": 600, "maxcor": 20, "ftol": 0, "gtol": 1e-6}
TRIES, KINK_STEPS = 3, 300


class LinearProblem:
    """J on a set of rows, and the score of any v."""

    def __init__(self, X, y, penalty):
        X1 = np.column_stack([X, np.ones(len(X))])
        ridge = np.append(np.full(X.shape[1], ALPHA), 0.0)
        size, axes = np.linalg.eigh(X1.T @ X1 / (4 * len(X)) + np.diag(ridge))
        T = axes / np.sqrt(size)
        self.T, self.ridge = torch.tensor(T), torch.tensor(ridge)
        self.Z, self.y = torch.tensor(X1 @ T), torch.tensor(y, dtype=torch.float64)
        self.penalty = penalty

    def __call__(self, v: torch.Tensor, weight: float, rows=slice(None)) -> torch.Tensor:
        g = self.Z[rows] @ v
        ridge = 0.5 * (self.ridge * (self.T @ v) ** 2).sum()
        loss = binary_cross_entropy_with_logits(g, self.y[rows]) + ridge
        return loss + weight * self.penalty(g, rows) if weight else loss

    def score(self, v: torch.Tensor) -> Score:
        *w, b = (self.T @ v).tolist()
        return lambda X, groups: torch.sigmoid(torch.tensor(X @ np.array(w) + b)).numpy()


def minimum(problem: LinearProblem, v: torch.Tensor, weight: float) -> torch.Tensor:
    """L-BFGS from v until the gradient is 1e-6.

    A kink ends L-BFGS early. Then Adam goes on along it and L-BFGS tries again, as long as that gains 1e-6.
    """

    def value_and_gradient(at):
        v = torch.tensor(at, requires_grad=True)
        value = problem(v, weight)
        (gradient,) = torch.autograd.grad(value, v)
        return value.item(), gradient.numpy()

    def descend(v):
        return minimize(value_and_gradient, v.numpy(), jac=True, method="L-BFGS-B", options=OPTIONS)

    best = descend(v)
    for _ in range(TRIES):
        if np.abs(best.jac).max() <= OPTIONS["gtol"]:
            break
        found = descend(adam(problem, torch.tensor(best.x), weight, KINK_STEPS))
        gain, best = best.fun - found.fun, min(best, found, key=lambda each: each.fun)
        if gain < 1e-6:
            break
    return torch.tensor(best.x)


def adam(problem: LinearProblem, v: torch.Tensor, weight: float, steps: int, rows=None, draw=None):
    """Adam from v, its rate falling from 0.03 to 1e-4, on batches of `rows` random rows or on all."""
    v = v.clone().requires_grad_()
    optimiser = torch.optim.Adam([v], lr=0.03)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, (1e-4 / 0.03) ** (1 / steps))
    for _ in range(steps):
        batch = slice(None) if rows is None else torch.randint(len(problem.y), (rows,), generator=draw)
        optimiser.zero_grad()
        problem(v, weight, batch).backward()
        optimiser.step()
        decay.step()
    return v.detach()
