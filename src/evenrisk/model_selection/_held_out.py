"""Held-out scores of any estimator with an η, pooled over the folds of a cross-validation.

    rows = SearchRows.check(X, y, …) → folds = make_folds(rows, cv, rng) → HeldOutScorer(…).scores(eta)

Conventions
-----------
A *fold* is a pair (train, test) of arrays of row numbers. A row's *rank* is the weight share of its fold's
test rows that score lower, ties counting half: a number from 0 to 1.

A small validation set alone says little: 739 rows show a max gap of .065 for a perfect score. So every row is
held out, and the scores of all folds are measured together. Each fold's model has a scale of its own, so the
ranks are pooled: raw scores would tell folds apart and not people once a strong penalty has squeezed them,
and hide the gap.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples

from evenrisk._validation import (
    CollapseWarning,
    Comparison,
    Groups,
    MajorityRateWarning,
    MisalignedIndexWarning,
    RepairWarning,
    ReversedRankingWarning,
    SmallCellWarning,
    check_alignment,
    check_binary,
    check_comparison,
    check_length,
    check_number,
    check_weight,
    group_columns,
    listed,
    refuse_masked,
)
from evenrisk.metrics import (
    ScoredRows,
    ThresholdProfile,
    check_compared_groups,
    check_compared_rows,
    check_parity,
    check_people,
    threshold_profile,
)

WARM_RATIO = 4.0  # a fit may start from one at an η this much smaller; a little more than the search's √10
# raised once, by the fit that the user gets, and not by every fold and η
RAISED_ONCE = (
    CollapseWarning,
    ConvergenceWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    RepairWarning,
    ReversedRankingWarning,
    SmallCellWarning,
)

Fold = tuple[np.ndarray, np.ndarray]


class FitInput(NamedTuple):
    """What a fit is given."""

    X: Any
    y: Any
    sensitive_features: Any
    sample_weight: Any

    def split(self, estimator: Any, fold: Fold) -> tuple[FitInput, Any]:
        """Return the training rows and the features of the others; of a precomputed kernel its columns."""
        train, test = fold
        X, y = _safe_split(estimator, self.X, self.y, train)
        others, _ = _safe_split(estimator, self.X, None, test, train)
        weight = None if self.sample_weight is None else self.sample_weight[train]
        return FitInput(X, y, _safe_indexing(self.sensitive_features, train), weight), others


@dataclass(frozen=True)
class EtaEstimator:
    """An estimator with one parameter `eta`: its own, or that of a step of a pipeline (`prefix`).

    Of a repair that knows the groups at prediction it is the `strength` of its map.
    """

    estimator: Any
    prefix: str
    name: str = "eta"

    @classmethod
    def find(cls, estimator: Any) -> EtaEstimator:
        """Find the parameter `eta`; refuse none and several."""
        found = cls._parameters(estimator, "eta")
        found = ["eta"] if "eta" in found else found  # what is inside it has an eta of another kind
        if len(found) != 1:
            came = "none" if not found else " and ".join(f"'{name}'" for name in found)
            raise ValueError(
                "`estimator` must have one parameter `eta`, its own or that of one step of a pipeline, got "
                f"{came} in {type(estimator).__name__}"
            )
        return cls(estimator, found[0].removesuffix("eta"))

    @classmethod
    def find_eta_or_strength(cls, estimator: Any) -> EtaEstimator:
        """Find the parameter `eta`, or else that of a repair which is given the groups to predict."""
        if getattr(estimator, "needs_groups_to_predict", False):
            estimator = estimator.with_map()
            if not (found := cls._parameters(estimator, "repair__strength")):
                raise ValueError(
                    "`estimator` must have a map with a parameter `strength`, such as "
                    f"repair=BarycenterRepair(), got repair={estimator.repair!r:.60}"
                )
            return cls(estimator, "", found[0])
        return cls.find(estimator)

    @staticmethod
    def _parameters(estimator: Any, name: str) -> list[str]:
        if isinstance(estimator, type):
            raise ValueError(f"`estimator` must be an instance, got the class {estimator.__name__}")
        names = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
        return [each for each in names if each == name or each.endswith(f"__{name}")]

    def with_comparison(self, comparison: Comparison) -> EtaEstimator:
        """Return the same with another comparison of groups."""
        return replace(
            self, estimator=clone(self.estimator).set_params(**{f"{self.prefix}comparison": comparison})
        )

    @property
    def owner(self) -> Any:
        """The estimator that is fitted with it: the given one, or a step of a pipeline."""
        step = self.prefix.removesuffix("__")
        return self.estimator.get_params(deep=True)[step] if step else self.estimator

    @property
    def needs_groups_to_predict(self) -> bool:
        """Whether it must be told the groups of the people it scores."""
        return getattr(self.owner, "needs_groups_to_predict", False)

    @property
    def can_start_warm(self) -> bool:
        """Whether a fit may start where another one ended; what that means is known of ours only."""
        ours = hasattr(self.owner, "fit_path") or self.keeps_base_models
        return ours and "warm_start" in self.owner.get_params()

    @property
    def keeps_base_models(self) -> bool:
        """Whether a warm start saves the fits of other models, which do not depend on η."""
        return getattr(self.owner, "keeps_base_models", False)

    def fit(self, given: FitInput, eta: float, start: Any = None, *, last: bool = False) -> Any:
        """Fit a copy at this η, from `start`, a model of the same rows; `last`: no other starts from it."""
        model = clone(self.estimator) if start is None else self._copy(start)
        warm = start is not None or (self.keeps_base_models and not last)
        settings = {self.name: eta} | ({"warm_start": warm} if self.can_start_warm else {})
        model.set_params(**{self.prefix + name: value for name, value in settings.items()})
        metadata = {name: getattr(given, name) for name in ("sensitive_features", "sample_weight")}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        if not metadata or get_config()["enable_metadata_routing"]:
            return model.fit(given.X, given.y, **metadata)
        self._refuse_without_routing(" and ".join(f"`{name}`" for name in metadata))
        return model.fit(given.X, given.y, **{self.prefix + name: value for name, value in metadata.items()})

    def fit_in_turn(self, given: FitInput, etas: list[float]) -> Any:
        """Fit all rows at each η in turn; the model has the user's settings except for the last η."""
        model = None
        for eta in etas:
            with _ignore_repeated_warnings() if eta != etas[-1] else nullcontext():
                model = self.fit(given, eta, model, last=eta == etas[-1])
        if self.can_start_warm and model is not None:
            model.set_params(**{self.prefix + "warm_start": self.owner.warm_start})
        return model

    def _copy(self, model: Any) -> Any:
        """Return a copy to fit again. Base models are not fitted again, and may be large: they are shared."""
        return copy(model) if self.keeps_base_models and not self.prefix else deepcopy(model)

    def _refuse_without_routing(self, given: str) -> None:
        """Refuse what only metadata routing can pass on: only pipelines take the form step__name."""
        within = self.estimator
        for step in self.prefix.split("__")[:-1]:
            if not isinstance(within, Pipeline):
                raise ValueError(
                    f"metadata routing must be on for {given} to reach the {type(self.owner).__name__} "
                    f"inside {type(within).__name__}, got it off. Call "
                    "sklearn.set_config(enable_metadata_routing=True) before fit"
                )
            within = within.named_steps[step]


