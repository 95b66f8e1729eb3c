"""All splits as one dict: tables, noise floor, claims and settings. Everything shown is made from it.

c and η are chosen by accuracy on the validation parts, never on a test part.

The paper's claim is that, at Zafar's accuracy, the gap of the proposed classifiers varies less over the
thresholds (STD, Int.). Both numbers also fall when all scores are merely squeezed together, so every row is
compared a second time with Zafar's score rescaled to the row's own spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.isotonic import IsotonicRegression

from evenrisk.paper.protocol import (
    CHANCE_COLUMNS,
    COLUMNS,
    PAPER,
    PAPER_COLUMNS,
    PARITIES,
    TEST_SHARE,
    ZAFAR_ACCURACY,
    Protocol,
    Split,
    measure,
    rescaled,
    zafar_name,
)

BASELINE = "Baseline"
COLLAPSED = 0.01  # sd of the scores below which nothing is left of them
ACCURACY = COLUMNS.index("accuracy")
NEAR = 0.01 + 1e-9  # distance in validation accuracy up to which a split counts as matched
ONE_FAR_SPLIT_IN = 5  # a row is marked when more than one split in so many is off
CLAIMED = ("std", "interval", "max_gap")
CLAIM_HEADINGS = {"std": "STD", "interval": "Int.", "max_gap": "max gap"}
LEVEL = 0.95


@dataclass(frozen=True)
class Choice:
    """Which η of a row's grid each split takes."""

    index: np.ndarray  # (splits,)
    distance: np.ndarray  # (splits,) |validation accuracy − target|, of the smoothed path

    @property
    def matched(self) -> bool:
        """Whether most splits got near their targets; where paths jump, or end early, they do not."""
        return ONE_FAR_SPLIT_IN * self.n_far <= len(self.distance)

    @property
    def n_far(self) -> int:
        """In how many splits the nearest point of the path is not near."""
        return int((self.distance > NEAR).sum())


def choose_bound(accuracy: np.ndarray, target: float) -> int:
    """Return the one bound whose mean validation accuracy (splits, bounds) is nearest the paper's."""
    return int(np.abs(accuracy.mean(axis=0) - target).argmin())


def match(accuracy: np.ndarray, targets: np.ndarray) -> Choice:
    """Return for each split the η whose validation accuracy (splits, etas) is nearest its target (splits,).

    A validation part has some 900 rows, so one accuracy is known to ± .016 and the nearest of ten to forty
    would often be an accident. Accuracy falls with η except for noise: the falling curve nearest the path is
    matched, and of equally near η the smallest taken.
    """
    falling = IsotonicRegression(increasing=False)
    order = np.arange(accuracy.shape[1])
    smooth = np.array([falling.fit_transform(order, path) for path in accuracy])
    distance = np.abs(smooth - targets[:, None])
    index = (distance <= distance.min(axis=1, keepdims=True) + 1e-12).argmax(axis=1)
    return Choice(index, distance[np.arange(len(index)), index])


