"""Numbers as the page writes them: rates in per cent, gaps in points, scores with the digits they need.

Halves are rounded up, as a browser's ``toFixed`` does: the script and Python write the same digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

UNKNOWN = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float | None, digits: int) -> str:
    """Write a number with so many decimals."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return _minus(text)


def percent(rate: float | None) -> str:
    """Write a rate in per cent."""
    return UNKNOWN if rate is None else fixed(100 * rate, 1)


def points(gap: float | None) -> str:
    """Write a difference of rates in percentage points."""
    return percent(gap)


def ratio(value: float | None) -> str:
    """Write a ratio, an AUC."""
    return fixed(value, 2)


def area(value: float | None) -> str:
    """Write an area between 0 and 1."""
    return fixed(value, 3)


def interval(measured: dict[str, Any] | None, write: Callable[[float | None], str]) -> str:
    """Write ``value (low to high)``."""
    if measured is None:
        return UNKNOWN
    low, high = measured["low"], measured["high"]
    known = low is not None and high is not None
    return write(measured["value"]) + (f" ({write(low)}\u00a0to\u00a0{write(high)})" if known else "")


def score_interval(measured: dict[str, Any] | None) -> str:
    """Write an interval in units of the score, all of it to three digits of its largest number."""
    known = [abs((measured or {}).get(key) or 0.0) for key in ("value", "low", "high")]
    largest = max(known)

    def write(value: float | None) -> str:
        return UNKNOWN if value is None else written(value, (largest or 1.0) / 100, largest)

    return interval(measured, write)


def p_value(value: float | None) -> str:
    """Write a p-value."""
    if value is None:
        return UNKNOWN
    return "under 0.001" if value < 0.0005 else fixed(value, 3)


def count(value: int) -> str:
    """Write a number of rows, thousands apart."""
    return f"{value:,}".replace(",", "\u202f")


def written(value: float, resolution: float, largest: float) -> str:
    """Write a number so that a difference of `resolution` shows; powers of ten from 10⁶ and below 10⁻³.

    `largest` is the largest size among the numbers written together: all get the same form.
    """
    finest = math.floor(math.log10(resolution) + 1e-9)
    if 1e-3 <= largest < 1e6 or not largest:
        return _minus(f"{value:.{min(max(0, -finest), 12)}f}")
    power = math.floor(math.log10(largest))
    mantissa = _minus(f"{value / 10.0**power:.{min(max(0, power - finest), 12)}f}")
    return f"{mantissa}×10{str(power).translate(_SUPERSCRIPTS)}" if value else "0"


def ticks(values: Sequence[float]) -> list[str]:
    """Write the numbers of an axis, with the decimals that their distance needs."""
    largest = max((abs(value) for value in values), default=0.0)
    step = values[1] - values[0] if len(values) > 1 else largest or 1.0
    return [written(value, step, largest) for value in values]


def threshold_writer(values: Sequence[float]) -> Callable[[float], str]:
    """Choose how thresholds are written: to a five-thousandth of their range, without idle noughts."""
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    resolution = 10.0 ** round(math.log10(((high - low) or largest or 1.0) / 5000))

    def write(value: float) -> str:
        number, times, power = written(value, resolution, largest).partition("×")
        return (number.rstrip("0").rstrip(".") if "." in number else number) + times + power

    return write


def _minus(text: str) -> str:
    """Use the minus sign, and none before a nought."""
    return text.replace("-", "−" if any(letter in "123456789" for letter in text) else "")
