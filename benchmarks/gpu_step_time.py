"""What the penalty adds to a training step of a network on a GPU.

A step is forward, loss, backward and Adam's update of a network of three layers of 1024 on 100 features, in
float32 unless said otherwise. Both kinds of step are taken in turn, in blocks, in one run; the ratio is that
of the medians. Without a GPU it runs on the CPU.
"""

import statistics
import time
from itertools import pairwise

import torch
from torch import nn

from _report import option_parser, print_table, results_file
from evenrisk.nn import ParityLoss

PENALTIES = (
    ("gap", "demographic_parity"),
    ("gap", "equalized_odds"),
    ("gaussian", "demographic_parity"),
    ("histogram", "demographic_parity"),
)


def network(n_features, width, device):
    """Return a network of three hidden layers and one logit."""
    torch.manual_seed(0)
    sizes = (n_features, width, width, width)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to(device)


def stepper(rows, width, device, parity, amp, compiled=False):
    """Return a function that takes one training step."""
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
    """Return the time of one step in a block of several."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def plain_and_fair(rows, width, blocks, device, parity, amp, compiled):
    """Return the median milliseconds of a plain and of a penalised step, taken in turn."""
    torch.compiler.reset()
    steps = [stepper(rows, width, device, each, amp, compiled) for each in (None, parity)]
    for step in steps:
        seconds(step, 5, device)
    times = [[seconds(step, 10, device) for step in steps] for _ in range(blocks)]
    return [1e3 * statistics.median(column) for column in zip(*times, strict=True)]


def lines(rows, width, blocks, device, *, compiled):
    for amp in (False, True):
        for distance, rule in PENALTIES:
            parity = ParityLoss(distance, rule).to(device)
            settings = rows, width, blocks, device, parity, amp
            plain, fair = plain_and_fair(*settings, compiled=False)
            figures = [f"{plain:.2f}", f"{fair:.2f}", f"{fair / plain:.2f}", "–"]
            if compiled:
                plain, fair = plain_and_fair(*settings, compiled=True)
                figures[-1] = f"{fair / plain:.2f}"
            kind = "bfloat16 autocast" if amp else "float32"
            yield [kind, f"{distance}, {rule.replace('_', ' ')}", *figures]


def main() -> None:
    parser = option_parser(__doc__, "2,048 rows, layers of 128, 3 blocks, nothing compiled")
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=20)
    args = parser.parse_args()
    rows, width, blocks = (2048, 128, 3) if args.quick else (args.rows, args.width, args.blocks)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    size = f"100 features, three layers of {width}, batch {rows:,}"
    headings = ["precision", "penalty", "plain step, ms", "with penalty, ms", "ratio", "ratio, both compiled"]
    with results_file(parser, args):
        print(f"\ntorch {torch.__version__}, {name}; {size}. Target: ≤ 1.15.")
        print_table(headings, lines(rows, width, blocks, device, compiled=not args.quick))


if __name__ == "__main__":
    main()