class HeldOutScores(NamedTuple):
    """Scores of every row from a model that was not fitted to it; NaN where no fold holds it out."""

    raw: np.ndarray  # (n,) positive where the model predicts the positive class
    rank: np.ndarray  # (n,)


@dataclass(frozen=True)
class SearchRows:
    """Checked rows of a search, and what is measured of held-out scores."""

    given: FitInput  # for the fits
    y: np.ndarray  # (n,) in {0, 1}
    code: np.ndarray  # (n,) group
    present: np.ndarray  # (n,) whether a row has weight
    comparison: Comparison  # whose gaps are measured
    people: ScoredRows  # the rows that have weight, in order

    @classmethod
    def check(
        cls, given: FitInput, estimator: EtaEstimator, parity: Any, comparison: Any
    ) -> tuple[SearchRows, EtaEstimator]:
        """Return the rows, checked once for all fits, and the estimator with the cuts that were chosen.

        `parity` and `comparison` None are the estimator's own.
        """
        X, y, sensitive_features, sample_weight = given
        check_alignment(**given._asdict())
        if y is None:
            raise ValueError("`y` must have one label per row, got None")
        refuse_masked("X", X)
        X = X.tocsr() if issparse(X) else X
        n = _num_samples(X)
        y, classes = check_binary(y)
        check_length("y", len(y), n)
        weight = None if sample_weight is None else check_weight(sample_weight, n, np.float64)
        own = estimator.owner.get_params()
        parity = own.get("parity", "demographic_parity") if parity is None else parity
        in_fit = check_comparison(own.get("comparison", "crossed"))
        asked = in_fit if comparison is None else check_comparison(comparison)
        rule, one = check_parity(parity), np.ones(n) if weight is None else weight
        groups = check_compared_groups(rule, y, sensitive_features, one, comparison=asked)
        given = FitInput(X, classes[y], _as_given(sensitive_features, groups, asked, in_fit), weight)
        if not in_fit.is_plain:  # cuts, and who is left out, are those of all rows in every fold
            in_rule = check_parity(own.get("parity", rule))
            fitted = check_compared_groups(in_rule, y, sensitive_features, one, comparison=in_fit)
            estimator = estimator.with_comparison(fitted.comparison)
        # an unknown rule and empty cells are refused before anything is fitted
        people = check_people(groups, weight, n).with_labels(y).scored(np.zeros(n), parity)
        check_compared_rows(people, warn=False)
        present = np.ones(n, dtype=bool) if weight is None else weight > 0
        return cls(given, y, groups.code, present, groups.comparison, people), estimator

    @property
    def parity(self) -> Any:
        """The rule whose gaps are measured."""
        return self.people.parity

    def profile(self, rank: np.ndarray, rows: Any = slice(None)) -> ThresholdProfile:
        """Return the profile of those of the rows that were held out."""
        held = self._held_out(rank, rows)
        weight = self.given.sample_weight
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallCellWarning)  # the last fit raises it once
            return threshold_profile(
                self.y[held],
                rank[held],
                sensitive_features=_safe_indexing(self.given.sensitive_features, np.flatnonzero(held)),
                parity=self.parity,
                comparison=self.comparison,
                sample_weight=None if weight is None else weight[held],
            )

    def quality(self, scores: HeldOutScores, rows: Any = slice(None)) -> dict[str, float]:
        """Return the AUC of the ranks, and the accuracy of the raw score's sign."""
        held = self._held_out(scores.rank, rows)
        y, weight = self.y[held], self.given.sample_weight
        weight = None if weight is None else weight[held]
        one_label = len(np.unique(y)) < 2
        right = (scores.raw[held] > 0) == (y == 1)
        return {
            "auc": np.nan if one_label else float(roc_auc_score(y, scores.rank[held], sample_weight=weight)),
            "accuracy": float(np.average(right, weights=weight)),
        }

    def _held_out(self, rank: np.ndarray, rows: Any) -> np.ndarray:
        """Return which of the rows have weight and were held out by some fold."""
        held = np.zeros(len(rank), dtype=bool)
        held[rows] = True
        return held & np.isfinite(rank) & self.present

    def missing_cells(self, rows: np.ndarray) -> str:
        """Return the names of the cells that have none of these rows; else of a label the rule needs."""
        some = self.people.take((np.cumsum(self.present) - 1)[rows[self.present[rows]]])
        sizes = zip(some.union_names(), some.union_sizes(), strict=True)
        missing = [name for name, size in sizes if size == 0]
        if not missing and self.parity.needs_label:
            labels = np.setdiff1d(self.given.y, self.given.y[rows[self.present[rows]]])
            missing = [f"label {listed(labels)}"] if len(labels) else []
        return "; ".join(missing)


