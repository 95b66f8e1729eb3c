"""Held-out scores of any estimator with an η, pooled over folds.

A small validation set alone says little: 739 rows show a max gap of .065 for a perfect score. So every row is
held out, and the scores of all folds are measured together. Each fold's model has a scale of its own: a
score is pooled as its place among the fold's. Pooled raw scores would tell folds apart and not people once a
strong penalty has squeezed the scores, and hide the gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from evenrisk._validation import (
    CollapseWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    ReversedRankingWarning,
    SmallCellWarning,
    check_number,
)
from evenrisk.solvers import WIDE

# said once, of the fit that the user gets, and not of every fold and η
QUIET = (
    CollapseWarning,
    ConvergenceWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    ReversedRankingWarning,
    SmallCellWarning,
)


@dataclass(frozen=True)
class Tunable:
    """An estimator with one parameter `eta`, its own or that of a step of a pipeline (`prefix`)."""

    estimator: Any
    prefix: str

    @classmethod
    def of(cls, estimator: Any) -> Tunable:
        """Find the parameter."""
        if isinstance(estimator, type):
            raise ValueError(f"`estimator` must be an instance, got the class {estimator.__name__}")
        parameters = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
        found = [name for name in parameters if name == "eta" or name.endswith("__eta")]
        if len(found) != 1:
            came = "none" if not found else " and ".join(f"'{name}'" for name in found)
            raise ValueError(
                "`estimator` must have one parameter `eta`, its own or that of one step of a pipeline, got "
                f"{came} in {type(estimator).__name__}"
            )
        return cls(estimator, found[0].removesuffix("eta"))

    @property
    def holder(self) -> Any:
        """The estimator whose parameter it is."""
        step = self.prefix.removesuffix("__")
        return self.estimator.get_params(deep=True)[step] if step else self.estimator

    @property
    def warm(self) -> bool:
        """Whether a fit may begin at the end of another one; of ours alone it is known what that means."""
        return hasattr(self.holder, "fit_path") and "warm_start" in self.holder.get_params()

    def fit(self, data: Data, eta: float, start: Any = None) -> Any:
        """Fit a copy at this η, from `start`, a model fitted to the same rows at a smaller one."""
        model = clone(self.estimator) if start is None else deepcopy(start)
        settings = {"eta": eta} | ({"warm_start": start is not None} if self.warm else {})
        model.set_params(**{self.prefix + name: value for name, value in settings.items()})
        given = {"sensitive_features": data.groups, "sample_weight": data.weight}
        given = {name: value for name, value in given.items() if value is not None}
        if not given or get_config()["enable_metadata_routing"]:
            return model.fit(data.X, data.y, **given)
        self._refuse_without_routing(" and ".join(f"`{name}`" for name in given))
        return model.fit(data.X, data.y, **{self.prefix + name: value for name, value in given.items()})

    def _refuse_without_routing(self, given: str) -> None:
        """Refuse what only metadata routing can pass on: of all that holds an estimator, pipelines alone
        take the form step__name.
        """
        within = self.estimator
        for step in self.prefix.split("__")[:-1]:
            if not isinstance(within, Pipeline):
                raise ValueError(
                    f"metadata routing must be on for {given} to reach the {type(self.holder).__name__} "
                    f"inside {type(within).__name__}, got it off. Call "
                    "sklearn.set_config(enable_metadata_routing=True) before fit"
                )
            within = within.named_steps[step]

    def finish(self, data: Data, etas: list[float]) -> Any:
        """Fit all rows through these η; the model has the user's settings but for the last of them."""
        model = None
        for eta in etas:
            with quiet() if eta != etas[-1] else nullcontext():
                model = self.fit(data, eta, model)
        if self.warm and model is not None:
            model.set_params(**{self.prefix + "warm_start": self.holder.warm_start})
        return model


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what is said once, of the fit that the user gets."""
    with warnings.catch_warnings():
        for category in QUIET:
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True)
class Data:
    """Rows to fit or to score."""

    X: Any
    y: Any
    groups: Any
    weight: Any

    def split(self, estimator: Any, train: np.ndarray, test: np.ndarray) -> tuple[Data, Any]:
        """Give the rows to fit and the features of the others; of a precomputed kernel the columns too."""
        X, y = _safe_split(estimator, self.X, self.y, train)
        others, _ = _safe_split(estimator, self.X, None, test, train)
        weight = None if self.weight is None else self.weight[train]
        return Data(X, y, self.groups[train], weight), others


class Scores(NamedTuple):
    """Of every row, from a model that has not seen it; NaN where no fold holds it out."""

    raw: np.ndarray  # (n,) positive where the model says yes
    place: np.ndarray  # (n,) share of its fold that scores lower, ties counting half


@dataclass
class HeldOut:
    """Scores of every row from models that have not seen it, at any η; fits are kept to start others from."""

    tunable: Tunable
    data: Data
    splits: list[tuple[np.ndarray, np.ndarray]]
    n_jobs: int | None = None
    warm: bool = True
    models: dict[float, list[Any]] = field(default_factory=dict)
    begun_at: dict[float, float | None] = field(default_factory=dict)

    def scores(self, eta: float) -> Scores:
        """Fit every fold and score the rows it holds out."""
        # the largest fitted η below, if it is near
        before = max((other for other in self.models if eta / WIDE <= other < eta), default=None)
        starts = [None] * len(self.splits) if before is None else self.models[before]
        jobs = (
            delayed(_fit_and_score)(self.tunable, self.data, split, eta, start)
            for split, start in zip(self.splits, starts, strict=True)
        )
        with quiet():  # around the workers: in a thread the filters of all would change
            done = Parallel(n_jobs=self.n_jobs)(jobs)
        if self.warm and self.tunable.warm:
            self.models[eta] = [model for model, _ in done]
        self.begun_at[eta] = before
        n = _num_samples(self.data.X)
        out = Scores(np.full(n, np.nan), np.full(n, np.nan))
        for (_, test), (_, score) in zip(self.splits, done, strict=True):
            out.raw[test] = score
            out.place[test] = _places(score, None if self.data.weight is None else self.data.weight[test])
        return out

    def begin_afresh(self) -> None:
        """Forget the fits, and begin every other one from scratch."""
        self.models.clear()
        self.begun_at.clear()
        self.warm = False

    def lineage(self, eta: float) -> list[float]:
        """Give the η that the fits at this η came through, the first one fitted from scratch."""
        came = [eta]
        while (before := self.begun_at[came[0]]) is not None:
            came.insert(0, before)
        return came


def _fit_and_score(
    tunable: Tunable, data: Data, split: tuple[np.ndarray, np.ndarray], eta: float, start: Any
) -> tuple[Any, np.ndarray]:
    """Fit one fold's training rows and score the others."""
    train, test = split
    rows, others = data.split(tunable.estimator, train, test)
    model = tunable.fit(rows, eta, start)
    return (model if tunable.warm else None), raw_scores(model, others)


