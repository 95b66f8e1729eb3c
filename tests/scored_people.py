"""Scored people for the tests of inference, and witnesses that share no code with it.

Brute force: the rows that the library draws are recorded, and the resampled people are then built and
measured one by one in plain NumPy. Where chance decides, the seed is fixed and the tolerance stated.
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenrisk.metrics import threshold_profile

LABELS = {  # the label of each stratum; None = everybody
    "demographic_parity": (None,),
    "equalized_odds": (0, 1),
    "equal_opportunity": (1,),
    "predictive_equality": (0,),
}


small = pytest.mark.filterwarnings("ignore::evenrisk.exceptions.SmallCellWarning")


@dataclass(frozen=True)
class People:
    """Scored people and the rule they are compared by."""

    parity: str
    score: np.ndarray
    y: np.ndarray
    group: np.ndarray
    weight: np.ndarray | None = None

    @property
    def profile(self):
        return threshold_profile(
            self.y,
            self.score,
            sensitive_features=self.group,
            parity=self.parity,
            sample_weight=self.weight,
        )

    def take(self, rows):
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, score=self.score[rows], y=self.y[rows], group=self.group[rows], weight=weight)

    def cells(self):
        """Scores and weights of every cell, by stratum and then group, in ascending order of score."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        for label in LABELS[self.parity]:
            mine = (self.y == label) if label is not None else (self.y >= 0)
            for name in np.unique(self.group):
                rows = np.flatnonzero(mine & (self.group == name))
                rows = rows[np.argsort(self.score[rows], kind="stable")]
                yield self.score[rows], weight[rows]

    @property
    def counts(self):
        return np.array([len(score) for score, _ in self.cells()])

    @property
    def pairs(self):
        """Pairs of cells, stratum by stratum."""
        k = len(np.unique(self.group))
        return [
            (h * k + a, h * k + b)
            for h in range(len(LABELS[self.parity]))
            for a, b in combinations(range(k), 2)
        ]


def people(parity="demographic_parity", sizes=(40, 55), steps=None, weighted=False, seed=0, apart=0.15):
    """Draw people: `sizes` of each group in each label where the rule looks at it; `steps` makes ties."""
    rng = np.random.default_rng(seed)
    labels = (0, 1) if parity != "demographic_parity" else (0,)
    y, group = (np.concatenate(part) for part in zip(*_blocks(labels, sizes), strict=True))
    if parity == "demographic_parity":
        y = (rng.random(len(y)) < 0.4).astype(int)
    score = rng.random(len(y)) + apart * group + 0.2 * y
    if steps:
        score = np.round(score * steps) / steps
    weight = rng.choice([0.5, 1.0, 3.0], len(y)) if weighted else None
    order = rng.permutation(len(y))
    return People(parity, score, y, np.array(["b", "c", "a", "d"])[group], weight).take(order)


def _blocks(labels, sizes):
    for label, (g, n) in product(labels, enumerate(sizes)):
        yield np.full(n, label), np.full(n, g)


def below(score, weight, t):
    """Weighted share of scores at or below each t, by definition."""
    return np.array([weight[score <= x].sum() for x in t]) / weight.sum()


class Recorder(np.random.Generator):
    """A generator that remembers which numbers it drew, and what it permuted."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.rows, self.uniform, self.dealt = [], [], []

    def integers(self, *args, **kwargs):
        drawn = super().integers(*args, **kwargs)
        self.rows.append(np.array(drawn, dtype=int))
        return drawn

    def random(self, *args, **kwargs):
        self.uniform.append(super().random(*args, **kwargs))
        return self.uniform[-1]

    def permuted(self, *args, **kwargs):
        self.dealt.append(super().permuted(*args, **kwargs))
        return self.dealt[-1]

    def resamples(self, n_cells):
        """Rows, the rows that the added ones take their weight from, and where their scores lie, by cell."""
        tables = [(i, drawn) for i, drawn in enumerate(self.rows) if drawn.ndim == 2]
        parts = [[] for _ in range(n_cells)]
        for turn, ((i, rows), uniform) in enumerate(zip(tables, self.uniform, strict=True)):
            parts[turn % n_cells].append((rows, self.rows[i + 1] if len(uniform) else [], uniform))
        return [[np.concatenate(part) for part in zip(*cell, strict=True)] for cell in parts]


def moves(a, resamples):
    """F* − E F* of every cell in every resample, at every distinct score of people compared (b, c, m).

    A row number of n or more is an added row: its score is one of all distinct scores of the stratum alike,
    its weight some row's. The differences are stretched by √(n / (n − 1)).
    """
    cells, k = list(a.cells()), len(np.unique(a.group))
    t = np.unique(np.concatenate([score for score, _ in cells]))
    out = np.empty((len(resamples[0][0]), len(cells), len(t)))
    for c, ((score, weight), (rows, carried, uniform)) in enumerate(zip(cells, resamples, strict=True)):
        n, effective = len(score), weight.sum() ** 2 / (weight**2).sum()
        stratum = np.unique(np.concatenate([s for s, _ in cells[c // k * k : (c // k + 1) * k]]))
        more = math.ceil(4 * n / effective - 1e-9)
        expected = (n * below(score, weight, t) + more * below(stratum, 0 * stratum + 1, t)) / (n + more)
        scores, weights = score[rows % n], weight[rows % n]
        scores[rows >= n] = stratum[np.ceil(uniform * len(stratum)).astype(int) - 1]
        weights[rows >= n] = weight[np.array(carried, dtype=int)]
        for b in range(len(rows)):
            out[b, c] = below(scores[b], weights[b], t) - expected
        out[:, c] *= math.sqrt(effective / (effective - 1))
    return t, out


CASES = [
    (parity, sizes, steps, weighted)
    for parity in LABELS
    for sizes, steps, weighted in (
        ((40, 55), None, False),
        ((53, 68), 5, True),
        ((31, 60, 44), 8, False),
        ((51, 62, 56), None, True),
    )
]


def drawn(data, parity, n_groups, weighted):
    """People with ties, every cell of one row at least."""
    row = st.tuples(st.integers(0, n_groups - 1), st.integers(0, 1), st.integers(0, 12), st.integers(1, 4))
    must = [(g, y, 3 * g + y, 1 + y) for g, y in product(range(n_groups), (0, 1))]
    group, y, score, weight = np.array(must + data.draw(st.lists(row, max_size=60))).T
    return People(
        parity, score / 4, y, np.array(["b", "c", "a"])[group], weight.astype(float) if weighted else None
    )


def law(test):
    """Run over every parity, 2 and 3 groups, with and without weights, on people that hypothesis draws."""
    cases = pytest.mark.parametrize(
        ("parity", "n_groups", "weighted"), list(product(LABELS, (2, 3), (False, True)))
    )
    return small(cases(settings(max_examples=8)(given(data=st.data())(test))))
