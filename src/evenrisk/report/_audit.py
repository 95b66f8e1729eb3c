"""`audit`, and the report that it returns."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenrisk._files import write_text
from evenrisk._validation import (
    Comparison,
    SmallCellWarning,
    check_choice,
    check_fraction,
    check_number,
    shown,
)
from evenrisk.metrics import generator
from evenrisk.report import words
from evenrisk.report.inputs import about_attributes, check_data, rules_compared, small_cells
from evenrisk.report.page import to_fragment, to_html
from evenrisk.report.summary import DEFAULT_LIMITS, AuditSettings, summarise

MOST_DRAWS = 100_000  # without being asked for more
LAST_DIGIT = 1e-12  # by which equal gaps may differ


class Judgement(NamedTuple):
    """A score column compared with a limit under one rule.

    Attributes
    ----------
    score : str
        The score column.
    parity : str
        The rule.
    passes : bool
        Whether the column keeps the limit.
    words : str
        The same as a sentence, with what can be said beyond the sample.
    """

    score: str
    parity: str
    passes: bool
    words: str


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
        """Return the verdict and the tables as Markdown.

        Returns
        -------
        str
            The text.
        """
        return words.to_markdown(self.summary)

    def passes(self, max_gap: float, *, strict: bool = False, parity: Any = None) -> bool:
        """Return whether every score column keeps a limit on the max gap.

        Parameters
        ----------
        max_gap : float
            The limit, above 0 and at most 1. With ``strict=True`` one of the limits of :func:`audit`.
        strict : bool, default=False
            Whether the gap must be certified to be within the limit; else the measured gap decides. The
            certificate is that of the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, and for
            weighted rows that of the bootstrap.
        parity : str, list of str or None, default=None
            Names of the rules to judge by; all rules of the audit if None.

        Returns
        -------
        bool
            True where all pass.

        Examples
        --------
        >>> from evenrisk.datasets import load_compas
        >>> from evenrisk.report import audit
        >>> data = load_compas()
        >>> report = audit(
        ...     data.y, data.frame["decile_score"], sensitive_features=data.sensitive_features, max_gap=0.3
        ... )
        >>> report.passes(0.3), report.passes(0.3, strict=True), report.passes(0.2)
        (True, False, False)
        """
        return all(each.passes for each in self.judge(max_gap, strict=strict, parity=parity))

    def judge(self, max_gap: float, *, strict: bool = False, parity: Any = None) -> list[Judgement]:
        """Compare each score column with a limit on the max gap, under each rule.

        Parameters
        ----------
        max_gap, strict, parity
            As in `passes`.

        Returns
        -------
        list of Judgement
            One per score column and rule.
        """
        limit = check_fraction("max_gap", max_gap, one=True)
        known = self.summary["settings"]["parities"]
        rules = known if parity is None else [parity] if isinstance(parity, str) else list(parity)
        for rule in rules:
            check_choice("parity", rule, known)
        return [
            self._judgement(score, measured, limit, strict)
            for score in self.summary["scores"]
            for measured in score["parities"]
            if measured["parity"] in rules
        ]

    def _judgement(
        self, score: dict[str, Any], parity: dict[str, Any], limit: float, strict: bool
    ) -> Judgement:
        above = parity["max_gap"]["value"] > limit + LAST_DIGIT
        deciding = [made for made, _ in words.limits(parity["certificates"]) if made["limit"] == limit]
        if strict and not deciding:
            limits = sorted({made["limit"] for made in parity["certificates"]})
            raise ValueError(
                "`max_gap` must be a limit of the audit where `strict` is True "
                f"({', '.join(map(str, limits))}), got {limit}: pass it to `audit`"
            )
        passes = deciding[0]["verdict"] == "certified" if strict else not above
        held = words.limit_sentence(parity, limit, self.summary["rows"], above=above, strict=strict)
        found = f"{shown(score['name'])}, {parity['words']}: {held}"
        return Judgement(score["name"], parity["parity"], passes, found)

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
    comparison: str | Comparison = "crossed",
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
        The group of each row, in one column or several.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row.
    parity : str, Parity, list of them or None, default=None
        The rules to measure by. None is demographic parity, and equalized odds too where outcomes are given.
    comparison : str or Comparison, default="crossed"
        Which groups are compared, as in :func:`~evenrisk.metrics.threshold_profile`. What has fewer than 30
        rows, or ``Comparison(min_rows=...)``, in an outcome that a rule looks at is listed and not compared.
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
        With `summary`, `to_html`, `to_json`, `to_markdown` and `passes`; a notebook shows the page.

    Notes
    -----
    A rule leaves out a group that has fewer than 30 rows in a cell that it compares, because a rate of so few
    is mostly noise and would set every gap. The group is named with its rows and its rates, and the others
    are compared as if it were not there. ``Comparison(min_rows=...)`` sets another number. A group that is
    compared and has fewer than 30 rows is named as small.

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
    limits: tuple[float, ...] = DEFAULT_LIMITS
    if max_gap is not None:
        asked = max_gap if isinstance(max_gap, Sequence) else [max_gap]
        limits = tuple(check_fraction("max_gap", limit, one=True) for limit in asked)
    level = check_fraction("level", level)
    enough = max(1000, math.ceil(min(2 / (1 - level), MOST_DRAWS)))
    if not isinstance(random_state, (int, np.integer)):
        random_state = generator(random_state).integers(2**31)
    if threshold is not None:
        threshold = float(check_number("threshold", threshold, low=float("-inf")))
    settings = AuditSettings(
        threshold=threshold,
        level=level,
        favourable=check_choice("favourable", favourable, ("high", "low")),
        random_state=int(random_state),
        limits=limits,
        n_resamples=enough if n_resamples is None else n_resamples,
        n_permutations=enough if n_permutations is None else n_permutations,
    )
    data = check_data(y_true, y_score, sensitive_features, sample_weight, positive, comparison)
    compared, missing = rules_compared(data, parity)
    small = small_cells(data, compared)
    guess = [f"{data.guess}."] if data.guess else []
    summary = summarise(
        data, compared, settings, [*guess, *about_attributes(data, compared), *small, *missing]
    )
    if data.guess:
        warnings.warn(data.guess, UserWarning, stacklevel=2)
    if small:
        warnings.warn(" ".join(small), SmallCellWarning, stacklevel=2)
    return AuditReport(summary)


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(Path(path), text)
    return text
