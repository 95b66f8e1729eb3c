"""Settings, labels, scores and weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar

import numpy as np

from evenrisk._validation._names import shown
from evenrisk._validation._warnings import ArgumentError, MisalignedIndexWarning, warn_user

T = TypeVar("T")

ALL_WHOLE = 2.0**53  # up to here every whole number is a float64
DATES = "dates or times"
# what NumPy would parse, or take for numbers: kinds of arrays, and of entries among objects
_FOREIGN: dict[str, tuple[str, tuple[type, ...]]] = {
    "text": ("SUT", (str, bytes)),
    DATES: ("mM", (np.datetime64, np.timedelta64, date, timedelta)),
    "complex numbers": ("c", (complex,)),
}


def check_member(name: str, value: Any, known: Mapping[str, T], kind: Any) -> T:
    """Look `value` up among the `known` names, or let an instance of `kind` pass."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in known:
        return known[value]
    names = ", ".join(repr(key) for key in known)
    raise ArgumentError(name, f"must be one of {names} or a {kind.__name__} instance, got {value!r}")


def check_choice(name: str, value: Any, known: Sequence[str], *, or_none: bool = False) -> Any:
    """Let one of the `known` strings pass, and None if it may be."""
    if (value is None and or_none) or (isinstance(value, str) and value in known):
        return value
    names = (*known, None) if or_none else known
    raise ArgumentError(name, f"must be one of {', '.join(map(repr, names))}, got {value!r}")


def check_number(name: str, value: Any, *, low: float, strict: bool = False, whole: bool = False) -> float:
    """Let a finite number of at least `low` (above it, if strict) pass."""
    good = _is_number(value) and (value > low if strict else value >= low)
    if good and not (whole and int(value) != value):
        return value
    kind = "a whole number" if whole else "a finite number"
    bound = "" if low == -np.inf else f" {'above' if strict else 'of at least'} {low}"
    raise ArgumentError(name, f"must be {kind}{bound}, got {value!r:.60}")


def check_fraction(name: str, value: Any, *, one: bool = False) -> float:
    """Let a number between 0 and 1 pass, neither of them (1 too, if `one`)."""
    if _is_number(value) and value > 0 and (value < 1 or (one and value == 1)):
        return float(value)
    upto = "at most" if one else "below"
    raise ArgumentError(name, f"must be a number above 0 and {upto} 1, got {value!r:.60}")


def _is_number(value: Any) -> bool:
    """Whether it is a finite number that float64 can hold; NumPy counts times among the whole numbers."""
    if isinstance(value, (bool, np.timedelta64)):
        return False
    try:
        return isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)
    except OverflowError:
        return False


def check_weight(
    sample_weight: Any, n: int, dtype: Any = np.float64, *, name: str = "sample_weight"
) -> np.ndarray:
    """Weights (n,): finite, none negative, not all 0. None is a view of one 1, which takes no memory."""
    if sample_weight is None:
        return np.broadcast_to(np.ones((), dtype=dtype), (n,))
    refuse_masked(name, sample_weight)
    try:
        weight = _numbers(name, sample_weight, dtype)
    except ArgumentError as error:
        if name != "sample_weight":
            raise
        raise ArgumentError(name, f"{error.problem}. Groups are passed as `sensitive_features=`") from error
    if weight.shape != (n,):
        raise ArgumentError(name, f"must have shape ({n},), one weight per row, got {weight.shape}")
    if not np.isfinite(weight).all():
        raise ArgumentError(name, f"must be finite, got {_first_bad(weight, ~np.isfinite(weight))}")
    if (weight < 0).any():
        raise ArgumentError(name, f"must not be negative, got {_first_bad(weight, weight < 0)}")
    if not weight.any():
        raise ArgumentError(name, f"must have a positive entry, got {n} zeros")
    return weight


