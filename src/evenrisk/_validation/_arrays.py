"""Settings, labels, scores and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from evenrisk._validation._warnings import MisalignedIndexWarning, tell

T = TypeVar("T")


def check_member(name: str, value: Any, known: Mapping[str, T], kind: Any) -> T:
    """Look `value` up among the `known` names, or let an instance of `kind` pass."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in known:
        return known[value]
    names = ", ".join(repr(key) for key in known)
    raise ValueError(f"`{name}` must be one of {names} or a {kind.__name__} instance, got {value!r}")


def check_choice(name: str, value: Any, known: Sequence[str], *, or_none: bool = False) -> Any:
    """Let one of the `known` strings pass, and None if it may be."""
    if (value is None and or_none) or (isinstance(value, str) and value in known):
        return value
    names = (*known, None) if or_none else known
    raise ValueError(f"`{name}` must be one of {', '.join(map(repr, names))}, got {value!r}")


def check_number(name: str, value: Any, *, low: float, strict: bool = False, whole: bool = False) -> float:
    """Let a finite number of at least `low` (above it, if strict) pass."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    good = good and bool(np.isfinite(value)) and (value > low if strict else value >= low)
    if good and not (whole and int(value) != value):
        return value
    kind = "a whole number" if whole else "a finite number"
    bound = "" if low == -np.inf else f" {'above' if strict else 'of at least'} {low}"
    raise ValueError(f"`{name}` must be {kind}{bound}, got {value!r}")


def check_fraction(name: str, value: Any, *, one: bool = False) -> float:
    """Let a number between 0 and 1 pass, neither of them (1 too, if `one`)."""
    good = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if good and value > 0 and (value < 1 or (one and value == 1)):
        return float(value)
    upto = "at most" if one else "below"
    raise ValueError(f"`{name}` must be a number above 0 and {upto} 1, got {value!r}")


def check_weight(sample_weight: Any, n: int, dtype: Any = np.float64) -> np.ndarray:
    """Weights (n,): finite, none negative, not all 0. None is a view of one 1, which takes no memory."""
    if sample_weight is None:
        return np.broadcast_to(np.ones((), dtype=dtype), (n,))
    try:
        weight = _numbers("sample_weight", sample_weight, dtype)
    except ValueError as error:
        raise ValueError(f"{error}. Groups are passed as `sensitive_features=`") from error
    if weight.shape != (n,):
        raise ValueError(f"`sample_weight` must have shape ({n},), one weight per row, got {weight.shape}")
    if not np.isfinite(weight).all():
        raise ValueError(f"`sample_weight` must be finite, got {_first_bad(weight, ~np.isfinite(weight))}")
    if (weight < 0).any():
        raise ValueError(f"`sample_weight` must not be negative, got {_first_bad(weight, weight < 0)}")
    if not weight.any():
        raise ValueError(f"`sample_weight` must have a positive entry, got {n} zeros")
    return weight


def check_class_weight(class_weight: Any, classes: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the factor of each label (2,): 1, the user's own, or Σ mass/(2·mass) (mass: of each label)."""
    if class_weight is None:
        return np.ones(2)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return mass.sum() / (2 * mass)
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "`class_weight` must be None, 'balanced' or a dict of labels and weights, got "
            f"{class_weight!r:.60}"
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ValueError(f"`class_weight` must have labels of y ({listed(classes)}), got {listed(unknown)}")
    for label, factor in class_weight.items():
        check_number(f"class_weight[{label!r}]", factor, low=0, strict=True)
    return np.array([float(class_weight.get(label, 1)) for label in labels])


def check_binary(y: Any, name: str = "y", *, at_least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Encode two labels of any kind as 0 and 1 (int8); also give the labels, sorted."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    _refuse_missing(strict(y), name)
    y = column_or_1d(y, warn=True)
    _refuse_missing(y, name)
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"`{name}` must have 2 classes, got {len(classes)} ({listed(classes)})"
        )
    if len(classes) < at_least:
        raise ValueError(f"`{name}` must have 2 classes, got 1 class ({listed(classes)})")
    return (y == classes[-1]).astype(np.int8), classes


def check_scores(y_score: Any) -> np.ndarray:
    """Scores (n,): finite numbers; float32 stays float32."""
    score = np.asarray(y_score)
    if score.ndim == 2 and score.shape[1] == 1:
        score = score[:, 0]
    if score.ndim != 1:
        raise ValueError(f"`y_score` must have one score per row, shape (n,), got shape {score.shape}")
    if score.size == 0:
        raise ValueError("`y_score` must have at least 1 row, got 0")
    if score.dtype not in (np.float32, np.float64):
        score = _numbers("y_score", score, np.float64)
    if not np.isfinite(score).all():
        raise ValueError(f"`y_score` must be finite, got {_first_bad(score, ~np.isfinite(score))}")
    return score


def check_thresholds(thresholds: Any) -> np.ndarray:
    """Cut-offs (r,): finite numbers, one or several."""
    t = np.atleast_1d(_numbers("thresholds", thresholds, np.float64))
    if t.ndim != 1 or t.size == 0 or not np.isfinite(t).all():
        raise ValueError(f"`thresholds` must be one finite number or several, got {thresholds!r:.60}")
    return t


def _numbers(name: str, values: Any, dtype: Any) -> np.ndarray:
    """Real numbers as an array; text is not parsed."""
    array = strict(values)
    is_text = array.dtype.kind in "SU" or (
        array.dtype.kind == "O" and any(isinstance(value, (str, bytes)) for value in array.flat)
    )
    try:
        if is_text or array.dtype.kind == "c":
            raise TypeError("text" if is_text else "complex numbers")
        return array.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be numbers, got {error}") from error


def check_length(name: str, length: int, n: int) -> None:
    """Refuse an argument that does not have one entry per row."""
    if length != n:
        raise ValueError(f"`{name}` must have one entry per row, {n}, got {length}")


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
            tell(message, MisalignedIndexWarning)


def check_flag(name: str, value: Any) -> None:
    """Let True and False pass."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"`{name}` must be True or False, got {value!r}")


def strict(values: Any) -> np.ndarray:
    """An array that keeps None, NaN and masks apart from text: ['a', nan] must not make a group 'nan'."""
    if isinstance(values, np.ma.MaskedArray):
        plain = np.array(values.data, dtype=object)
        plain[np.ma.getmaskarray(values)] = None
        return plain
    return np.asarray(values, dtype=object) if isinstance(values, (list, tuple)) else np.asarray(values)


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
