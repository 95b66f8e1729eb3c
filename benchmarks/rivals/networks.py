"""fairret's and MinDiff's losses on the same network as ours (`_torch_network`)."""

import numpy as np
import torch

from rivals._protocol import Rival, Score
from rivals._torch_network import along
from rivals.fairret_norm import _penalty as fairret_penalty
from rivals.mmd import squared_mmd

FAIRRET_WEIGHTS = (0.0, *np.geomspace(0.05, 10, 19).round(4).tolist())
MMD_WEIGHTS = (0.0, *np.geomspace(0.1, 100, 19).round(4).tolist())


def fairret(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """The norm of relative differences of the batch's rates."""
    members = torch.nn.functional.one_hot(torch.tensor(groups), 2).to(torch.float32)
    penalty = fairret_penalty(torch.tensor(y, dtype=torch.float32), members, parity)
    return along(X, y, settings, penalty, seed)


def mmd(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """The squared maximum mean discrepancy of the batch's groups; a stratum without both says nothing."""
    strata = [y == y] if parity == "demographic_parity" else [y == 0, y == 1]
    cells = [(torch.tensor(rows & (groups == 0)), torch.tensor(rows & (groups == 1))) for rows in strata]

    def penalty(g, batch):
        columns = []
        for first, second in cells:
            a, b = first[batch].double(), second[batch].double()
            if a.any() and b.any():
                columns.append(b / b.sum() - a / a.sum())
        if not columns:
            return 0 * g.sum()
        return squared_mmd(torch.sigmoid(g.double()), torch.stack(columns, dim=1)).float()

    return along(X, y, settings, penalty, seed)


FAIRRET_MLP = Rival(
    "fairret MLP", fairret, dict.fromkeys(("demographic_parity", "equalized_odds"), FAIRRET_WEIGHTS)
)
MMD_MLP = Rival(
    "MinDiff (MMD) MLP", mmd, dict.fromkeys(("demographic_parity", "equalized_odds"), MMD_WEIGHTS)
)
