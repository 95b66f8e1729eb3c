"""Does the paper's claim hold? Paired differences to Zafar, with the error of overlapping splits.

The claim is that, at Zafar's accuracy, the gap of the proposed classifiers varies less over the thresholds
(STD, Int.). Both numbers also fall when all scores are merely squeezed together, so every row is compared a
second time with Zafar's score rescaled to the row's own spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

CLAIMED = ("std", "interval", "max_gap")
HEADINGS = {"std": "STD", "interval": "Int.", "max_gap": "max gap"}
LEVEL = 0.95


def paired(difference: np.ndarray, test_to_train: float) -> dict[str, float | None]:
    """Give mean and standard error √((1/J + n_test/n_train)·s²) of J paired differences.

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
    """Put a paired difference into a word: lower, higher, or neither beyond its error."""
    if found["high"] is None:
        return "unclear"
    if found["high"] < 0:
        return "lower"
    return "higher" if found["low"] > 0 else "unclear"


def in_words(method: str, zafar: str, claim: dict[str, Any], *, matched: bool) -> str:
    """Say what survives of the claim for one row."""
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
    """Say how STD and Int. compare, with the estimates where they count."""
    found = {name: verdict(differences[name]) for name in ("std", "interval")}
    clear = {name: word for name, word in found.items() if word != "unclear"}
    if not clear:
        return f"no difference in variation beyond noise (STD {signed(differences['std']['mean'])})"
    parts = [f"{HEADINGS[name]} {word} ({signed(differences[name]['mean'])})" for name, word in clear.items()]
    return " and ".join(parts)


def signed(value: float) -> str:
    """Write a difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")
