"""People with a sex, a race and an age, every kind of comparison of them, and what each should compare.

The witness of a kind is a list of its attributes, each a list of comparisons: two arrays (n,) that say how
much of each row is on either side. It is written with masks and knows nothing of codes, cells or unions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from evenrisk import Comparison
from evenrisk._xp import Cells
from evenrisk.distances import evaluate
from evenrisk.parity import PARITIES

CUTS = np.arange(1, 11) / 11  # of an ordered column, where nothing is said


@dataclass(frozen=True)
class People:
    """Rows: features, labels, a score with ties, weights, and what is known of each person."""

    X: np.ndarray
    y: np.ndarray
    score: np.ndarray
    weight: np.ndarray  # whole numbers
    sex: np.ndarray
    race: np.ndarray  # the last one is rare
    age: np.ndarray  # whole years
    share: np.ndarray  # (n, 3) probabilities of the three races that are not rare

    def take(self, rows):
        """Some of the rows, by mask or index; a row may come several times."""
        return People(**{name: values[rows] for name, values in vars(self).items()})

    def some(self, column, step):
        """A column as objects in which every so-manieth value is missing."""
        values = getattr(self, column).astype(object)
        values[::step] = None
        return values


def people(n=420, seed=0, rare=9):
    """Make some; groups of unequal sizes that differ in location and spread."""
    rng = np.random.default_rng(seed)
    code = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    share = 0.6 * rng.dirichlet([0.8, 0.6, 0.4], n) + 0.4 * np.eye(3)[code]
    race = np.array(["a", "b", "c"])[code]
    race[rng.choice(n, rare, replace=False)] = "d"
    sex = np.where(rng.random(n) < 0.3 + 0.1 * code, "f", "m")
    age = np.clip(np.round(40 + 6 * code + 13 * rng.standard_normal(n)), 18, 80)
    y = (rng.random(n) < 0.3 + 0.1 * code + 0.1 * (sex == "m")).astype(int)
    lean = 0.3 * code + 0.4 * (sex == "m") + 0.02 * (age - 45) + 0.5 * y
    X = rng.standard_normal((n, 3)) * [1.0, 0.5, 2.0] + lean[:, None] * [1.0, 0.3, 0.5]
    score = np.round(X @ [0.6, -0.4, 0.3] * (1 + 0.2 * code), 1)
    return People(X, y, score, rng.integers(1, 4, n).astype(float), sex, race, age, share)


class Kind(NamedTuple):
    """One way to compare: what the user passes, and the witness."""

    features: object
    comparison: object
    attributes: list  # of lists of comparisons


def every(*groups):
    """Each with every other."""
    return list(combinations(groups, 2))


def rest(*groups):
    """Each with all others together."""
    return [(one, sum(groups) - one) for one in groups]


def are(values, *labels):
    """Whether rows have each of the values, as numbers."""
    return [np.array([each == label for each in values]).astype(float) for label in labels]


def below_and_over(age, cuts):
    """The two sides of each cut; NaN is on neither."""
    return [((age <= cut) * 1.0, (age > cut) * 1.0) for cut in cuts]


def quantiles(age, weight, q):
    """The smallest values that a share q of the people, one by one, do not exceed."""
    each = np.repeat(age, weight.astype(int))
    return np.unique(np.quantile(each, q, method="inverted_cdf"))


def _every(p, w):
    return Kind(p.race, "crossed", [every(*are(p.race, *"abcd"))])


def _rest(p, w):
    return Kind({"race": p.race}, "rest", [rest(*are(p.race, *"abcd"))])


def _reference(p, w):
    a, b, c, d = are(p.race, *"abcd")
    return Kind(p.race, Comparison(reference="b"), [[(a, b), (c, b), (d, b)]])


def _excluded(p, w):
    race = p.some("race", 7)
    return Kind(race, Comparison(unknown="exclude"), [every(*are(race, *"abcd"))])


def _unknown_group(p, w):
    race = p.some("race", 7)
    return Kind(race, Comparison(unknown="group"), [every(*are(race, *"abcd", None))])


def _small(p, w):
    return Kind(p.race, Comparison(min_rows=20, against="rest"), [rest(*are(p.race, *"abc"))])


def _small_share(p, w):
    return Kind(p.race, Comparison(min_share=0.05), [every(*are(p.race, *"abc"))])


def _each(p, w):
    features = {"sex": p.sex, "race": p.race}
    return Kind(features, "each", [every(*are(p.sex, *"fm")), every(*are(p.race, *"abcd"))])


def _each_and_crossed(p, w):
    race = np.where(p.race == "d", "c", p.race)
    sexes, races = are(p.sex, *"fm"), are(race, *"abc")
    both = [one * other for one in sexes for other in races]
    attributes = [every(*sexes), every(*races), every(*both)]
    return Kind({"sex": p.sex, "race": race}, "each and crossed", attributes)


def _each_rest(p, w):
    race = p.some("race", 6)
    comparison = Comparison(columns="each", against="rest", unknown="exclude", min_rows=15)
    attributes = [every(*are(p.sex, *"fm")), rest(*are(race, *"abc"))]
    return Kind({"sex": p.sex, "race": race}, comparison, attributes)


def _ordered(p, w):
    return Kind({"age": p.age}, "ordered", [below_and_over(p.age, quantiles(p.age, w, CUTS))])


def _cuts(p, w):
    age = np.where(np.arange(len(p.age)) % 9 == 2, np.nan, p.age)
    comparison = Comparison(ordered={"age": [60, 30.5, 47]}, unknown="exclude")
    return Kind({"age": age}, comparison, [below_and_over(age, [30.5, 47, 60])])


def _ordered_unknown(p, w):
    unknown = np.arange(len(p.age)) % 9 == 2
    age = np.where(unknown, np.nan, p.age)
    cuts = quantiles(p.age[~unknown], w[~unknown], [0.25, 0.5, 0.75])
    compared = [*below_and_over(age, cuts), (unknown * 1.0, 1.0 - unknown)]
    return Kind({"age": age}, Comparison(ordered={"age": 3}, unknown="group"), [compared])


def _mixed(p, w):
    a, b, c, d = are(p.race, *"abcd")
    comparison = Comparison(columns="each", ordered={"age": 4}, reference={"race": "b"})
    cuts = quantiles(p.age, w, [0.2, 0.4, 0.6, 0.8])
    attributes = [every(*are(p.sex, *"fm")), [(a, b), (c, b), (d, b)], below_and_over(p.age, cuts)]
    return Kind({"sex": p.sex, "race": p.race, "age": p.age}, comparison, attributes)


def _probabilities(p, w):
    table = dict(zip("abc", p.share.T, strict=True))
    return Kind(table, "probabilities", [every(*p.share.T)])


def _probabilities_rest(p, w):
    share = p.share.copy()
    share[::8] = np.nan
    comparison = Comparison(probabilities=True, against="rest", unknown="exclude")
    return Kind(share, comparison, [rest(*np.nan_to_num(share).T)])


def _small_probabilities(p, w):
    share = np.column_stack([p.share[:, 0], 0.97 * p.share[:, 1], 0.03 * p.share[:, 1], p.share[:, 2]])
    a, b, _, c = share.T
    comparison = Comparison(probabilities=True, min_share=0.02)
    return Kind(share, comparison, [every(a, b, c)])


KINDS: dict[str, Callable[[People, np.ndarray], Kind]] = {
    "every": _every,
    "rest": _rest,
    "reference": _reference,
    "excluded": _excluded,
    "unknown group": _unknown_group,
    "small": _small,
    "small share": _small_share,
    "each": _each,
    "each and crossed": _each_and_crossed,
    "each against the rest": _each_rest,
    "ordered": _ordered,
    "cuts": _cuts,
    "ordered, unknown group": _ordered_unknown,
    "mixed": _mixed,
    "probabilities": _probabilities,
    "probabilities against the rest": _probabilities_rest,
    "small probabilities": _small_probabilities,
}
SOFT = [name for name in KINDS if "probabilities" in name]
HARD = [name for name in KINDS if name not in SOFT]


def strata_of(parity, y):
    """Rows of each stratum, as masks."""
    rule = PARITIES[parity]
    code = rule.stratum(y if rule.needs_label else 0 * y)
    return [code == stratum for stratum in range(len(rule.strata))]


def occurring(comparisons):
    """The comparisons in which somebody is on either side."""
    return [pair for pair in comparisons if all(side.any() for side in pair)]


def rate_above(score, weight, t):
    """P(score > t) of weighted rows, at each t."""
    order = np.argsort(score, kind="stable")
    heavier = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return heavier[np.searchsorted(score[order], t, side="right")] / heavier[0]


def gaps(kind, parity, score, y, weight, t):
    """|difference of rates| at each t of every comparison, by stratum: a list of (comparisons, m)."""
    pairs = [pair for attribute in kind.attributes for pair in occurring(attribute)]
    return [
        np.array(
            [
                abs(np.subtract(*(rate_above(score[rows], (weight * side)[rows], t) for side in pair)))
                for pair in pairs
            ]
        )
        for rows in strata_of(parity, y)
    ]


def penalty_of_two(distance, g, y, weight, sides, parity):
    """E_f of two hard groups that may share rows, each side a weight of its own."""
    total = 0.0
    for rows in strata_of(parity, y):
        parts = [np.flatnonzero(rows & (side > 0)) for side in sides]
        at = np.concatenate(parts)
        mass = np.concatenate([(weight * side)[part] for side, part in zip(sides, parts, strict=True)])
        code = np.repeat([0, 1], [len(part) for part in parts])
        total += float(evaluate(distance, g[at], Cells(code, mass, 2, np.array([[0, 1]]), np.ones(1)))[0])
    return total


def penalty(kind, distance, g, y, weight, parity):
    """The mean over attributes of the mean over comparisons of two groups' penalties."""
    return float(
        np.mean(
            [
                np.mean([penalty_of_two(distance, g, y, weight, sides, parity) for sides in attribute])
                for attribute in map(occurring, kind.attributes)
            ]
        )
    )
