"""How often the permutation test finds a difference where there is none.

Every p-value of at most 5 % is a false alarm. First cells of known distribution (`_worlds`) whose groups do
not differ; then weights of every kind: the weighted distribution of the score is uniform in every group.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from _report import option_parser, print_heading, print_table, results_file
from _worlds import EO_SIZES, World, percent, repeat
from evenrisk.exceptions import SmallCellWarning
from evenrisk.metrics import threshold_profile

PERMUTATIONS = 199
SIZES = ((500, 500), (900, 100), (60, 60), (200, 25), (300, 100, 30))
TIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "continuous": lambda s: s,
    "10 steps": lambda s: np.floor(10 * s),
    "90 % in one": lambda s: np.where(s < 0.9, 0.0, s),
    "97 % in one": lambda s: np.where(s < 0.97, 0.0, s),
}


def worlds() -> list[World]:
    """Return cells whose groups do not differ, within labels."""
    same, odds = (((2.0, 3.0),) * 3,), (((2.0, 3.0),) * 2, ((3.0, 2.0),) * 2)
    base = [
        World("631, 953", ((631, 953),), (same[0][:2],)),
        World("247, 498", ((247, 498),), (same[0][:2],)),
        World("120, 400, 900", ((120, 400, 900),), same),
        World("equalized odds, 384, 455 / 247, 498", EO_SIZES, odds),
        World("10, 60", ((10, 60),), (same[0][:2],)),
        World("120, 400, 900, weights", ((120, 400, 900),), same, weighted=True),
    ]
    return base + [replace(world, steps=10) for world in base]


def one_test(world: World, seed) -> dict[str, float]:
    """Return whether the test of one sample finds a difference."""
    rng = np.random.default_rng(seed)
    return {"rejected": float(world.profile(rng).test(PERMUTATIONS, rng).p_value <= 0.05)}


def _uneven(n, rng):
    return np.exp(rng.standard_normal(n))


def none(score, last, rng):
    return score, None


def by_group(ratio):
    """Every row of the last group weighs `ratio` times as much."""
    return lambda score, last, rng: (score, np.where(last, ratio, 1.0))


def uneven(score, last, rng):
    """Log-normal weights."""
    return score, _uneven(len(score), rng)


def uneven_in_last(score, last, rng):
    return score, np.where(last, _uneven(len(score), rng), 1.0)


def uneven_in_others(score, last, rng):
    return score, np.where(last, 1.0, _uneven(len(score), rng))


def uneven_by_group(score, last, rng):
    """Exponential weights, nine times as large in the last group."""
    return score, rng.exponential(size=len(score)) * np.where(last, 9.0, 1.0)


def with_score(score, last, rng):
    """Sampled thinly where scores are low, alike in all groups, and weighted back."""
    score = _thinned(score)
    return score, 1 / (0.2 + 1.6 * score)


def with_rare_scores(score, last, rng):
    """Five times as much for the top 3 %, and nine times as much in the last group."""
    return score, np.where(score < 0.97, 1.0, 5.0) * np.where(last, 9.0, 1.0)


def with_score_in_last(score, last, rng):
    """Sampled thinly where scores are low, in the last group only, and weighted back."""
    score = np.where(last, _thinned(score), score)
    return score, np.where(last, 1 / (0.2 + 1.6 * score), 1.0)


def _thinned(u):
    """Turn uniform numbers into ones of density 0.2 + 1.6 s."""
    return (np.sqrt(0.04 + 3.2 * u) - 0.2) / 1.6


WEIGHTS = {
    "none": none,
    "1 and 2 by group": by_group(2.0),
    "1 and 9 by group": by_group(9.0),
    "1 and 100 by group": by_group(100.0),
    "uneven": uneven,
    "uneven in the last group": uneven_in_last,
    "uneven in the others": uneven_in_others,
    "uneven, 1 and 9 by group": uneven_by_group,
    "by score": with_score,
    "by rare scores, 1 and 9 by group": with_rare_scores,
    "by score in the last group": with_score_in_last,
}


def rejected(sizes, weights, ties, first, last) -> int:
    """Return how many of some samples have a p-value of at most 5 %."""
    group, found = np.repeat(np.arange(len(sizes)), sizes), 0
    in_last = group == len(sizes) - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)
        for seed in range(first, last):
            rng = np.random.default_rng([seed, *sizes])
            score, weight = WEIGHTS[weights](rng.random(len(group)), in_last, rng)
            profile = threshold_profile(
                None, TIES[ties](score), sensitive_features=group, sample_weight=weight
            )
            found += profile.test(PERMUTATIONS, rng).p_value <= 0.05
    return found


def known_worlds(pool, times) -> None:
    error = 100 * np.sqrt(0.05 * 0.95 / times)

    def lines():
        for number, world in enumerate(worlds()):
            got = repeat(pool, one_test, world, 2000 + number, times)
            yield [world.name, world.kind, percent(got["rejected"])]

    print_heading(
        f"False positives at 5 %, {times} samples without any difference",
        f"Target: 5 % within the binomial error, {5 - 1.96 * error:.1f} to {5 + 1.96 * error:.1f} %.",
    )
    print_table(["cells", "scores", "rejected"], lines())


def weights_of_every_kind(pool, chosen, times, pieces) -> None:
    error = 100 * np.sqrt(0.05 * 0.95 / times)
    ends = np.linspace(0, times, pieces + 1).astype(int)

    def lines():
        for weights in chosen:
            for sizes in SIZES:
                row = [weights, ", ".join(map(str, sizes))]
                for ties in TIES:
                    jobs = [pool.submit(rejected, sizes, weights, ties, *pair) for pair in pairwise(ends)]
                    row.append(f"{100 * sum(job.result() for job in jobs) / times:.1f} %")
                yield row

    print_heading(
        f"False positives at 5 % with weights, {times} repetitions, standard error {error:.1f} points",
        'Target: 3.5 to 6.5 %. "Last" is the last group of the list.',
    )
    print_table(["weights", "rows", *TIES], lines())


def main() -> None:
    parser = option_parser(__doc__, "20 repetitions, two kinds of weights")
    parser.add_argument("--repetitions", type=int, default=1000, help="with weights; twice as many without")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=("worlds", "weights"))
    parser.add_argument("--weights", default="", help="only weights whose name contains this")
    args = parser.parse_args()
    times = 20 if args.quick else args.repetitions
    chosen = [name for name in WEIGHTS if args.weights in name]
    chosen = chosen[::6] if args.quick else chosen
    with (
        results_file(parser, args),
        ProcessPoolExecutor(args.processes, initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        print(f"\n{PERMUTATIONS} permutations.")
        if args.only != "weights":
            known_worlds(pool, 2 * times)
        if args.only != "worlds":
            weights_of_every_kind(pool, chosen, times, 2 * args.processes)


if __name__ == "__main__":
    main()
