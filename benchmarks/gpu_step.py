"""What the penalty adds to a training step of a network, on the device at hand.

A step is forward, loss, backward and Adam's update of a network of three layers of 1024 on 100 features, in
float32 unless said otherwise. Both kinds of step are taken in turn, in blocks, in one run; the ratio is that
of the medians.
"""

import argparse
import statistics
import time
from itertools import pairwise

import torch
from torch import nn

from evenrisk.nn import ParityLoss


def network(n_features, width, device):
    """Three hidden layers and one logit."""
    torch.manual_seed(0)
    sizes = (n_features, width, width, width)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to(device)


def stepper(rows, width, device, parity, amp, compiled=False):
    """Give a function that takes one training step."""
    draw = torch.Generator(device="cpu").manual_seed(0)
    X = torch.randn(rows, 100, generator=draw).to(device)
    groups = (torch.rand(rows, generator=draw) < 0.4).long().to(device)
    y = (torch.rand(rows, generator=draw) < 0.3).float().to(device)
    model = network(100, width, device)
    optimiser = torch.optim.Adam(model.parameters(), fused=device == "cuda")
    bce = nn.BCEWithLogitsLoss()

    def objective():
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            g = model(X)[:, 0]
            loss = bce(g, y)
            return loss if parity is None else loss + 5.0 * parity(g, groups, y)

    if compiled:
        objective = torch.compile(objective)

    def step():
        optimiser.zero_grad(set_to_none=True)
        objective().backward()
        optimiser.step()

    return step


def seconds(step, times, device):
    """Time of one step in a block of several."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[65_536])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="both steps through torch.compile")
    parser.add_argument("--profile", action="store_true", help="also list the kernels of a penalised step")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {name}")
    print("| rows | precision | penalty | plain step, ms | with penalty, ms | ratio |")
    print("|---|---|---|---|---|---|")
    for rows in args.rows:
        for amp in (False, True):
            for distance, rule in (
                ("gap", "demographic_parity"),
                ("gap", "equalized_odds"),
                ("histogram", "demographic_parity"),
                ("gaussian", "demographic_parity"),
            ):
                torch.compiler.reset()
                torch.compiler.reset()
                parity = ParityLoss(distance, rule).to(device)
                steps = [
                    stepper(rows, args.width, device, each, amp, args.compile) for each in (None, parity)
                ]
                for step in steps:
                    seconds(step, 5, device)
                times = [[seconds(step, 10, device) for step in steps] for _ in range(args.blocks)]
                plain, fair = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
                kind = ("bfloat16 autocast" if amp else "float32") + (", compiled" if args.compile else "")
                told = f"{distance}, {rule.replace('_', ' ')}"
                print(
                    f"| {rows:,} | {kind} | {told} | {plain:.2f} | {fair:.2f} | {fair / plain:.2f} |",
                    flush=True,
                )
    if args.profile:
        profile(args, device)


def profile(args, device):
    """List what a penalised step spends its time on."""
    step = stepper(args.rows[0], args.width, device, ParityLoss().to(device), False)
    seconds(step, 5, device)
    with torch.profiler.profile() as record:
        seconds(step, 5, device)
    order = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    print(record.key_averages().table(sort_by=order, row_limit=30, max_name_column_width=60))


if __name__ == "__main__":
    main()
