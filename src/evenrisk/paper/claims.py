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
    plain = {name: verdict(claim["zafar"][name]) for name in CLAIMED}
    scaled = {name: verdict(claim["zafar_rescaled"][name]) for name in CLAIMED}
    varies = {name: plain[name] for name in ("std", "interval")}
    if all(word == "unclear" for word in varies.values()):
        first = f"no difference to {zafar} in variation beyond noise"
    elif "higher" in varies.values() and "lower" in varies.values():
        first = f"STD {plain['std']} and Int. {plain['interval']} than {zafar}'s"
    else:
        word = "less" if "lower" in varies.values() else "more"
        which = " and ".join(HEADINGS[name] for name, found in varies.items() if found != "unclear")
        first = f"{word} variation than {zafar} ({which})"
    held = [HEADINGS[name] for name in ("std", "interval") if scaled[name] == "lower"]
    if "lower" in varies.values():
        second = f"; against {zafar} rescaled " + (
            f"it stays lower in {' and '.join(held)}" if held else "nothing of that is left"
        )
    else:
        second = f"; against {zafar} rescaled lower in {' and '.join(held)}" if held else ""
    third = {
        "lower": "; its max gap is lower too",
        "higher": "; its max gap is higher",
        "unclear": "; no difference in max gap beyond noise",
    }[plain["max_gap"]]
    note = "" if matched else " (accuracy not matched)"
    return f"{method}{note}: {first}{second}{third}."
