"""How often bands and intervals hold the truth, where the truth is known.

The true curve is known at every threshold (`_worlds`): between two observed scores the measured curve stands
still while the true one moves, and a repetition counts as covered only if the band holds it there too.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from sklearn.metrics import auc as trapezium
from threadpoolctl import threadpool_limits

from _report import option_parser, print_heading, print_table, results_file
from _worlds import EO_SIZES, World, percent, repeat

LEVEL = 0.95
RESAMPLES = 399  # of the library's 1000: the quantile is a rank, so fewer are as valid, only noisier
SUMMARIES = ("mean_gap", "rank_gap", "gap_at")
AT = 0.4  # threshold of `gap_at`, a step of none of the tied scores' own
FINE = np.linspace(0, 1, 200_001)  # curvature × step² leaves errors under 1e-9
PAPER = ((2.0, 3.0), (2.6, 2.4))  # shapes of two groups, max gap 0.2
SEVEN = (12, 26, 56, 120, 259, 557, 1200)
SEVEN_SMALL = (12, 31, 35, 40, 60, 300, 1200)
EO_SHAPES = (((1.6, 3.2), (2.2, 3.0)), ((2.2, 2.4), (2.9, 2.2)))


@dataclass(frozen=True)
class Truth:
    """The true figures of a world."""

    turning: np.ndarray  # thresholds where some pair's true gap turns
    max_gap: float
    mean_gap: float
    rank_gap: float
    gap_at: float
    auc: tuple[float, ...]  # by group, then overall
    abroca: float


@cache
def truth(world: World) -> Truth:
    """Return sums over all steps, or by quadrature on a fine grid."""
    t = np.arange(world.steps + 1) / world.steps if world.steps else FINE
    below = world.below(t)
    gap = below.max(axis=1) - below.min(axis=1)  # (h, r)
    turning = [np.empty(0)]
    for a, b in world.pairs:
        slope = np.diff(below[:, a] - below[:, b], axis=1)
        turning += [t[1:-1][(np.diff(np.sign(row)) != 0)] for row in slope]
    size = np.array(world.sizes, dtype=float)
    if world.weighted:  # the weight that a row of each cell has on average
        mean = np.array([[a / (a + b) for a, b in shapes] for shapes in world.shapes])
        size *= 0.5 + mean
    pooled = np.einsum("hk,hkr->hr", size / size.sum(axis=1, keepdims=True), below)
    inner = gap if world.steps else (gap + np.roll(gap, 1, axis=1)) / 2
    rank = (inner[:, 1:] * np.diff(pooled, axis=1)).sum(axis=1).mean()
    left = gap[:, :-1] if world.steps else (gap[:, 1:] + gap[:, :-1]) / 2
    at = world.below(np.array([AT]))
    areas, between = (), np.nan
    if len(world.sizes) == 2:
        overall = np.einsum("hk,hkr->hr", size / size.sum(axis=1, keepdims=True), below)
        curves = [1 - below[:, g, ::-1] for g in range(below.shape[1])] + [1 - overall[:, ::-1]]
        areas = tuple(trapezium(*curve) for curve in curves)
        x = (np.arange(1_000_000) + 0.5) / 1_000_000
        between = float(np.abs(np.interp(x, *curves[0]) - np.interp(x, *curves[1])).mean())
    return Truth(
        turning=np.unique(np.concatenate(turning)),
        max_gap=float(gap.max()),
        mean_gap=float((left * np.diff(t)).sum(axis=1).mean()),
        rank_gap=float(rank),
        gap_at=float((at.max(axis=1) - at.min(axis=1)).mean()),
        auc=areas,
        abroca=between,
    )


def furthest(world: World, profile) -> np.ndarray:
    """Return the largest distance of the measured from the true signed gap over ALL thresholds (h, p)."""
    if world.steps:
        t = np.arange(world.steps + 1) / world.steps
        error = 1 - profile.rates_at(t) - world.below(t)
    else:
        seen = profile.thresholds
        true = world.below(seen)
        before = np.concatenate([np.ones_like(profile.rates[..., :1]), profile.rates[..., :-1]], axis=2)
        turning = truth(world).turning
        error = np.concatenate(
            [
                1 - profile.rates - true,
                1 - before - true,  # just below an observed score
                1 - profile.rates_at(turning) - world.below(turning),
            ],
            axis=2,
        )
    return np.stack([np.abs(error[:, a] - error[:, b]).max(axis=1) for a, b in world.pairs], axis=1)


def inside(interval, value) -> bool:
    return bool(interval.low - 1e-12 <= value <= interval.high + 1e-12)


def one_band(world: World, seed) -> dict[str, float]:
    """Return whether the bands of one sample hold the truth, and their widths."""
    rng = np.random.default_rng(seed)
    profile = world.profile(rng)
    error = furthest(world, profile) - 1e-12
    boot = profile.band(world.level, "bootstrap", RESAMPLES, rng)
    out = {
        "bootstrap": float((error <= boot.half_width).all()),
        "bootstrap width": float(boot.half_width.mean()),
        "bootstrap max gap": float(inside(boot.max_gap, truth(world).max_gap)),
    }
    if not world.weighted:
        dkw = profile.band(world.level, "dkw")
        out["dkw"] = float((error <= dkw.half_width).all())
        out["dkw width"] = float(dkw.half_width.mean())
        out["dkw max gap"] = float(inside(dkw.max_gap, truth(world).max_gap))
    return out


def one_summary(world: World, seed) -> dict[str, float]:
    """Return whether the intervals of the summaries of one sample hold the truth."""
    rng = np.random.default_rng(seed)
    profile, known = world.profile(rng), truth(world)
    got = profile.intervals(AT, LEVEL, RESAMPLES, rng)
    out = {name: float(inside(getattr(got, name), getattr(known, name))) for name in SUMMARIES}
    if known.auc:
        areas = profile.discrimination(LEVEL, RESAMPLES, rng)
        groups = [areas.auc[name] for name in profile.groups]
        out["auc of groups"] = float(
            np.mean([inside(*both) for both in zip(groups, known.auc, strict=False)])
        )
        out["auc overall"] = float(inside(areas.overall, known.auc[-1]))
        out["abroca"] = float(inside(areas.abroca[profile.groups], known.abroca))
    return out


def worlds() -> list[World]:
    """Return the worlds of the target figures, then harder ones."""
    three = (((2.0, 3.0), (2.6, 2.4), (2.3, 2.7)),)
    far = (((2.0, 8.0), (8.0, 2.0)),)
    steep = (((0.05, 1.5), (0.08, 1.5)),)  # nearly everybody in the lowest of ten steps
    tiny = (((3.0, 2.0), (2.6, 2.4), (2.0, 3.0)),)
    eight = (tuple((2.0 + 0.1 * i, 3.0 - 0.1 * i) for i in range(8)),)
    base = [
        World("631, 953", ((631, 953),), (PAPER,), summaries=True),
        World("247, 498", ((247, 498),), (PAPER,), summaries=True),
        World("120, 400, 900", ((120, 400, 900),), three, summaries=True),
        World("equalized odds, 384, 455 / 247, 498", EO_SIZES, EO_SHAPES, summaries=True),
    ]
    tied = [replace(world, steps=10) for world in base]
    coarse = [replace(base[0], steps=3), replace(base[2], steps=3, summaries=False)]
    harder = [
        World("247, 498, groups alike", ((247, 498),), (PAPER[:1] * 2,), summaries=True),
        World("631, 953, far apart", ((631, 953),), far, summaries=True),
        World("631, 953, nearly all in one step", ((631, 953),), steep, 10, summaries=True),
        World("40, 60", ((40, 60),), (PAPER,), summaries=True),
        World("40, 60", ((40, 60),), (PAPER,), 10, summaries=True),
        World("40, 60", ((40, 60),), (PAPER,), 3),
        World("100, 100", ((100, 100),), (PAPER,)),
        World("631, 953, weights", ((631, 953),), (PAPER,), weighted=True, summaries=True),
        World("631, 953, weights", ((631, 953),), (PAPER,), 10, weighted=True, summaries=True),
        World("60, 90, weights", ((60, 90),), (PAPER,), weighted=True),
        World("10, 400, 900", ((10, 400, 900),), tiny, summaries=True),
        World("10, 400, 900", ((10, 400, 900),), tiny, 10),
        World("1, 400, 900", ((1, 400, 900),), tiny),
        World("10, 900, far apart", ((10, 900),), far),
        World("20, 1000, the many near 0", ((20, 1000),), (((1.0, 1.0), (0.05, 5.0)),)),
        World("20, 1000, the many near 0", ((20, 1000),), (((1.0, 1.0), (0.05, 5.0)),), 10),
        World("eight groups, 31 to 480", ((31, 40, 60, 90, 140, 210, 320, 480),), eight),
        World("eight groups, 31 to 480", ((31, 40, 60, 90, 140, 210, 320, 480),), eight, 10),
    ]
    most_alike = World("seven groups, 12 to 1,200, most in one step", (SEVEN,), (((0.2, 2.0),) * 7,), 3)
    for level in (0.9, 0.95):
        name = f"seven groups, 12 to 1,200, at {100 * level:g} %"
        drift = tuple((2.0 + 0.15 * i, 3.0 - 0.15 * i) for i in range(7))
        harder += [
            World(name, (SEVEN,), (drift,), 10, level=level),
            replace(most_alike, name=f"{most_alike.name}, at {100 * level:g} %", level=level),
            replace(
                most_alike,
                name=f"12, 31, 35, 40, 60, 300, 1,200, most in one step, at {100 * level:g} %",
                level=level,
                sizes=(SEVEN_SMALL,),
            ),
        ]
    return base + tied + coarse + [replace(world, target=False) for world in harder]


def print_bands(pool, chosen, times) -> None:
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / times)

    def lines(target):
        for number, world in enumerate(chosen):
            if world.target == target:
                got = repeat(pool, one_band, world, number, times)
                row = [world.name, world.kind]
                for method in ("bootstrap", "dkw"):
                    width = got.get(f"{method} width")
                    row += [percent(got.get(method)), "–" if width is None else f"{width:.3f}"]
                    row += [percent(got.get(f"{method} max gap"))]
                yield row

    headings = ["cells", "scores", "bootstrap", "half-width", "max gap", "DKW", "half-width", "max gap"]
    print_heading(
        f"Bands at 95 %, {times} repetitions, standard error {error:.1f} points",
        "Targets: bootstrap 92–98 %, DKW ≥ 95 %. A band counts as good if the whole true curve of every pair "
        'lies in it, at all thresholds. "Max gap" is the share of intervals of the max gap that hold it.',
    )
    print_table(headings, lines(True))
    print_heading("Bands of small cells, with weights, of many groups (no target)")
    print_table(headings, lines(False))


def print_intervals(pool, chosen, times) -> None:
    names = (*SUMMARIES, "auc of groups", "auc overall", "abroca")
    error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / times)

    def lines():
        for number, world in enumerate(chosen):
            if world.summaries:
                got = repeat(pool, one_summary, world, 1000 + number, times)
                yield [world.name, world.kind, *(percent(got.get(name)) for name in names)]

    print_heading(f"Other intervals at 95 %, {times} repetitions, standard error {error:.1f} points")
    print_table(["cells", "scores", *(name.replace("_", " ") for name in names)], lines())


def main() -> None:
    parser = option_parser(__doc__, "20 repetitions of four worlds")
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=("bands", "intervals"))
    parser.add_argument("--cells", default="", help="only worlds whose name contains this")
    args = parser.parse_args()
    times = 20 if args.quick else args.repetitions
    threadpool_limits(1)
    chosen = [world for world in worlds() if args.cells in world.name]
    chosen = chosen[::9] if args.quick else chosen
    with (
        results_file(parser, args),
        ProcessPoolExecutor(args.processes, initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        print(f"\n{RESAMPLES} resamples.")
        if args.only != "intervals":
            print_bands(pool, chosen, times)
        if args.only != "bands":
            print_intervals(pool, chosen, max(times // 4, 1))


if __name__ == "__main__":
    main()
