"""The models under a repair: one of the risk, and one or more of the group.

A model is a classifier that is fitted here, a classifier that is fitted already, or columns of X that hold
what a model would predict. No row's coordinates come from a model that was fitted to the row: those of
training rows are out of fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import _clone_parametrized, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    has_fit_parameter,
)

from evenrisk._estimator import TrainingData
from evenrisk._validation import (
    ArgumentError,
    Attribute,
    Groups,
    RepairWarning,
    check_features,
    check_number,
    listed,
    warn_user,
)
from evenrisk.curves import auc
from evenrisk.postprocessing._quantiles import Quantiles

TOO_GOOD = 0.99  # an AUC on rows that are new to a model
TOLERANCE = 1e-6  # by which a probability may be outside [0, 1]
SUM_TOLERANCE = 0.01  # by which probabilities of all groups may differ from 1 in sum: columns are rounded
MEMORISED = 0.15  # by which, beyond noise, the AUC on a model's own rows may be above that on rows held out
RANKS = 1024  # points of the distribution function of a score column

Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Target:
    """What a classifier predicts."""

    role: str  # the argument that the classifier came as, for messages
    labels: np.ndarray  # (n,) as the classifier sees them
    classes: np.ndarray  # in the order of the columns of probabilities
    rows: np.ndarray  # (n,) a mask: rows to fit to; all are predicted


@dataclass(frozen=True)
class Classifier:
    """A fitted classifier."""

    model: Any
    classes: np.ndarray
    role: str

    def probabilities(self, X: Any) -> np.ndarray:
        """Return P(class|x) of each row (n, k)."""
        found = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        known = list(self.model.classes_)
        same = len(known) == len(self.classes) and all(each in known for each in self.classes.tolist())
        if not same or found.ndim != 2 or found.shape[1] != len(known):
            raise ValueError(
                f"`{self.role}` must predict a probability for each of {listed(self.classes)}, got an array "
                f"of shape {found.shape} for {listed(known)}"
            )
        order = [known.index(each) for each in self.classes.tolist()]
        return check_probabilities(found[:, order], self.role)


@dataclass(frozen=True)
class ScoreColumn:
    """A column of X that holds a score; any increasing function of the risk will do."""

    name: Any  # of a frame's column, or its number
    distribution: Quantiles  # of the training scores

    @classmethod
    def fit(cls, X: Any, name: Any, weight: np.ndarray) -> ScoreColumn:
        """Return the column with the distribution of its training scores."""
        return cls(name, Quantiles.of(numbers_of(X, [name], "estimator")[:, 0], weight, most=RANKS))

    def probabilities(self, X: Any) -> np.ndarray:
        """Return the rank of each row's score, as the second of two columns."""
        rank = self.distribution.share(numbers_of(X, [self.name], "estimator")[:, 0])
        return np.column_stack([1 - rank, rank])


@dataclass(frozen=True)
class ProbabilityColumns:
    """Columns of X that hold the probability of each group; of two groups, that of the second may do."""

    names: list[Any]
    n_groups: int

    def probabilities(self, X: Any) -> np.ndarray:
        """Return P(group|x) of each row (n, k)."""
        found = check_probabilities(numbers_of(X, self.names, "attribute_estimator"), "attribute_estimator")
        if found.shape[1] < self.n_groups:
            return np.column_stack([1 - found, found])
        total = found.sum(axis=1)
        if (off := np.abs(total - 1) > SUM_TOLERANCE).any():
            raise ValueError(
                "`attribute_estimator` must name columns whose probabilities add up to 1 in each row, got "
                f"{total[off][0]:g} in row {int(off.argmax())}"
            )
        return found / total[:, None]


Source = Classifier | ScoreColumn | ProbabilityColumns


class FittedSource(NamedTuple):
    """A base model, and what it says of the training rows (n, k)."""

    source: Source
    unseen: np.ndarray  # by models that have not seen the row
    own: np.ndarray  # by the model that is deployed
    without: list[np.ndarray] | None = None  # as in `CrossFitted`; None: `unseen` has seen no fold

    def not_seeing(self, fold: int) -> np.ndarray:
        """Return predictions of all rows by models that have not seen this fold."""
        return self.unseen if self.without is None else self.without[fold]

    @classmethod
    def of_new_rows(cls, source: Source, X: Any) -> FittedSource:
        """Return a model that none of the rows was fitted to."""
        p = source.probabilities(X)
        return cls(source, p, p)


