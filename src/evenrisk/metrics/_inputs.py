"""The door of the metrics: labels, scores, groups and weights become clean rows in cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenrisk._validation import (
    check_binary,
    check_cells,
    check_groups,
    check_length,
    check_member,
    check_scores,
    check_weight,
)
from evenrisk.parity import PARITIES, Parity, cell_codes


@dataclass(frozen=True)
class ScoredRows:
    """Rows of positive weight with their score and cell; a cell is ``stratum · k + group``."""

    parity: Parity
    groups: tuple[str, ...]
    score: np.ndarray  # (n,)
    code: np.ndarray  # (n,) cell, −1 = in none
    weight: np.ndarray  # (n,)

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self.parity.strata) * len(self.groups)


def scored_rows(
    y_true: Any, y_score: Any, sensitive_features: Any, parity: str | Parity, sample_weight: Any
) -> ScoredRows:
    """Check everything once."""
    rule: Parity = check_member("parity", parity, PARITIES, Parity)
    score = check_scores(y_score)
    n = len(score)
    weight = check_weight(sample_weight, n)
    if sensitive_features is None:
        raise ValueError("`sensitive_features` is required: the group of each row, got None")
    groups = check_groups(sensitive_features, n)
    y = None
    if y_true is not None:
        y, _ = _labels(y_true, n)
    elif rule.needs_label:
        raise ValueError(f"`y_true` is required under {rule.name}, got None")
    code = cell_codes(rule, y, groups.code, len(groups.labels))
    kept = weight > 0
    names = rule.cell_names([repr(name) for name in groups.names])
    check_cells(np.bincount(code[kept] + 1, minlength=len(names) + 1)[1:], names, stacklevel=4)
    if not kept.all():
        score, code, weight = score[kept], code[kept], weight[kept]
    return ScoredRows(rule, tuple(groups.names), score, code, weight)


def _labels(y_true: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    y, classes = check_binary(y_true, "y_true")
    check_length("y_true", len(y), n)
    return y, classes