def _places(score: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Weight share of the rows that score lower, ties counting half."""
    _, index = np.unique(score, return_inverse=True)
    mass = np.bincount(index.ravel(), weights=weight).astype(float)
    return ((np.cumsum(mass) - mass / 2) / mass.sum())[index.ravel()]


def raw_scores(model: Any, X: Any) -> np.ndarray:
    """The finest score a model gives, positive where it says yes: probabilities tie where they reach 1."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    return np.asarray(model.predict_proba(X))[:, 1] - 0.5


def make_splits(
    cv: Any, X: Any, y: np.ndarray, code: np.ndarray, present: np.ndarray, rng: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Give (train, test) rows: a number of folds, each with its share of every label in every group."""
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        n_folds = int(check_number("cv", cv, low=2, whole=True))
        if n_folds > len(y):
            raise ValueError(f"`cv` must be at most the number of rows, {len(y)}, got {n_folds}")
        return list(_even_folds(n_folds, y, code, present, rng))
    given = isinstance(cv, Iterable) and not hasattr(cv, "split")
    splits = [_fold(each, len(y)) for each in (cv if given else check_cv(cv, y, classifier=True).split(X, y))]
    if not splits:
        raise ValueError(
            f"`cv` must have at least 1 fold, got 0 from {cv!r:.80}. An iterator can be used once: give a "
            "list"
        )
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    if times.max() > 1:
        raise ValueError(
            f"`cv` must hold every row out at most once, got {np.count_nonzero(times > 1)} rows held out "
            f"several times by {cv!r:.80}"
        )
    for fold, (train, test) in enumerate(splits, start=1):
        both = np.intersect1d(train, test)
        if len(both):
            raise ValueError(
                "`cv` must hold out rows that the same fold does not fit, got fold "
                f"{fold} of {len(splits)} with {len(both)} rows in both (row {both[0]} first)"
            )
    return splits


def _fold(split: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Read one (train, test) of places among n rows, or of masks over them."""
    pair = isinstance(split, (Sequence, np.ndarray)) and len(split) == 2
    parts = [np.asarray(part) for part in split] if pair else []
    parts = [np.flatnonzero(part) if part.dtype == bool and part.shape == (n,) else part for part in parts]
    if not pair or any(part.ndim != 1 or (part.size and part.dtype.kind not in "iu") for part in parts):
        raise ValueError(f"`cv` must have folds (train, test), two arrays of row numbers, got {split!r:.80}")
    for name, part in zip(("train", "test"), parts, strict=True):
        if not part.size:
            raise ValueError(f"`cv` must have folds with rows to fit and to hold out, got no {name} rows")
        beyond = part[(part < 0) | (part >= n)]
        if beyond.size:
            raise ValueError(f"`cv` must have row numbers from 0 to {n - 1}, got {beyond[0]} in {name} rows")
    return parts[0], parts[1]


def _even_folds(
    n_folds: int, y: np.ndarray, code: np.ndarray, present: np.ndarray, rng: np.random.RandomState
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Deal the shuffled rows of each label and group out to the folds in turn, those of weight 0 last."""
    order = rng.permutation(len(y))
    order = order[np.lexsort((y[order], code[order], ~present[order]))]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % n_folds
    for k in range(n_folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)
