"""Numbers as text, in three styles, and round numbers.

* The page's tables and plots: rates in per cent and gaps in points, with one decimal. Halves are rounded up,
  as a browser's ``toFixed`` does: the script and Python write the same digits. What is not known is a dash.
* Sentences: points without trailing zeros (27, 4.3).
* Text tables: shares with three decimals (0.245 [0.213, 0.277]).

Scores and thresholds have the digits that they need, everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

UNKNOWN = "–"
MORE_DIGITS = 12  # of a threshold between scores that are close; beyond, it has a power of ten of its own
MOST_DIGITS = 800  # of any float
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


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


def interval(measured: dict[str, Any], write: Callable[[float], str]) -> str:
    """Write ``value (low to high)``."""
    if measured["value"] is None:
        return UNKNOWN
    return f"{write(measured['value'])} ({write(measured['low'])}\u00a0to\u00a0{write(measured['high'])})"


def score_interval(measured: dict[str, float]) -> str:
    """Write an interval in units of the score, all of it to three digits of its largest number."""
    largest = max(map(abs, measured.values()))
    return interval(measured, lambda value: written(value, (largest or 1.0) / 100, largest))


def span(low: float, high: float) -> str:
    """Write two shares in points: 4.1 to 7.3, or one number where they look the same."""
    first, second = points(low), points(high)
    return first if first == second else f"{first}\u00a0to\u00a0{second}"


def p_value(value: float) -> str:
    """Write a p-value."""
    return "under 0.001" if value < 0.0005 else fixed(value, 3)


def count(value: int) -> str:
    """Write a number of rows, thousands apart."""
    return f"{value:,}".replace(",", "\u202f")


def short_points(share: float) -> str:
    """Write a share as percentage points in a sentence: 27, 4.3; 0 where it is 0 alone."""
    value = 100 * share
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    if value and not float(text):
        return f"{Decimal(f'{value:.1g}'):f}"
    return text.removesuffix(".0")


def short_span(low: float, high: float) -> str:
    """Write two shares as points in a sentence: 4 to 7; as many digits in both as make them differ."""
    first, second = apart(low, high, 0 if 100 * high >= 9.95 else 1)
    return short_points(high) if first == second else f"{first} to {second}"


def apart(one: float, other: float, digits: int) -> tuple[str, str]:
    """Write two shares in per cent, with more digits where they would else look equal."""
    for more in range(digits, digits + 3):
        texts = f"{100 * one:.{more}f}", f"{100 * other:.{more}f}"
        if texts[0] != texts[1]:
            break
    return texts


def exact_points(limit: float) -> str:
    """Write a limit as points, with all its digits: 5, 12.5."""
    return f"{100 * limit:.10g}"


def per_cent(level: float) -> str:
    """Write a level: 95 %."""
    return f"{100 * level:g} %"


def probability(p: float) -> str:
    """Write a p-value in a sentence: p = 0.03."""
    return f"p = {p:.2g}" if p >= 0.0095 else f"p = {p:.1g}"


def decimal(share: float | None) -> str:
    """Write a share in a text table; a dash where it is not defined."""
    return UNKNOWN if share is None else f"{share:.3f}"


def decimal_interval(measured: dict[str, Any]) -> str:
    """Write an interval in a text table: 0.245 [0.213, 0.277]."""
    if measured["value"] is None:
        return UNKNOWN
    return f"{measured['value']:.3f} [{measured['low']:.3f}, {measured['high']:.3f}]"


def bracketed(interval: str) -> str:
    """Write 0.123 (0.1 to 0.2) as 0.123 [0.1, 0.2]."""
    return interval.replace("(", "[").replace("\u00a0to\u00a0", ", ").replace(")", "]")


def listed_cuts(cuts: Sequence[float]) -> str:
    """Write where a measurement is cut: 25, 31, 40."""
    return ", ".join(f"{cut:.10g}" for cut in cuts)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def written(value: float, resolution: float, largest: float) -> str:
    """Write a number so that a difference of `resolution` shows; powers of ten from 10⁶ and below 10⁻³.

    `largest` is the largest size among the numbers written together: all get the same form.
    """
    power, decimals = _unit(resolution, largest)
    if power and not value:
        return "0"
    text = _minus(f"{value / 10.0**power:.{decimals}f}")
    return f"{text}×10{str(power).translate(_SUPERSCRIPTS)}" if power else text


def _unit(resolution: float, largest: float) -> tuple[int, int]:
    """Return the power of ten that numbers are written in (0: as they are), and with how many decimals."""
    power = 0 if 1e-3 <= largest < 1e6 or not largest else math.floor(math.log10(largest))
    finest = math.floor(math.log10(resolution) + 1e-9)
    return power, min(max(0, power - finest), 12)


def ticks(values: Sequence[float]) -> list[str]:
    """Write the numbers of an axis, with the decimals that their distance needs."""
    largest = max((abs(value) for value in values), default=0.0)
    step = values[1] - values[0] if len(values) > 1 else largest or 1.0
    return [written(value, step, largest) for value in values]


def threshold_writer(
    values: Sequence[float], scores: np.ndarray | None = None, asked: float | None = None
) -> Callable[[float], str]:
    """Return how thresholds are written: to a five-thousandth of their range, without trailing zeros.

    Where that would part the distinct `scores` (ascending) elsewhere than the threshold itself does, with as
    many more digits as it takes: who reads the number and applies it decides as the tables say. A number
    that was `asked` for is written whole.
    """
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    resolution = 10.0 ** round(math.log10(((high - low) or largest or 1.0) / 5000))
    power, decimals = _unit(resolution, largest)
    last = power - decimals  # place of the last digit

    def write(value: float) -> str:
        exact = _shortest(value, scores)
        if value == asked or int(exact.as_tuple().exponent) >= last:
            far = not power and not -7 <= exact.adjusted() < 16
            return _power_of_ten(exact, exact.adjusted() if far else power)
        inside, own = _same_side(value, scores), exact.adjusted()
        places = [(power, last - more) for more in range(MORE_DIGITS)]
        for unit, place in [*places, *((own, own - digits) for digits in range(17))]:
            for rounding in (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING):
                if inside(number := _cut(value, place, rounding)):
                    return _power_of_ten(number, unit)
        return _power_of_ten(exact, own)

    return write


def parse(text: str) -> float:
    """Read a number that was written here."""
    number, _, power = text.replace("−", "-").partition("×10")
    return float(f"{number}e{power.translate(_PLAIN) or 0}")


def _shortest(value: float, scores: np.ndarray | None) -> Decimal:
    """Return the shortest decimal that is this very number, in the precision of the scores."""
    return Decimal(str(value if scores is None else scores.dtype.type(value)))


def _same_side(value: float, scores: np.ndarray | None) -> Callable[[Decimal], bool]:
    """Return a test of whether a number parts the scores where the value does."""
    if scores is None:
        return lambda number: True
    kind = scores.dtype.type
    place = np.searchsorted(scores, kind(value), side="right")

    def inside(number: Decimal) -> bool:
        if math.isinf(float(number)):  # the largest number, rounded up, is none
            return False
        return bool(np.searchsorted(scores, kind(float(number)), side="right") == place)

    return inside


def _cut(value: float, place: int, rounding: str) -> Decimal:
    """Return a number rounded at a decimal place."""
    return Decimal(value).quantize(Decimal((0, (1,), place)), rounding, Context(prec=MOST_DIGITS))


def _power_of_ten(number: Decimal, power: int) -> str:
    """Write a number in units of a power of ten, without trailing zeros."""
    text = f"{number.scaleb(-power, Context(prec=MOST_DIGITS)):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return _minus(f"{text}×10{str(power).translate(_SUPERSCRIPTS)}" if power and number else text)


def _minus(text: str) -> str:
    """Use the minus sign, and none before a zero."""
    return text.replace("-", "−" if any(letter in "123456789" for letter in text) else "")
