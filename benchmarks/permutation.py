"""How often the permutation test cries wolf where groups do not differ, with weights of every kind.

The weighted distribution of the score is uniform in every group, so that every p-value of at most 5 % is a
false positive. Sizes × weights × ties; a share between 3.5 and 6.5 % is what a test at 5 % should have.
"""

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from _machine import describe
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
    """How many of some samples have a p-value of at most 5 %."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--weights", default="", help="only weights that read like this")
    args = parser.parse_args()
    error = 100 * np.sqrt(0.05 * 0.95 / args.repetitions)
    print(f"{date.today():%d %B %Y}; {PERMUTATIONS} permutations; {describe()}")
    print(
        f"\n### False positives at 5 %, {args.repetitions} repetitions, standard error {error:.1f} points\n"
    )
    print("| weights | rows | " + " | ".join(TIES) + " |")
    print("|---|---|" + "---|" * len(TIES), flush=True)
    with ProcessPoolExecutor(args.processes, initializer=threadpool_limits, initargs=(1,)) as pool:
        for weights in (name for name in WEIGHTS if args.weights in name):
            for sizes in SIZES:
                row = [weights, ", ".join(map(str, sizes))]
                for ties in TIES:
                    ends = np.linspace(0, args.repetitions, 2 * args.processes + 1).astype(int)
                    jobs = [pool.submit(rejected, sizes, weights, ties, *pair) for pair in pairwise(ends)]
                    row.append(f"{100 * sum(job.result() for job in jobs) / args.repetitions:.1f} %")
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