def check_class_weight(class_weight: Any, classes: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the factor of each label (2,): 1, the user's own, or Σ mass/(2·mass) (mass: of each label)."""
    if class_weight is None:
        return np.ones(2)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return mass.sum() / (2 * mass)
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(
            "class_weight",
            f"must be None, 'balanced' or a dict of labels and weights, got {class_weight!r:.60}",
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ArgumentError(
            "class_weight", f"must have labels of y ({listed(classes)}), got {listed(unknown)}"
        )
    for label, factor in class_weight.items():
        check_number(f"class_weight[{label!r}]", factor, low=0, strict=True)
    return np.array([float(class_weight.get(label, 1)) for label in labels])


def check_binary(
    y: Any, name: str = "y", *, at_least: int = 2, hint: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Encode two labels of any kind as 0 and 1 (int8), and return the labels, sorted.

    `hint` says what to do where there are fewer than `at_least` labels.
    """
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    _refuse_missing(strict(y), name)
    y = column_or_1d(unchunked(y), warn=True)
    _refuse_missing(y, name)
    _refuse_dates(y, name)
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"`{name}` must have 2 classes, got {len(classes)} ({listed(classes)})"
        )
    if len(classes) < at_least:
        advice = f". {hint}" if hint else ""
        raise ArgumentError(name, f"must have 2 classes, got 1 class ({listed(classes)}){advice}")
    return (y == classes[-1]).astype(np.int8), classes


def check_positive(
    y: Any, pos_label: Any, name: str = "y", *, argument: str = "pos_label", at_least: int = 2
) -> tuple[np.ndarray, list[Any]]:
    """Encode `pos_label` as 1 and all other labels, one or more, as 0 (int8), and return those others."""
    values = y if hasattr(y, "iloc") else strict(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.iloc[:, 0] if hasattr(values, "iloc") else values[:, 0]
    if values.ndim != 1:
        raise ArgumentError(name, f"must have one label per row, shape (n,), got shape {values.shape}")
    code, labels = factorize(name, values)
    if (code < 0).any():
        raise ArgumentError(name, f"must not have missing values, got {int((code < 0).sum())}")
    _refuse_dates(np.asarray(labels), name)
    found = np.array([bool(label == pos_label) for label in labels])
    if (not found.any() or found.all()) and len(found) > 2 - at_least:
        if found.any():
            raise ArgumentError(name, f"must have 2 or more labels, got 1 ({listed(list(labels))})")
        raise ArgumentError(
            argument, f"must be a label in `{name}` ({listed(list(labels))}), got {pos_label!r}"
        )
    return found[code].astype(np.int8), [label for label in labels if label != pos_label]


def guessed_label(name: str, labels: Any, argument: str) -> str:
    """Say which of two labels was taken as positive; nothing where they are numbers or booleans.

    `argument` is what would name the positive one.
    """
    if not isinstance(labels[0], str):
        return ""
    both, last = (listed(some, quote=lambda label: shown(repr(label))) for some in (labels, labels[-1:]))
    return (
        f"{name} has the labels {both}: {last}, the last in alphabetical order, is taken as the positive "
        f"label, the one a high score stands for. Pass {argument} to say which one it is"
    )


def factorize(name: str, values: Any) -> tuple[np.ndarray, Any]:
    """Code values by those that occur, in the order of their first row; −1 where one is missing."""
    import pandas as pd

    try:
        # pandas hashes Python strings, not fixed-width ones
        return pd.factorize(values.astype(object) if values.dtype.kind in "SU" else values)
    except TypeError as error:
        found = re.search(r"unhashable type: '([^']+)'", str(error))
        came = f"entries of type {found[1]}" if found else str(error)
        raise ArgumentError(
            name, f"must have text, numbers, booleans or dates for entries, got {came}"
        ) from error


def check_scores(y_score: Any, *, name: str = "y_score") -> np.ndarray:
    """Scores (n,): finite numbers; float16 and float32 stay as they are."""
    refuse_masked(name, y_score)
    score = _numbers(name, y_score)
    if score.ndim == 2 and score.shape[1] == 1:
        score = score[:, 0]
    if score.ndim != 1:
        raise ArgumentError(name, f"must have one score per row, shape (n,), got shape {score.shape}")
    if score.size == 0:
        raise ArgumentError(name, "must have at least 1 row, got 0")
    if lost := merged_in_float64(score, lambda rows: strict(y_score).reshape(score.shape)[rows].tolist()):
        raise ArgumentError(name, f"must be numbers that differ in float64 too, got {lost}")
    if not np.isfinite(score).all():
        raise ArgumentError(name, f"must be finite, got {_first_bad(score, ~np.isfinite(score))}")
    return score


def check_thresholds(name: str, thresholds: Any) -> np.ndarray:
    """Cut-offs (float64), one number or several: infinite ones select all or nobody, NaN decides nothing."""
    t = _numbers(name, thresholds, np.float64)  # a masked one is NaN
    if np.isnan(t).any():
        raise ArgumentError(name, f"must be numbers, one or several, got {thresholds!r:.60}")
    return t


def _numbers(name: str, values: Any, dtype: Any = None) -> np.ndarray:
    """Real numbers as an array of `dtype`, else of float64 or a narrower float; text is not parsed."""
    array = strict(values)
    try:
        if foreign := [what for what in _FOREIGN if _holds(what, array)]:
            raise TypeError(foreign[0])
        if isinstance(values, (list, tuple)):
            array = np.asarray(array.tolist())  # a list of float32 is float32
        narrow = array.dtype.kind == "f" and array.dtype.itemsize <= 8
        return array.astype(dtype or (array.dtype if narrow else np.float64), copy=False)
    except OverflowError as error:
        raise ArgumentError(name, "must be numbers, got an integer too large for float64") from error
    except (TypeError, ValueError) as error:
        raise ArgumentError(name, f"must be numbers, got {error}") from error


def _holds(what: str, array: np.ndarray) -> bool:
    """Whether some entries are text, dates or times, or complex numbers."""
    kinds, types = _FOREIGN[what]
    if array.dtype.kind == "O":
        return any(isinstance(value, types) for value in array.flat)
    return array.dtype.kind in kinds


def merged_in_float64(number: np.ndarray, exact: Callable[[np.ndarray], list[Any]]) -> str:
    """Say how many numbers of 2⁵³ or more differed as they came and do not in float64; nothing if all do.

    `exact` gives the numbers of some rows (a mask) to their last digit.
    """
    if number.dtype != np.float64:  # narrower ones are as they came
        return ""
    large = np.abs(number) >= ALL_WHOLE
    before, after = (len(set(exact(large))), len(np.unique(number[large]))) if large.any() else (0, 0)
    if before <= after:
        return ""
    return f"{before} distinct numbers of 2**53 or more that become {after}: subtract a constant from all"


def refuse_masked(name: str, values: Any) -> None:
    """Refuse a masked array with masked entries, which NumPy would hand on without its mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        masked = np.atleast_1d(np.ma.getmaskarray(values))
        rows = np.flatnonzero(masked.reshape(len(masked), -1).any(axis=1))
        came = f"{np.count_nonzero(masked)} (row {listed(rows, 3)})"
        raise ArgumentError(name, f"must not have masked entries, got {came}")


def check_features(X: Any) -> None:
    """Refuse features that scikit-learn would take for numbers: masked entries, dates and times."""
    refuse_masked("X", X)
    kinds: dict[str, Any] = {"": getattr(X, "dtype", None)}
    if hasattr(X, "columns"):
        import narwhals as nw

        frame: Any = nw.from_native(X, pass_through=True, eager_only=True)
        kinds = dict(frame.schema) if isinstance(frame, nw.DataFrame) else {}
        if any(kind == nw.Object for kind in kinds.values()):
            _refuse_dates_among(np.asarray(X))
    elif isinstance(X, (list, tuple)) or getattr(getattr(X, "dtype", None), "kind", "") == "O":
        _refuse_dates_among(strict(X))
    for name, kind in kinds.items():
        if getattr(kind, "kind", "f") in "mM" or (hasattr(kind, "is_temporal") and kind.is_temporal()):
            raise ArgumentError("X", f"must be numbers, got {DATES}" + (f" in {name!r}" if name else ""))


def _refuse_dates_among(X: np.ndarray) -> None:
    """Refuse dates and times among objects, where NumPy would count them in nanoseconds."""
    if _holds(DATES, X):
        raise ArgumentError("X", f"must be numbers, got {DATES}")


def check_length(name: str, length: int, n: int) -> None:
    """Refuse an argument that does not have one entry per row."""
    if length != n:
        raise ArgumentError(name, f"must have one entry per row, {n}, got {length}")


def check_alignment(**named: Any) -> None:
    """Warn where pandas indexes hold the same labels in different order: nothing here aligns by label."""
    indexed = {name: value.index for name, value in named.items() if hasattr(value, "iloc")}
    names = list(indexed)
    for name in names[1:]:
        first, other = indexed[names[0]], indexed[name]
        if len(first) == len(other) and not first.equals(other) and first.is_unique and other.is_unique:
            if not first.isin(other).all():
                continue
            message = (
                f"`{names[0]}` and `{name}` have the same index labels in different order. Rows are matched "
                "by position, not by label: reorder one of them, or drop its index"
            )
            warn_user(message, MisalignedIndexWarning)


def check_flag(name: str, value: Any) -> None:
    """Let True and False pass."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(name, f"must be True or False, got {value!r}")


def strict(values: Any) -> np.ndarray:
    """An array that keeps None, NaN and masks apart from text: ['a', nan] must not make a group 'nan'."""
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if not mask.any():
            return np.asarray(values)
        plain = np.array(values.data, dtype=object)
        plain[mask] = None
        return plain
    if not isinstance(values, (list, tuple)):
        return np.asarray(unchunked(values))
    array = np.asarray(values, dtype=object)
    masked = [value is np.ma.masked for value in array.flat]
    if any(masked):
        array[np.reshape(masked, array.shape)] = None
    return array


def unchunked(values: Any) -> Any:
    """Join a chunked array of pyarrow: in chunks, the nulls of a dictionary turn into one of its values."""
    is_chunked = hasattr(values, "combine_chunks") and hasattr(values, "type")
    return values.combine_chunks() if is_chunked else values


def _refuse_dates(y: np.ndarray, name: str) -> None:
    """Refuse dates and times among labels: NaT would be one of them."""
    if _holds(DATES, y):
        raise ArgumentError(name, f"must have labels that are numbers, text or booleans, got {DATES}")


def _refuse_missing(y: np.ndarray, name: str) -> None:
    """Refuse NaN, None, NA and infinity among labels."""
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(f"Input {name} contains infinity: `{name}` must have two labels")
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind == "O":
        import pandas as pd

        missing = pd.isna(y)
    else:
        return
    if missing.any():
        raise ValueError(
            f"Input {name} contains NaN: `{name}` must not have missing values, got {missing.sum()}"
        )


def _first_bad(values: np.ndarray, bad: np.ndarray) -> str:
    """Quote the first offending value and its row."""
    row = int(np.flatnonzero(bad)[0])
    return f"{values[row]} in row {row} ({int(bad.sum())} of {len(values)} rows)"


def listed(values: Any, most: int = 5, quote: Callable[[Any], str] = repr) -> str:
    """Write a few values for a message."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values[:most]]
    return ", ".join(quote(value) for value in plain) + (", …" if len(values) > most else "")