@dataclass(frozen=True)
class BaseModels:
    """A model of the risk and models of the group, which place any rows in the plane."""

    risk: Source
    groups: list[Source]
    coordinates: list[np.ndarray]  # (k, r) of each of these models: what is kept of its probabilities

    def places(self, X: Any) -> np.ndarray:
        """Return the place of each row: its risk, and its probabilities of groups (n, m)."""
        return self.place(self.risk.probabilities(X), [each.probabilities(X) for each in self.groups])

    def place(self, risk: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        """Return places (n, m) from the probabilities of labels and of groups."""
        kept = (each @ coordinates for each, coordinates in zip(groups, self.coordinates, strict=True))
        return np.hstack([risk[:, 1:], *kept])


@dataclass(frozen=True)
class GroupTarget:
    """What models of one attribute are to predict, and what of it makes coordinates."""

    name: str
    code: np.ndarray  # (n,) the class of each row, −1 = none that is compared
    labels: list[Any]  # of the k classes
    names: list[str]
    coordinates: np.ndarray  # (k, r)
    coordinate_names: list[str]

    @classmethod
    def all_of(cls, data: TrainingData) -> list[GroupTarget]:
        """Return what there is to predict: the groups, or the compared classes of every attribute."""
        groups = data.groups
        assert groups is not None
        if groups.attributes is None:
            return [cls._nominal("", groups.code, groups.labels.tolist(), groups.names, data.weight)]
        if groups.share is not None:
            raise ArgumentError(
                "comparison",
                "must compare groups that are known in a repair, which learns to predict them, got "
                "probabilities",
            )
        return [cls._of_attribute(each, groups, data.weight) for each in groups.attributes]

    @classmethod
    def _of_attribute(cls, attribute: Attribute, groups: Groups, weight: np.ndarray) -> GroupTarget:
        kept = np.flatnonzero(attribute.compared)
        place = np.full(len(attribute.names) + 1, -1)  # the last is of unknown
        place[kept] = np.arange(len(kept))
        code = place[attribute.classes][groups.code]
        names = [attribute.names[i] for i in kept]
        labels = names
        if len(groups.attributes or ()) == 1:
            labels = [groups.labels[int(np.argmax(attribute.classes == i))] for i in kept]
        if not attribute.cuts or len(kept) > len(attribute.cuts) + 1:
            return cls._nominal(attribute.name, code, labels, names, weight)
        mass = np.bincount(code[code >= 0], weights=weight[code >= 0], minlength=len(kept))
        rank = (np.cumsum(mass) - mass / 2) / mass.sum()
        return cls(attribute.name, code, labels, names, rank[:, None], [f"expected rank of {attribute.name}"])

    @classmethod
    def _nominal(
        cls, name: str, code: np.ndarray, labels: list[Any], names: list[str], weight: np.ndarray
    ) -> GroupTarget:
        known = code >= 0
        largest = int(np.bincount(code[known], weights=weight[known]).argmax())
        others = np.delete(np.eye(len(labels)), largest, axis=1)  # its log-odds follow from the others'
        return cls(
            *(name, code, labels, names, others),
            [f"probability of {each}" for k, each in enumerate(names) if k != largest],
        )


@dataclass(frozen=True)
class CrossFitting:
    """How models are fitted without some of the rows: the folds, and who does the work."""

    folds: list[Fold]
    n_jobs: int | None = None
    in_pairs: bool = False  # whether folds are left out in pairs too

    @property
    def fold_of_row(self) -> np.ndarray:
        """The number of the fold that holds each row out."""
        fold = np.empty(sum(len(test) for _, test in self.folds), dtype=np.intp)
        for number, (_, test) in enumerate(self.folds):
            fold[test] = number
        return fold

    @classmethod
    def plan(
        cls,
        cv: Any,
        data: TrainingData,
        rng: np.random.RandomState,
        n_jobs: int | None = None,
        *,
        in_pairs: bool = False,
    ) -> CrossFitting:
        """Make folds of the rows of positive weight, stratified by label and group."""
        n = len(data.y)
        stratum = data.y if data.groups is None else 2 * data.groups.code + data.y
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
            check_number("cv", cv, low=2, whole=True)
            splitter = StratifiedKFold(int(cv), shuffle=True, random_state=rng.randint(2**31 - 1))
            stratum = stratum[data.weight > 0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # a label may have fewer rows in some group
                return cls(list(splitter.split(np.zeros(len(stratum)), stratum)), n_jobs, in_pairs)
        if isinstance(cv, Iterable) and not (isinstance(cv, str) or hasattr(cv, "split")):
            folds = [_check_fold(fold, n) for fold in cv]
        else:
            folds = list(check_cv(cv, data.y, classifier=True).split(np.zeros(n), stratum))
        times = (
            np.bincount(np.concatenate([test for _, test in folds]), minlength=n) if folds else np.zeros(1)
        )
        if len(times) != n or (times != 1).any():
            raise ArgumentError("cv", f"must hold out each of {n} rows exactly once, got folds that do not")
        for number, (train, test) in enumerate(folds, start=1):
            if len(both := np.intersect1d(train, test)):
                raise ArgumentError(
                    "cv",
                    f"must hold out rows that the same fold does not fit, got fold {number} of {len(folds)} "
                    f"with {len(both)} rows in both",
                )
        place = np.cumsum(data.weight > 0) - 1  # among the rows that count
        there = [[part[data.weight[part] > 0] for part in fold] for fold in folds]
        for number, fold in enumerate(there, start=1):
            for what, part in zip(("fit", "hold out"), fold, strict=True):
                if not len(part):
                    raise ArgumentError(
                        "cv",
                        f"must {what} rows of positive weight in each fold, got none in fold {number} of "
                        f"{len(there)}",
                    )
        return cls([(place[train], place[test]) for train, test in there], n_jobs, in_pairs)

    def pairs_are_complete(self, data: TrainingData) -> bool:
        """Whether what any two folds both fit has every label and cell; all rows of the data have weight."""
        parts = (np.intersect1d(self.folds[i][0], self.folds[j][0]) for i, j in self.pairs)
        return all(data.is_complete(rows) for rows in parts)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The folds that are left out together."""
        return list(combinations(range(len(self.folds)), 2)) if self.in_pairs else []


def _check_fold(fold: Any, n: int) -> Fold:
    """Return (train, test) as row numbers, from row numbers or from masks."""
    parts = [np.asarray(part) for part in fold] if isinstance(fold, (tuple, list)) else []
    parts = [np.flatnonzero(part) if part.dtype == bool and part.shape == (n,) else part for part in parts]
    if len(parts) != 2 or any(
        part.ndim != 1 or part.dtype.kind not in "iu" or not np.isin(part, np.arange(n)).all()
        for part in parts
    ):
        raise ArgumentError(
            "cv", f"must have folds (train, test), two arrays of row numbers below {n}, got {fold!r:.80}"
        )
    return parts[0], parts[1]


def check_rows_per_fold(n_folds: int, data: TrainingData, labels: Sequence[int | None]) -> None:
    """Refuse a group with fewer rows than folds, within each of the labels that a model is fitted to."""
    for target, label in product(GroupTarget.all_of(data), labels):
        rows = (data.weight > 0) & (target.code >= 0) & (True if label is None else data.y == label)
        counts = np.bincount(target.code[rows], minlength=len(target.labels))
        if counts.min() < n_folds:
            where = "" if label is None else f" among rows of label {listed(data.classes[[label]])}"
            raise ArgumentError(
                "sensitive_features",
                f"must have at least as many rows of each group as folds, cv={n_folds}{where}, got "
                f"{counts.min()} rows of {target.names[int(counts.argmin())]!r}",
            )


class CrossFitted(NamedTuple):
    """A model fitted to all rows, and predictions by models that were not.

    `without` is for a search that holds each fold out in turn. Nothing of that fold may be in what its models
    learn from, so its entry for fold f has predictions of *all* rows by models that have not seen fold f: of
    the rows of another fold j by a model of the rows that are in neither. One model serves f and j.
    """

    model: Any
    unseen: np.ndarray  # (n, k) by models that have not seen the row
    without: list[np.ndarray] | None  # of each fold (n, k), where asked for


def cross_fit(
    fit: Callable[[np.ndarray], Any], predict: Callable[[Any, Any], np.ndarray], X: Any, how: CrossFitting
) -> CrossFitted:
    """Fit a model to all rows, and others to the rows that are left when folds are left out.

    `fit` makes a model of the rows with given numbers; `predict` takes a model and rows of X.
    """
    folds, fold_of_row = how.folds, how.fold_of_row

    def leave_out(*left_out: int) -> np.ndarray:
        train = folds[left_out[0]][0]
        train = train[np.isin(train, folds[left_out[-1]][0])]
        return predict(fit(train), _safe_indexing(X, np.flatnonzero(np.isin(fold_of_row, left_out))))

    single = [(f,) for f in range(len(folds))]
    pairs = how.pairs
    parts = Parallel(n_jobs=how.n_jobs)(delayed(leave_out)(*left_out) for left_out in single + pairs)
    unseen = np.empty((len(fold_of_row), parts[0].shape[1]))
    for (f,), part in zip(single, parts, strict=False):
        unseen[fold_of_row == f] = part
    without = [unseen.copy() for _ in single] if pairs else None
    for (f, j), part in zip(pairs, parts[len(single) :], strict=True):
        assert without is not None
        which = fold_of_row[np.isin(fold_of_row, (f, j))]
        without[f][fold_of_row == j] = part[which == j]
        without[j][fold_of_row == f] = part[which == f]
    return CrossFitted(fit(np.arange(len(fold_of_row))), unseen, without)


def cross_fit_classifier(
    estimator: Any, X: Any, target: Target, weight: np.ndarray, how: CrossFitting
) -> FittedSource:
    """Return a classifier fitted to all rows, with P(class|x) out of fold."""

    def fit(rows: np.ndarray) -> Classifier:
        rows = rows[target.rows[rows]]
        model = fit_with_weights(estimator, _safe_indexing(X, rows), target.labels[rows], weight[rows])
        return Classifier(model, target.classes, target.role)

    fitted, unseen, without = cross_fit(fit, Classifier.probabilities, X, how)
    return FittedSource(fitted, unseen, fitted.probabilities(X), without)


def warn_of_useless_model(name: str, fitted: FittedSource, target: Target, weight: np.ndarray) -> None:
    """Warn of a model that knows its rows by heart, and of a group that cannot be told from X."""
    rows = np.flatnonzero(target.rows)
    labels = np.searchsorted(target.classes, target.labels[rows])
    held_out, own = (_areas(p[rows], labels, weight[rows]) for p in (fitted.unseen, fitted.own))
    counts = np.bincount(labels, minlength=len(held_out))
    noise = 2 * np.sqrt((len(rows) + 1) / (12 * counts * (len(rows) - counts)))  # of an AUC without meaning
    who = f"`{target.role}`, a {name}, has an AUC of"
    excess = own - held_out - noise
    worst = int(np.argmax(excess))
    if excess[worst] > MEMORISED:
        warn_user(
            f"{who} {own[worst]:.3f} on the rows it was fitted to and of {held_out[worst]:.3f} on rows held "
            "out: it knows its rows by heart. The repair is for people it has not seen; do not judge it by "
            "scores of these rows",
            RepairWarning,
        )
    if target.role == "attribute_estimator" and (np.abs(held_out - 0.5) < noise).all():
        warn_user(
            f"the group cannot be told from X: {who} {held_out.max():.3f} on rows held out. A score of X "
            "is then fair already, or cannot be repaired without the group",
            RepairWarning,
        )


def warn_of_rows_it_has_seen(model: Classifier, p: np.ndarray, data: TrainingData) -> None:
    """Warn of a fitted model that is nearly always right about rows which should be new to it."""
    area = auc(p[:, 1], data.y, data.weight)
    if area > TOO_GOOD:
        warn_user(
            f"`estimator`, a fitted {type(model.model).__name__}, has an AUC of {area:.3f} on the rows "
            "given: with cv='prefit' they must be rows that it was not fitted to",
            RepairWarning,
        )


def _areas(p: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the AUC of each class against the others."""
    return np.array([auc(p[:, k], (labels == k).astype(np.int8), weight) for k in range(p.shape[1])])


def fit_with_weights(estimator: Any, X: Any, y: np.ndarray, weight: np.ndarray) -> Any:
    """Fit a copy of an estimator, with the weights where it takes any and they are not all 1."""
    name = _weight_name(estimator)
    given = {} if name is None or (weight == 1).all() else {name: weight}
    with config_context(enable_metadata_routing=False):  # a pipeline then takes them as step__sample_weight
        return clone(estimator).fit(X, y, **given)


def warn_of_weights_left_out(role: str, estimator: Any, weight: np.ndarray) -> None:
    """Warn if there are weights that this estimator does not take."""
    if (weight != 1).any() and _weight_name(estimator) is None:
        warn_user(
            f"`{role}`, a {type(estimator).__name__}, takes no `sample_weight`: the weights count in the "
            "repair, not in this model",
            RepairWarning,
        )


def takes_weights(estimator: Any) -> bool:
    """Whether this estimator's fit takes weights."""
    return _weight_name(estimator) is not None


def _weight_name(estimator: Any) -> str | None:
    """Return the name by which this estimator's fit takes weights; None if it takes none."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _weight_name(last)
        return None if inner is None else f"{name}__{inner}"
    return None


def check_probabilities(p: np.ndarray, role: str) -> np.ndarray:
    """Refuse what is no probability."""
    bad = ~((p >= -TOLERANCE) & (p <= 1 + TOLERANCE))
    if bad.any():
        raise ValueError(f"`{role}` must give probabilities in [0, 1], got {p[bad][0]}")
    return np.clip(p, 0.0, 1.0)


def numbers_of(X: Any, names: list[Any], role: str) -> np.ndarray:
    """Return columns of X as finite numbers (n, m)."""
    try:
        labelled = hasattr(X, "columns") and all(name in X.columns for name in names)
        chosen = X[names] if labelled else _safe_indexing(X, names, axis=1)  # a number may be a label
        numbers = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64)
    except (KeyError, IndexError) as error:
        raise ValueError(
            f"`{role}` must be a classifier, or name columns of X, got {listed(names)}, which X does not have"
        ) from error
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"`{role}` must be a classifier, or name columns of X that hold numbers, got {listed(names)}: "
            f"{error}"
        ) from error
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"`{role}` must name columns of X that hold finite numbers, got NaN or infinity in "
            f"{listed(names)}"
        )
    return numbers


def rows_as_given(model: Any, X: Any, *, reset: bool) -> Any:
    """Return X as base models will see it, its columns kept or compared; the values are theirs to check."""
    check_features(X)
    if hasattr(X, "to_pandas"):  # polars, pyarrow
        X = X.to_pandas()
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    if not hasattr(X, "shape"):
        X = np.asarray(X)
        if X.ndim == 0:
            raise ArgumentError("X", f"must have one row for each person, got {X[()]!r:.60}")
    for axis, name in enumerate(("sample", "feature")[: len(X.shape)]):
        if X.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {name}(s) (shape={X.shape}) while a minimum of 1 is required."
            )
    _check_feature_names(model, X, reset=reset)
    if len(X.shape) == 2:
        _check_n_features(model, X, reset=reset)
    return X


def check_classifier(role: str, given: Any, *, prefit: bool) -> None:
    """Check that a base model is a classifier with `predict_proba`, and fitted where it should be."""
    if isinstance(given, type):
        raise ArgumentError(role, f"must be an instance, got the class {given.__name__}")
    if getattr(given, "keeps_base_models", False):
        raise ArgumentError(
            role, f"must be a classifier to repair, got a {type(given).__name__}, which is a repair itself"
        )
    if not hasattr(given, "predict_proba"):
        raise ArgumentError(
            role, f"must be a classifier with predict_proba, got {type(given).__name__}, which has none"
        )
    if not prefit:
        return
    try:
        check_is_fitted(given)
    except NotFittedError as error:
        raise ArgumentError(
            role, f"must be fitted with cv='prefit', got a {type(given).__name__} that is not"
        ) from error


def with_seeds(estimator: Any, random_state: Any, rng: np.random.RandomState) -> Any:
    """Return a copy; parts whose `random_state` is None get one, if the user gave us one."""
    estimator = clone(estimator)
    if random_state is not None:
        names = [name for name, value in sorted(estimator.get_params(deep=True).items()) if value is None]
        names = [name for name in names if name.split("__")[-1] == "random_state"]
        estimator.set_params(**{name: int(rng.randint(2**31 - 1)) for name in names})
    return estimator


def checksum_of(data: TrainingData, settings: dict[str, Any]) -> str | None:
    """Return a text that is the same for the same rows and settings; None if they cannot be told.

    Chance moves a random state itself, so it does not count among the settings.
    """
    groups = None
    if data.groups is not None:
        groups = (data.groups.code, data.groups.labels.tolist(), repr(data.groups.comparison))
    known = {name: value for name, value in settings.items() if not isinstance(value, np.random.RandomState)}
    try:
        return str(joblib.hash((data.X, data.y, data.weight, data.classes, groups, known)))
    except Exception:  # of a model that cannot be pickled: a function without a name, say
        return None


def clone_with_fitted_models(repair: Any) -> Any:
    """Return what sklearn.base.clone does, but with base models that are fitted already as they are."""
    copied = _clone_parametrized(repair)
    if is_prefit(repair.cv):
        for name in ("estimator", "attribute_estimator"):
            if name in repair.get_params(deep=False):
                setattr(copied, name, getattr(repair, name))
    return copied


def is_prefit(cv: Any) -> bool:
    """Whether the base models are fitted already."""
    return isinstance(cv, str) and cv == "prefit"
