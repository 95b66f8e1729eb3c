"""Bands and tests for every kind of comparison, where the truth is known.

Everybody comes from one population: age, race, sex and label depend on one another through a known table,
and the score is drawn from a Beta distribution whose shape depends on all four. The true curve of a group, or
of a union of groups, is the mixture of those distributions, by sums over sex and race and by quadrature over
age. A band counts as good if the true gaps of all that is compared lie in it at all thresholds, those between
two observed scores included, where the measured curve stands still while the true one moves.

For the test the score is drawn without a look at age, race and sex, which still depend on one another.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betainc
from threadpoolctl import threadpool_limits

from _report import option_parser, print_heading, print_table, results_file
from _worlds import percent, repeat
from evenrisk import Comparison
from evenrisk.metrics import threshold_profile

LEVEL = 0.95
RESAMPLES, PERMUTATIONS = 399, 199
FINE = np.linspace(0, 1, 20_001)  # between its points curves are taken as straight: errors under 1e-8
NODES = 5  # of the quadrature, between two cuts
CUTS = (20, 25, 30, 35, 40, 45, 50, 55, 60, 70)  # of ages that are uniform on 18 to 80
YOUNGEST, OLDEST = 18, 80
RACES, SEXES = "abcd", "fm"
FEMALE = np.array([0.45, 0.60, 0.35, 0.70])  # of each race
AGEING = np.array([0.20, -0.10, -0.07, -0.03])  # share of each race among the oldest − among the youngest
CONCENTRATION = np.array([2.5, 1.2, 0.5])  # of the probabilities of three soft groups
SOFT_SHAPES = np.array([[2.0, 3.0], [2.6, 2.4], [3.2, 2.0]])
ALIKE = (2.0, 3.0)  # shape of a score that has nothing to do with the attributes
SEX, RACE, AGE = ("sex",), ("race",), ("age",)
EVERY = (*SEX, *RACE, *AGE)
EACH = (("columns", "each"),)


class People(NamedTuple):
    """Age in (0, 1), race, sex and label, of a sample or of the nodes of a quadrature."""

    age: np.ndarray
    race: np.ndarray
    sex: np.ndarray
    label: np.ndarray

    @property
    def shape(self) -> tuple[np.ndarray, np.ndarray]:
        """Shapes of their Beta distributions."""
        return (
            1.8 + 0.25 * self.race + 0.3 * self.sex + 0.5 * self.age + 0.6 * self.label,
            3.0 - 0.15 * self.race - 0.2 * self.sex * self.age - 0.4 * self.label,
        )

    @property
    def positive(self) -> np.ndarray:
        """Probability of label 1."""
        return 0.3 + 0.08 * self.race + 0.05 * self.sex + 0.1 * self.age

    @property
    def weight(self) -> np.ndarray:
        """Weights that differ between groups, and not within them."""
        return np.array([1.0, 2.5, 1.5, 4.0])[self.race] * np.where(self.sex == 1, 1.0, 1.6)

    @property
    def missing(self) -> dict[str, np.ndarray]:
        """Probability that a value is not known, by column: more often in some groups."""
        return {
            "sex": 0.05 + 0.25 * (self.race == 1),
            "race": 0.04 + 0.2 * (self.sex == 0) + 0.2 * (self.race == 3),
            "age": 0.03 + 0.3 * self.age,
        }

    def inside(self, name: str) -> np.ndarray:
        """Return who is in a union that a profile names: 'race a', 'f × a', 'not a', 'age over 30'."""
        words = name.replace(" × ", " ").split()
        if "over" in words or "up" in words:
            cut = (float(words[-1]) - YOUNGEST) / (OLDEST - YOUNGEST)
            return (self.age > cut) == ("over" in words)
        found = np.full(len(self.age), True)
        for word in set(words) - {"sex", "race", "not"}:
            found &= self.race == RACES.find(word) if word in RACES else self.sex == SEXES.find(word)
        return found ^ ("not" in words)


@dataclass(frozen=True)
class Kind:
    """A kind of comparison, and the sample that it is measured on."""

    name: str
    columns: tuple[str, ...]
    asked: tuple[tuple[str, str], ...] = ()  # of the comparison, beside its cuts
    n: int = 2000
    races: tuple[float, ...] = (0.55, 0.27, 0.13, 0.05)
    steps: int | None = None  # scores are rounded up to 1/steps, 2/steps, …; None = continuous
    weighted: bool = False
    parity: str = "demographic_parity"
    large: bool = False  # fewer repetitions

    @property
    def comparison(self) -> Comparison:
        return Comparison(**dict(self.asked), ordered={"age": list(CUTS)} if "age" in self.columns else False)

    @property
    def soft(self) -> bool:
        return not self.columns

    def table(self, people: People, rng) -> pd.DataFrame:
        """Return the attribute table of a sample."""
        table = pd.DataFrame(
            {
                "sex": np.array(list(SEXES), dtype=object)[people.sex],
                "race": np.array(list(RACES), dtype=object)[people.race],
                "age": YOUNGEST + (OLDEST - YOUNGEST) * people.age,
            }
        )[list(self.columns)]
        if dict(self.asked).get("unknown") == "exclude":
            for column in self.columns:
                table.loc[rng.random(self.n) < people.missing[column], column] = None
        return table

    def profile(self, rng, *, alike: bool):
        """Return the profile of one sample; if `alike`, its score does not depend on the attributes."""
        if self.soft:
            share = rng.dirichlet(CONCENTRATION, self.n)
            group = (rng.random(self.n)[:, None] > np.cumsum(share, axis=1)[:, :-1]).sum(axis=1)
            table, label, weight = pd.DataFrame(share, columns=list("abc")), None, None
            shape = ALIKE if alike else SOFT_SHAPES[group].T
            comparison = Comparison(probabilities=True)
        else:
            people = draw(self, rng)
            table, label, comparison = self.table(people, rng), people.label, self.comparison
            weight = people.weight if self.weighted else None
            shape = (ALIKE[0] + people.label, ALIKE[1]) if alike else people.shape
            if alike and self.parity == "demographic_parity":
                shape = ALIKE
        score = rng.beta(*shape, self.n)
        if self.steps:
            score = np.ceil(score * self.steps) / self.steps
        return threshold_profile(
            label,
            score,
            sensitive_features=table,
            comparison=comparison,
            parity=self.parity,
            sample_weight=weight,
        )


def draw(kind: Kind, rng) -> People:
    """Draw people from the population."""
    n = kind.n
    age = rng.random(n)
    chance = np.array(kind.races) + AGEING * np.array(kind.races) * (age[:, None] - 0.5)
    chance /= chance.sum(axis=1, keepdims=True)
    race = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)[:, :-1]).sum(axis=1)
    sex = (rng.random(n) > FEMALE[race]).astype(int)
    people = People(age, race, sex, np.zeros(n, int))
    return people._replace(label=(rng.random(n) < people.positive).astype(int))


@cache
def population(kind: Kind) -> tuple[People, np.ndarray]:
    """Return the nodes of the quadrature over everybody, and their mass."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    ends = (np.array([YOUNGEST, *CUTS, OLDEST]) - YOUNGEST) / (OLDEST - YOUNGEST)
    pieces = [(low + (high - low) * (1 + x) / 2, (high - low) * w / 2) for low, high in pairwise(ends)]
    age, mass = (np.concatenate(part) for part in zip(*pieces, strict=True))
    node, race, sex, label = (each.ravel() for each in np.indices((len(age), 4, 2, 2)))
    people = People(age[node], race, sex, label)
    chance = np.array(kind.races) + AGEING * np.array(kind.races) * (people.age[:, None] - 0.5)
    chance /= chance.sum(axis=1, keepdims=True)
    mass = mass[node] * chance[np.arange(len(node)), race]
    mass = mass * np.where(sex == 0, FEMALE[race], 1 - FEMALE[race])
    mass = mass * np.where(label == 1, people.positive, 1 - people.positive)
    return people, mass * (people.weight if kind.weighted else 1.0)