def _as_given(sensitive_features: Any, groups: Groups, *comparisons: Comparison) -> Any:
    """Return the attribute in a form that can be split: the groups by name, or all columns as they came."""
    if all(each.is_plain for each in comparisons):
        return np.asarray(groups.labels)[groups.code]
    import pandas as pd

    columns = group_columns(sensitive_features)
    if len(columns) == 1 and not columns[0][0]:  # a name that it came without would be a new one
        return columns[0][1]
    return pd.DataFrame(dict(columns))


@dataclass
class HeldOutScorer:
    """Scores of every row from models that were not fitted to it, at any η; fits are kept to start others."""

    estimator: EtaEstimator
    given: FitInput
    folds: list[Fold]
    n_jobs: int | None = None
    warm: bool = True
    models: dict[float, list[Any]] = field(default_factory=dict)
    started_at: dict[float, float | None] = field(default_factory=dict)

    @cached_property
    def shared(self) -> Any:
        """What the estimator fits once for all η and folds, such as `HeldOutRepair`; None if it cannot."""
        owner = self.estimator.owner
        if self.estimator.prefix or not hasattr(owner, "held_out"):
            return None
        X, y, sensitive_features, weight = self.given
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = owner.held_out(
                *(X, y, self.folds, weight), sensitive_features=sensitive_features, n_jobs=self.n_jobs
            )
        if found is not None:  # else the last fit warns
            _warn_once(caught)
        return found

    def scores(self, eta: float) -> HeldOutScores:
        """Fit every fold and return the scores of the rows it holds out."""
        n, weight = _num_samples(self.given.X), self.given.sample_weight
        out = HeldOutScores(np.full(n, np.nan), np.full(n, np.nan))
        present = np.ones(n, dtype=bool) if weight is None else weight > 0
        if self.shared is not None:
            with _ignore_repeated_warnings():
                out.raw[present] = self.shared.raw_scores(eta)
        else:
            for (_, test), score in zip(self.folds, self._fit_folds(eta), strict=True):
                out.raw[test] = score
        for _, test in self.folds:
            test = test[present[test]]
            out.rank[test] = rank_within_fold(out.raw[test], None if weight is None else weight[test])
        return out

    def _fit_folds(self, eta: float) -> list[np.ndarray]:
        """Fit every fold and return the scores of the rows that each holds out."""
        # the largest fitted η below, if it is near; where only base models are kept, any will do
        any_eta = self.estimator.keeps_base_models
        near = (other for other in self.models if any_eta or eta / WARM_RATIO <= other < eta)
        before = max(near, default=None)
        starts = [None] * len(self.folds) if before is None else self.models[before]
        jobs = (
            delayed(_fit_and_score)(self.estimator, self.given, fold, eta, start)
            for fold, start in zip(self.folds, starts, strict=True)
        )
        with _ignore_repeated_warnings():  # around the workers: in a thread the filters of all would change
            done = Parallel(n_jobs=self.n_jobs)(jobs)
        if self.warm and self.estimator.can_start_warm:
            self.models[eta] = [model for model, _ in done]
        self.started_at[eta] = None if any_eta else before
        return [score for _, score in done]

    def fit_from_scratch(self) -> None:
        """Forget the fits, and start none of the next ones from another; base models are kept."""
        self.started_at.clear()
        if self.shared is not None:
            self.shared.fit_from_scratch()
        if not self.estimator.keeps_base_models:
            self.models.clear()
            self.warm = False

    def fitted(self, eta: float) -> Any:
        """Return the estimator fitted to all rows, through the η that the folds' fits came through."""
        if self.shared is not None:
            return self.shared.fitted(eta)
        etas = [eta]
        while (before := self.started_at[etas[0]]) is not None:
            etas.insert(0, before)
        return self.estimator.fit_in_turn(self.given, etas)


