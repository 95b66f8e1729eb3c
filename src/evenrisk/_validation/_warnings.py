"""Exceptions and warnings, and how they are raised. `evenrisk.exceptions` has all except `ArgumentError`."""

from __future__ import annotations

import sys
import warnings


class ArgumentError(ValueError):
    """An argument that cannot be used; `problem` says what is required of it and what came.

    The two are kept apart for callers whose users know the argument by another name, as the command's do.
    """

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(argument, problem)
        self.argument = argument
        self.problem = problem

    def __str__(self) -> str:
        return f"`{self.argument}` {self.problem}"


class MissingSensitiveFeatures(ValueError):
    """A penalty (eta > 0) or a bound was asked for and no groups were given."""


class SmallCellWarning(UserWarning):
    """A group, or a group within a label, has fewer than 30 rows."""


class MisalignedIndexWarning(UserWarning):
    """Two pandas objects hold the same index labels in different order; rows are matched by position."""


class CollapseWarning(UserWarning):
    """All risk scores are squeezed into nearly one value, by the penalty or by the hinge loss itself."""


class MajorityRateWarning(UserWarning):
    """The fitted model is less accurate on its training data than a constant answer."""


class ReversedRankingWarning(UserWarning):
    """The fitted model ranks its training data worse than chance (AUC below 0.5)."""


class BudgetWarning(UserWarning):
    """The budget for the gap cannot be met, or cannot be verified at this sample size."""


class RepairWarning(UserWarning):
    """A repair cannot do what is asked of it, or leaves something out."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line, outside this package, that called us."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("evenrisk."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def install_hint(extra: str, *packages: str) -> str:
    """Say how to get optional packages: by name, or as an extra of a clone. evenrisk is on no registry."""
    return f"pip install {' '.join(packages)}, or pip install '.[{extra}]' in a clone of evenrisk"