@cache
def truth(kind: Kind, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return thresholds, and the true selection rates there by stratum and union (h, u, r)."""
    t = np.arange(kind.steps + 1) / kind.steps if kind.steps else FINE
    if kind.soft:  # E[p_k p_j] / E[p_k] of each score's distribution
        total = CONCENTRATION.sum()
        mixed = (CONCENTRATION + np.eye(3)) / (total + 1)
        return t, 1 - (mixed @ np.stack([betainc(*shape, t) for shape in SOFT_SHAPES]))[None]
    people, mass = population(kind)
    below = betainc(*(each[:, None] for each in people.shape), t)
    strata = [people.label == 0, people.label == 1]
    if kind.parity == "demographic_parity":
        strata = [np.full(len(mass), True)]
    excluded = dict(kind.asked).get("unknown") == "exclude"
    rates = []
    for name in names:
        column = "age" if name.startswith("age") else "sex" if name.startswith("sex") else "race"
        known = 1 - people.missing[column] if excluded else 1.0
        part = np.stack([mass * known * people.inside(name) * stratum for stratum in strata])
        rates.append(1 - part @ below / part.sum(axis=1, keepdims=True))
    return t, np.stack(rates, axis=1)


def furthest(kind: Kind, profile) -> np.ndarray:
    """Return the largest distance of the measured from the true signed gap over ALL thresholds (h, q)."""
    t, rates = truth(kind, profile.groups)
    first, second = profile.pairs.T
    true = rates[:, first] - rates[:, second]
    seen = profile.thresholds
    measured = profile.rates[:, first] - profile.rates[:, second]
    measured = np.concatenate([np.zeros((*measured.shape[:2], 1)), measured], axis=2)
    if kind.steps:
        return np.abs(measured[..., np.searchsorted(seen, t + 1e-9)] - true).max(axis=2)
    out = np.empty(true.shape[:2])
    for place in np.ndindex(out.shape):
        gap = true[place]
        turn = t[1:-1][np.diff(np.sign(np.diff(gap))) != 0]
        at = np.interp(seen, t, gap)
        here = measured[place]
        turned = here[np.searchsorted(seen, turn, side="right")] - np.interp(turn, t, gap)
        error = np.concatenate([here[1:] - at, here[:-1] - at, turned])
        out[place] = np.abs(error).max()
    return out


def one_sample(kind: Kind, seed) -> dict[str, float]:
    """Return whether the bands of one sample hold the truth, and whether the test of another finds a gap."""
    rng = np.random.default_rng(seed)
    profile = kind.profile(rng, alike=False)
    band = profile.band(LEVEL, "bootstrap", RESAMPLES, rng)
    missed = furthest(kind, profile) > band.half_width + 1e-8
    nothing = kind.profile(rng, alike=True)
    return {
        "pairs": float(missed.size),
        "covered": float(not missed.any()),
        "width": float(band.half_width.mean()),
        "rejected": float(nothing.test(PERMUTATIONS, rng).p_value <= 1 - LEVEL),
    }


def kinds() -> list[Kind]:
    """Return every kind of comparison, then harder samples."""
    both, odds = (*SEX, *RACE), "equalized_odds"
    rare = (0.60, 0.30, 0.094, 0.006)
    return [
        Kind("crossed", both),
        Kind("each", both, EACH),
        Kind("each and crossed", both, (("columns", "each and crossed"),)),
        Kind("rest", RACE, (("against", "rest"),)),
        Kind("reference", RACE, (("reference", "b"),)),
        Kind("ordered", AGE),
        Kind("ordered and each", EVERY, EACH),
        Kind("each, unknown excluded", EVERY, (*EACH, ("unknown", "exclude"))),
        Kind("probabilities", ()),
        Kind("each, weights by group", both, EACH, weighted=True),
        Kind("ordered and each, weights by group", EVERY, EACH, weighted=True),
        Kind("each, equalized odds", both, EACH, parity=odds),
        Kind("ordered, equalized odds", AGE, parity=odds),
        Kind("each", both, EACH, steps=10),
        Kind("rest", RACE, (("against", "rest"),), steps=10),
        Kind("ordered", AGE, steps=10),
        Kind("probabilities", (), steps=10),
        Kind("ordered and each", EVERY, EACH, n=300),
        Kind("ordered and each", EVERY, EACH, n=300, steps=10),
        Kind("probabilities", (), n=300),
        Kind("ordered", AGE, n=60_000, large=True),
        Kind("each, a race of 0.6 %", both, EACH, n=60_000, races=rare, large=True),
    ]


def print_kinds(pool, chosen, times) -> None:
    large = max(times // 5, 1)
    errors = [100 * np.sqrt(0.05 * 0.95 / each) for each in (times, large)]

    def lines():
        for number, kind in enumerate(kinds()):
            if kind not in chosen:
                continue
            got = repeat(pool, one_sample, kind, number, large if kind.large else times)
            scores = f"{kind.steps} steps" if kind.steps else "continuous"
            row = [kind.name, f"{kind.n:,}", scores, f"{got['pairs']:g}", percent(got["covered"])]
            yield [*row, f"{got['width']:.3f}", percent(got["rejected"])]

    print_heading(
        f"Bands at 95 % and tests at 5 %, {times} repetitions ({large} of 60,000 rows), standard error "
        f"{errors[0]:.1f} points ({errors[1]:.1f})",
        "Targets: bands hold in 93 to 97 %, false positives in 5 % within 1.96 standard errors. The first "
        "line is the default, every combination of sex and race against every other, for comparison.",
    )
    print_table(
        ["comparison", "rows", "scores", "pairs", "covered", "half-width", "false positives"], lines()
    )


def main() -> None:
    parser = option_parser(__doc__, "10 repetitions of four kinds")
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kind", default="", help="only kinds whose name contains this")
    parser.add_argument("--first", type=int, default=1, help="start at this line of the table")
    args = parser.parse_args()
    times = 10 if args.quick else args.repetitions
    threadpool_limits(1)
    chosen = [kind for kind in kinds()[args.first - 1 :] if args.kind in kind.name]
    chosen = chosen[::6] if args.quick else chosen
    with (
        results_file(parser, args),
        ProcessPoolExecutor(args.processes, initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        print(f"\n{RESAMPLES} resamples, {PERMUTATIONS} permutations.")
        print_kinds(pool, chosen, times)


if __name__ == "__main__":
    main()