def _fit_and_score(
    estimator: EtaEstimator, given: FitInput, fold: Fold, eta: float, start: Any
) -> tuple[Any, np.ndarray]:
    """Fit one fold's training rows and score the others."""
    rows, others = given.split(estimator.estimator, fold)
    model = estimator.fit(rows, eta, start)
    groups = {}
    if estimator.needs_groups_to_predict:
        groups = {"sensitive_features": _safe_indexing(given.sensitive_features, fold[1])}
    if hasattr(model, "decision_function"):
        score = np.asarray(model.decision_function(others, **groups))  # probabilities tie where they reach 1
    else:
        score = np.asarray(model.predict_proba(others))[:, 1] - 0.5
    return (model if estimator.can_start_warm else None), score


@contextmanager
def _ignore_repeated_warnings() -> Iterator[None]:
    """Ignore warnings that the fit which the user gets raises once."""
    with warnings.catch_warnings():
        for category in RAISED_ONCE:
            warnings.simplefilter("ignore", category)
        yield


def _warn_once(caught: list[warnings.WarningMessage]) -> None:
    """Raise again the warnings that differ; many fits of a base model warn of the same."""
    for each in {(one.category, str(one.message)): one for one in caught}.values():
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, source=each.source)


def rank_within_fold(score: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the weight share of the rows that score lower, ties counting half."""
    _, index = np.unique(score, return_inverse=True)
    mass = np.bincount(index.ravel(), weights=weight).astype(float)
    return ((np.cumsum(mass) - mass / 2) / mass.sum())[index.ravel()]


def make_folds(rows: SearchRows, cv: Any, rng: np.random.RandomState) -> list[Fold]:
    """Make folds, each of which fits every cell; together they hold out every cell."""
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        n_folds, n = int(check_number("cv", cv, low=2, whole=True)), len(rows.y)
        if n_folds > n:
            raise ValueError(f"`cv` must be at most the number of rows, {n}, got {n_folds}")
        folds = list(even_folds(n_folds, rows.y, rows.code, rows.present, rng))
    else:
        folds = _given_folds(rows, cv)
    for number, (train, test) in enumerate(folds, start=1):
        if missing := rows.missing_cells(train):
            raise ValueError(
                f"`cv` must leave rows of every cell to each fold's fit, got fold {number} of "
                f"{len(folds)} without: {missing}"
            )
        if not rows.present[test].any():
            raise ValueError(
                "`cv` must hold out rows of positive weight in each fold, got none in fold "
                f"{number} of {len(folds)}"
            )
    if missing := rows.missing_cells(np.concatenate([test for _, test in folds])):
        raise ValueError(f"`cv` must hold out rows of every cell, got folds that hold out none of: {missing}")
    return folds


def even_folds(
    n_folds: int, y: np.ndarray, code: np.ndarray, present: np.ndarray, rng: np.random.RandomState
) -> Iterator[Fold]:
    """Deal the shuffled rows of each label and group out to the folds in turn, those of weight 0 last."""
    order = rng.permutation(len(y))
    order = order[np.lexsort((y[order], code[order], ~present[order]))]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % n_folds
    for k in range(n_folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def _given_folds(rows: SearchRows, cv: Any) -> list[Fold]:
    """Return the folds of a splitter or of an iterable, checked."""
    n = len(rows.y)
    is_iterable = isinstance(cv, Iterable) and not hasattr(cv, "split")
    splits = cv if is_iterable else check_cv(cv, rows.y, classifier=True).split(rows.given.X, rows.y)
    folds = [_check_fold(split, n) for split in splits]
    if not folds:
        raise ValueError(
            f"`cv` must have at least 1 fold, got 0 from {cv!r:.80}. An iterator can be used once: give a "
            "list"
        )
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=n)
    if times.max() > 1:
        raise ValueError(
            f"`cv` must hold every row out at most once, got {np.count_nonzero(times > 1)} rows held out "
            f"several times by {cv!r:.80}"
        )
    for number, (train, test) in enumerate(folds, start=1):
        both = np.intersect1d(train, test)
        if len(both):
            raise ValueError(
                "`cv` must hold out rows that the same fold does not fit, got fold "
                f"{number} of {len(folds)} with {len(both)} rows in both (row {both[0]} first)"
            )
    return folds


def _check_fold(split: Any, n: int) -> Fold:
    """Return one (train, test) as row numbers, from row numbers or from masks over n rows."""
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
