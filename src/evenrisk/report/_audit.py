"""The door of the report, and the object it gives back."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenrisk._files import write_text
from evenrisk._validation import (
    MisalignedIndexWarning,
    SmallCellWarning,
    check_alignment,
    check_choice,
    check_fraction,
    check_number,
)
from evenrisk.metrics._inputs import ScoredRows, scored_rows
from evenrisk.metrics._resampling import generator
from evenrisk.report import words
from evenrisk.report._inputs import group_name, outcomes, score_columns
from evenrisk.report.cells import compared, needed, sentences
from evenrisk.report.page import to_fragment, to_html
from evenrisk.report.summary import DEFAULT_LIMITS, Settings, summarise
from evenrisk.report.text import to_markdown

MOST_DRAWS = 100_000  # without being asked for more
SMALLEST = 1e-150  # range of scores that plots and intervals can be computed for


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """An audit; made by :func:`audit`.

    Attributes
    ----------
    summary : dict
        Everything that was measured, as text, numbers, lists and dicts.
    """

    summary: dict[str, Any]

    def to_html(self, path: str | Path | None = None) -> str:
        """Write the page: one file that needs nothing else.

        Parameters
        ----------
        path : str or Path, default=None
            Where to write it; nowhere if None.

        Returns
        -------
        str
            The page.
        """
        return _written(to_html(self.summary), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """Write the summary as JSON.

        Parameters
        ----------
        path : str or Path, default=None
            Where to write it; nowhere if None.

        Returns
        -------
        str
            The JSON text.
        """
        text = json.dumps(self.summary, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        return _written(text, path)

    def to_markdown(self) -> str:
        """Give the verdict and the tables as Markdown.

        Returns
        -------
        str
            The text.
        """
        return to_markdown(self.summary)

    def _repr_html_(self) -> str:
        return to_fragment(self.summary)

    def __repr__(self) -> str:
        return f"AuditReport({self.summary['title']}: {self.summary['verdict'][0]})"


def audit(
    y_true: Any,
    y_score: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    parity: Any = None,
    threshold: float | None = None,
    level: float = 0.95,
    favourable: str = "high",
    random_state: Any = 0,
    positive: Any = None,
    max_gap: Any = None,
    n_resamples: int | None = None,
    n_permutations: int | None = None,
) -> AuditReport:
    """Audit any score at every threshold: how large the gap is, whether it is chance, what a cut-off decides.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        Outcomes: two labels of any kind. None if there are none.
    y_score : array-like of shape (n,), dict of them, or frame
        Scores: probabilities, percentages, raw scores, any finite numbers; several columns are shown on one
        page.
    sensitive_features : array-like of shape (n,) or (n, m)
        The group of each row; several columns are crossed.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    parity : str, Parity, list of them or None, default=None
        The rules to measure by. None is demographic parity, and equalized odds too where outcomes are given.
    threshold : float, default=None
        The cut-off in use, read in the precision of the scores. None is 0.5 where all scores lie in [0, 1],
        and the median score where some do not, or where all lie so close together that 0.5 hardly parts
        them.
    level : float, default=0.95
        Probability of bands and intervals.
    favourable : {"high", "low"}, default="high"
        Which end of the score is good for a person. It changes words and the impact ratio, and no gap.
    random_state : int, RandomState, Generator or None, default=0
        The only source of chance.
    positive : label, default=None
        The positive outcome; the greater of the two if None, with a warning where they are words. With more
        than two labels, it against the rest.
    max_gap : float or list of float, default=None
        Limits to hold the max gap against; 0.05 and 0.10 if None.
    n_resamples : int, default=None
        Resamples behind bands and intervals; None is 1000, or more where `level` needs more.
    n_permutations : int, default=None
        Permutations behind the noise floor; None likewise.

    Returns
    -------
    AuditReport
        With `summary`, `to_html`, `to_json` and `to_markdown`; a notebook shows the page.

    Notes
    -----
    A rule leaves out a group that has fewer than 2 rows in a cell that it compares: the rate of one person
    is 0 or 1 and would set every gap. The group is named with its rows and its rates, and the others are
    compared as if it were not there. A group of 2 to 29 rows is compared, and named as small.

    Examples
    --------
    The score that COMPAS itself gave, 1 to 10, where a low one is good for a person:

    >>> from evenrisk.datasets import load_compas
    >>> from evenrisk.report import audit
    >>> data = load_compas()
    >>> race = data.sensitive_features
    >>> report = audit(data.y, data.frame["decile_score"], sensitive_features=race, favourable="low")
    >>> print(report.summary["verdict"][0])
    At the worst cut-off, 4, group African-American is flagged 25 points more often than group Caucasian ...
    """
    settings = _settings(threshold, level, favourable, random_state, max_gap, n_resamples, n_permutations)
    columns = score_columns(y_score)
    data = {"y_true": y_true, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    scores = y_score if isinstance(y_score, Mapping) else {"y_score": y_score}
    check_alignment(**data, **{str(name): column for name, column in scores.items()})
    y, label, guess = outcomes(y_true, positive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallCellWarning)  # told below, once for all columns
        warnings.simplefilter("ignore", MisalignedIndexWarning)  # told above
        rows = {
            name: _rows(name, y, column, sensitive_features, sample_weight, several=len(columns) > 1)
            for name, column in columns.items()
        }
    first = next(iter(rows.values()))
    parities, missing = _parities(parity, first, label)
    settings = settings.under(parities, len(columns))
    small = sentences(first, parities, label)
    told = [f"{guess}."] if guess else []
    summary = summarise(rows, settings, group_name(sensitive_features), label, [*told, *small, *missing])
    if guess:
        warnings.warn(guess, UserWarning, stacklevel=2)
    if small:
        warnings.warn(" ".join(small), SmallCellWarning, stacklevel=2)
    return AuditReport(summary)


def _settings(
    threshold: Any,
    level: Any,
    favourable: Any,
    random_state: Any,
    max_gap: Any,
    n_resamples: Any,
    n_permutations: Any,
) -> Settings:
    """Check everything that is not data."""
    given = max_gap if isinstance(max_gap, Sequence) else [max_gap]
    limits = (
        DEFAULT_LIMITS if max_gap is None else tuple(check_fraction("max_gap", x, one=True) for x in given)
    )
    level = check_fraction("level", level)
    enough = max(1000, math.ceil(min(2 / (1 - level), MOST_DRAWS)))
    if not isinstance(random_state, (int, np.integer)):
        random_state = generator(random_state).integers(2**31)
    return Settings(
        parities=(),
        threshold=None
        if threshold is None
        else float(check_number("threshold", threshold, low=float("-inf"))),
        level=level,
        favourable=check_choice("favourable", favourable, ("high", "low")),
        random_state=int(random_state),
        limits=limits,
        n_resamples=enough if n_resamples is None else n_resamples,
        n_permutations=enough if n_permutations is None else n_permutations,
    )


def _rows(
    name: str, y: np.ndarray | None, column: Any, groups: Any, weight: Any, *, several: bool
) -> ScoredRows:
    try:
        rows = scored_rows(y, column, groups, "demographic_parity", weight)
        spread = float(np.ptp(rows.score / 2)) * 2
        if not (spread == 0 or SMALLEST <= spread <= 1 / SMALLEST):
            raise ValueError(f"`y_score` must span {SMALLEST:g} to {1 / SMALLEST:g}, got {spread:g}")
        return rows
    except ValueError as error:
        raise ValueError(f"{error} (score column {name!r})" if several else str(error)) from error


def _parities(
    parity: Any, rows: ScoredRows, label: dict[str, str] | None
) -> tuple[tuple[Any, ...], list[str]]:
    """The rules to measure by, and why one of ours cannot be measured."""
    if parity is not None:
        asked = tuple(parity) if isinstance(parity, (list, tuple)) else (parity,)
        if not asked:
            raise ValueError("`parity` must name at least 1 rule, got none")
        for rule in asked:
            if rows.label is None and rows.rule(rule).needs_label:
                raise ValueError(f"`y_true` is required under {rows.rule(rule).name}, got None")
            _refuse_incomparable(rows, rule, label)
        return asked, []
    _refuse_incomparable(rows, "demographic_parity", label)
    if rows.label is None:
        return ("demographic_parity",), []
    odds = compared(rows, "equalized_odds")
    if len(odds.rows.groups) > 1:
        return ("demographic_parity", "equalized_odds"), []
    reason = f"fewer than 2 groups have {needed(odds.rows.parity)}"
    named = words.too_few(odds.left_out, label)
    return ("demographic_parity",), [
        f"Equalized odds could not be measured: {reason}. Too few rows: {named}."
    ]


def _refuse_incomparable(rows: ScoredRows, parity: Any, label: dict[str, str] | None) -> None:
    """Refuse a rule that has fewer than two groups to compare."""
    found = compared(rows, parity)
    if len(found.rows.groups) < 2:
        enough = needed(found.rows.parity)
        raise ValueError(
            f"`sensitive_features` must have 2 or more groups of {enough} under "
            f"{found.rows.parity.name}, got {len(found.rows.groups)}. Too few rows: "
            f"{words.too_few(found.left_out, label)}"
        )


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(Path(path), text)
    return text
