"""The same batches for one process or for two that share them: run as a script, it is one of the two."""

import os
import sys
from pathlib import Path

import numpy as np

from evenrisk import GapDistance
from worlds import world

# name → distance, unbiased
LOSSES = {
    "gap": ("gap", True),
    "gap-biased": ("gap", False),
    "gap-window": (GapDistance(window=(0.2, 0.6)), True),
    "gap-rank": (GapDistance(scale="rank"), False),
    "gap-power": (GapDistance(power=8), False),
    "histogram": ("histogram", False),
    "gaussian": ("gaussian", False),
}
MEMORY = 25
N_BATCHES = 4


def shared_batch(number):
    """A batch, and where it is cut in two: evenly, unevenly, a group in one part only, one part empty."""
    w = world("equalized_odds", 3, n=90, seed=number)
    cut = [45, 13, 45, 90][number]
    order = np.argsort(w.group, kind="stable")[::-1] if number == 2 else np.arange(90)
    return w, order, cut


def part(number, rank, world_size):
    """Scores, groups, labels and weights of one process, in float64."""
    import torch

    w, order, cut = shared_batch(number)
    rows = order if world_size == 1 else (order[:cut], order[cut:])[rank]
    # one part may weigh far more than the other, and both must have one unit
    weight = np.where(np.isin(np.arange(90), order[:cut]) & (number == 1), 64 * w.weight, w.weight)
    return [torch.tensor(x[rows]) for x in (w.g, w.group, w.y, weight)]


def penalties(rank, world_size):
    """Value and gradient in the scores, for every loss and batch in turn, with a memory and without."""
    from evenrisk.nn import ParityLoss

    found = {}
    for name, (distance, unbiased) in LOSSES.items():
        for memory in (0, MEMORY):
            loss = ParityLoss(distance, "equalized_odds", 3, unbiased=unbiased, memory=memory).double()
            for number in range(N_BATCHES):
                g, group, y, weight = part(number, rank, world_size)
                g.requires_grad_()
                value = loss(g, group, y, weight)
                (0.7 * value).backward()
                found[name, memory, number] = value.detach(), g.grad
            if memory:
                found[name, "recent"] = loss.memory.recent
    found["network"] = network_gradient(rank, world_size)
    return found


def network_gradient(rank, world_size):
    """Gradient of a network's weights, of a mean loss and the penalty of a batch cut evenly."""
    import torch

    from evenrisk.nn import ParityLoss

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()
    model = torch.nn.parallel.DistributedDataParallel(network) if world_size > 1 else network
    _, group, y, _ = part(0, rank, world_size)
    w, order, cut = shared_batch(0)
    X = torch.tensor(w.X[order if world_size == 1 else (order[:cut], order[cut:])[rank]])
    g = model(X)[:, 0]
    parity = ParityLoss(parity="equalized_odds", n_groups=3)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(g, y.double()) + 3 * parity(g, group, y)
    loss.backward()
    return torch.cat([weight.grad.reshape(-1) for weight in network.parameters()])


def main(rank, folder):
    """Meet the other process through a file, and write down what is found."""
    import torch

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    torch.save(penalties(rank, 2), Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
