"""What the penalties in torch share where the model is a network: ours in layers, epochs and steps.

One hidden layer of 64, ReLU, α/2·‖W‖² beside the mean log loss, Adam in mini-batches with a rate that falls
linearly; the weight of the penalty rises over the first 30 % of the epochs. Each setting starts where the
last one ended and gets a third of the epochs. So only the penalty differs from `FairMLPClassifier`.
"""

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from rivals._protocol import Score

ALPHA, RATE, SLOWEST, EPOCHS, LATER, RAMP = 1e-3, 3e-3, 0.02, 60, 1 / 3, 0.3


def batch_rows(n: int) -> int:
    """Return a twelfth of the rows, within 128 and 2048."""
    return min(max(n // 12, 128), 2048)


def network(n_features: int, seed: int) -> torch.nn.Sequential:
    """Return a network with one hidden layer of 64."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(n_features, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))


def train(model, rows, penalty, weight: float, epochs: int, draw, *, ramp: bool) -> None:
    """Train in place; `penalty` takes the batch's raw scores and its rows."""
    X, y = rows
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    n_ramp = int(RAMP * epochs) if ramp else 0
    n_batches = -(-len(y) // batch_rows(len(y)))
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - (1 - SLOWEST) * epoch / max(epochs - 1, 1))
        eased = weight * min(1.0, (epoch + 1) / (n_ramp + 1))
        for batch in torch.randperm(len(y), generator=draw).tensor_split(n_batches):
            g = model(X[batch])[:, 0]
            ridge = sum((part.weight**2).sum() for part in model if hasattr(part, "weight"))
            loss = binary_cross_entropy_with_logits(g, y[batch]) + 0.5 * ALPHA * ridge
            optimiser.zero_grad()
            (loss + eased * penalty(g, batch) if eased else loss).backward()
            optimiser.step()


def along(X, y, settings, penalty, seed) -> list[Score]:
    """Return the scores after training at every weight, in order, each from where the last one ended."""
    rows = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    model, draw = network(X.shape[1], seed), torch.Generator().manual_seed(seed)
    scores = []
    for place, weight in enumerate(settings):
        epochs = EPOCHS if place == 0 else round(LATER * EPOCHS)
        train(model, rows, penalty, weight, epochs, draw, ramp=place == 0)
        scores.append(_score(model))
    return scores


def _score(model) -> Score:
    """Return the score of the network as it is now."""
    weights = [part.detach().double().numpy().copy() for part in model.parameters()]

    def score(X, groups):
        W, b, v, c = weights
        return 1 / (1 + np.exp(-(np.maximum(X @ W.T + b, 0) @ v.T + c)[:, 0]))

    return score