@dataclass(frozen=True)
class Experiment:
    """Finished splits, and what was chosen on their validation parts."""

    splits: list[Split]
    protocol: Protocol

    @cached_property
    def bounds(self) -> dict[str, int]:
        """Parity → place of the chosen c."""
        return {
            parity: choose_bound(self.validation(parity, zafar_name(parity)), ZAFAR_ACCURACY[parity])
            for parity in PARITIES
        }

    @cached_property
    def choices(self) -> dict[tuple[str, str], Choice]:
        """(parity, row) → place of the chosen η in each split."""
        found = {}
        for parity in PARITIES:
            targets = self.validation(parity, zafar_name(parity))[:, self.bounds[parity]]
            for row in self.protocol.rows:
                found[parity, row.name] = match(self.validation(parity, row.name), targets)
        return found

    def validation(self, parity: str, name: str) -> np.ndarray:
        """Return the accuracy on the validation parts (splits, settings of the method)."""
        return np.array([split[f"{parity}/{name}/validation"][:, ACCURACY] for split in self.splits])

    def index(self, parity: str, method: str) -> np.ndarray:
        """Return which setting of a method the table shows for each split (splits,)."""
        if method == BASELINE:
            return np.zeros(len(self.splits), dtype=int)
        if method == zafar_name(parity):
            return np.full(len(self.splits), self.bounds[parity])
        return self.choices[parity, method].index

    def values(self, parity: str, method: str) -> np.ndarray:
        """Return the columns of a table's row on every test part (splits, columns)."""
        index = self.index(parity, method)
        return np.array(
            [
                split[f"{parity}/{self._stored_name(method)}/test"][i]
                for split, i in zip(self.splits, index, strict=True)
            ]
        )

    def scores(self, parity: str, method: str) -> Iterator[tuple[Split, np.ndarray]]:
        """Yield each split with the test scores of a table's row."""
        for split, i in zip(self.splits, self.index(parity, method), strict=True):
            yield split, split[f"{parity}/{self._stored_name(method)}/scores"][i]

    def _stored_name(self, method: str) -> str:
        """Return the name scores are kept under: the baseline is the first point of the first path."""
        return self.protocol.rows[0].name if method == BASELINE else method

    def by_chance(self, parity: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and 95 % point of a measure under permuted groups, averaged over splits."""
        values = np.array([split[f"{parity}/chance/{name}"] for split in self.splits])
        return values.mean(axis=(0, 1)), np.quantile(values, 0.95, axis=1).mean(axis=0)

    @property
    def majority_rate(self) -> float:
        """Accuracy of a constant answer on the test parts, averaged over splits."""
        positive = np.array([split["y"].mean() for split in self.splits])
        return float(np.maximum(positive, 1 - positive).mean())

    def methods(self, parity: str) -> list[str]:
        """Return the rows of the table, in order."""
        return [BASELINE, zafar_name(parity), *(row.name for row in self.protocol.rows)]


def summarise(experiment: Experiment) -> dict[str, Any]:
    """Return {"tables": …, "noise_floor": …, "claims": …, "settings": …}."""
    return {
        "tables": {parity: _table(experiment, parity) for parity in PARITIES},
        "noise_floor": {parity: _floor(experiment, parity) for parity in PARITIES},
        "claims": {parity: _claims(experiment, parity) for parity in PARITIES},
        "settings": experiment.protocol.settings() | {"splits": len(experiment.splits)},
    }


def mean_sd(values: np.ndarray) -> dict[str, float | None]:
    """Return mean and sd over splits; one split has no sd."""
    if np.ptp(values) == 0:  # exactly, where summing would leave 1e-17
        return {"mean": float(values[0]), "sd": 0.0 if len(values) > 1 else None}
    return {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}


def _table(experiment: Experiment, parity: str) -> list[dict[str, Any]]:
    ours = {row.name for row in experiment.protocol.rows if row.ours}
    rows = []
    for method in experiment.methods(parity):
        values = experiment.values(parity, method)
        paper = PAPER[parity].get(method)
        rows.append(
            {"method": method, "ours": method in ours}
            | {column: mean_sd(values[:, i]) for i, column in enumerate(COLUMNS)}
            | _strength(experiment, parity, method)
            | {
                "paper": None if paper is None else dict(zip(PAPER_COLUMNS, paper, strict=True)),
                "collapsed": int((values[:, COLUMNS.index("score_sd")] < COLLAPSED).sum()),
                "unfinished": _unfinished(experiment, parity, method),
            }
        )
    return rows


def _strength(experiment: Experiment, parity: str, method: str) -> dict[str, Any]:
    """Return η or c, and whether the target accuracy was met on the validation parts."""
    if method == BASELINE:
        return {"eta": {"mean": 0.0, "sd": 0.0}, "matched": True, "far": 0}
    if method == zafar_name(parity):
        place = experiment.bounds[parity]
        off = experiment.validation(parity, method)[:, place].mean() - ZAFAR_ACCURACY[parity]
        return {"c": experiment.protocol.bounds[parity][place], "matched": bool(abs(off) <= NEAR), "far": 0}
    choice = experiment.choices[parity, method]
    etas = np.array(experiment.protocol.row(method).etas)[choice.index]
    return {"eta": mean_sd(etas) | {"values": etas.tolist()}, "matched": choice.matched, "far": choice.n_far}


def _unfinished(experiment: Experiment, parity: str, method: str) -> int:
    """Count the fits of a row's paths, over all splits, that did not converge."""
    if method == BASELINE:
        return 0
    return sum(int(split[f"{parity}/{method}/unfinished"]) for split in experiment.splits)


def _floor(experiment: Experiment, parity: str) -> dict[str, dict[str, float]]:
    floor = {}
    for name in CHANCE_COLUMNS:
        mean, p95 = experiment.by_chance(parity, name)
        floor[name] = {"mean": float(mean), "p95": float(p95)}
    return floor


def _claims(experiment: Experiment, parity: str) -> list[dict[str, Any]]:
    """Compare every proposed row with Zafar, and with Zafar rescaled, split by split."""
    name = zafar_name(parity)
    places = [COLUMNS.index(column) for column in CLAIMED]
    zafar = experiment.values(parity, name)[:, places]
    ratio = TEST_SHARE / (1 - TEST_SHARE)
    claims = []
    for row in experiment.protocol.rows:
        values = experiment.values(parity, row.name)
        found = {
            against: {
                column: paired(values[:, place] - other[:, i], ratio)
                for i, (column, place) in enumerate(zip(CLAIMED, places, strict=True))
            }
            for against, other in (
                ("zafar", zafar),
                ("zafar_rescaled", _rescaled_zafar(experiment, parity, values[:, COLUMNS.index("score_sd")])),
            )
        }
        matched = experiment.choices[parity, row.name].matched
        claims.append(
            {"method": row.name, **found, "words": in_words(row.name, name, found, matched=matched)}
        )
    return claims


def _rescaled_zafar(experiment: Experiment, parity: str, spreads: np.ndarray) -> np.ndarray:
    """Measure Zafar's scores at another spread in each split (splits, claimed columns)."""
    out = []
    for (split, s), sd in zip(experiment.scores(parity, zafar_name(parity)), spreads, strict=True):
        found = measure(split["y"], rescaled(s, float(sd)), split["group"], parity)
        out.append([found[column] for column in CLAIMED])
    return np.array(out)


def paired(difference: np.ndarray, test_to_train: float) -> dict[str, float | None]:
    """Return the mean and standard error √((1/J + n_test/n_train)·s²) of J paired differences.

    Training parts overlap, so the splits are not independent and s/√J is too small; the second term is Nadeau
    and Bengio's correction. One split has no standard error.
    """
    n = len(difference)
    mean = float(difference.mean())
    if n < 2:
        return {"mean": mean, "se": None, "low": None, "high": None}
    se = float(np.sqrt((1 / n + test_to_train) * difference.var(ddof=1)))
    reach = float(student.ppf(0.5 + LEVEL / 2, n - 1)) * se
    return {"mean": mean, "se": se, "low": mean - reach, "high": mean + reach}


def verdict(found: dict[str, Any]) -> str:
    """Return in a word what a paired difference says: lower, higher, or neither beyond its error."""
    if found["high"] < 0:
        return "lower"
    return "higher" if found["low"] > 0 else "unclear"


def in_words(method: str, zafar: str, claim: dict[str, Any], *, matched: bool) -> str:
    """Return in a sentence what is left of the claim for one row."""
    name = method if matched else f"{method} (accuracy not matched)"
    if claim["zafar"]["std"]["se"] is None:
        return f"{name}: one split has no error, so nothing can be said."
    plain = _variation(claim["zafar"])
    scaled = _variation(claim["zafar_rescaled"])
    max_gap = {
        "lower": "its max gap is lower",
        "higher": "its max gap is higher",
        "unclear": "no difference in max gap beyond noise",
    }[verdict(claim["zafar"]["max_gap"])]
    return f"{name}: against {zafar} {plain}; against {zafar} rescaled {scaled}; {max_gap}."


def _variation(differences: dict[str, Any]) -> str:
    """Return in words how STD and Int. compare, with the estimates that differ beyond noise."""
    found = {name: verdict(differences[name]) for name in ("std", "interval")}
    clear = {name: word for name, word in found.items() if word != "unclear"}
    if not clear:
        return f"no difference in variation beyond noise (STD {signed(differences['std']['mean'])})"
    parts = [
        f"{CLAIM_HEADINGS[name]} {word} ({signed(differences[name]['mean'])})" for name, word in clear.items()
    ]
    return " and ".join(parts)


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
