"""Every input check, its wording, and the exceptions and warnings that are public.

Conventions
-----------
A message says what is required and what came. Rows of weight 0 count for nothing. They are checked here like
all others, and dropped later: those of a fit by `TrainingData.drop_zero_weights` in `_estimator` (linear
models and machines keep them where X is too large to merge equal rows), those of a measure by `People.scored`
in `metrics`.
"""
# ruff: noqa: F401 - gathered here for all other modules

from evenrisk._validation._arrays import (
    check_alignment,
    check_binary,
    check_choice,
    check_class_weight,
    check_features,
    check_flag,
    check_fraction,
    check_length,
    check_member,
    check_number,
    check_positive,
    check_scores,
    check_thresholds,
    check_weight,
    guessed_label,
    listed,
    merged_in_float64,
    refuse_masked,
)
from evenrisk._validation._attributes import N_CUTS, check_groups
from evenrisk._validation._comparison import Comparison, check_comparison
from evenrisk._validation._groups import (
    ALL_BUT,
    MAX_GROUPS,
    NUMBER,
    SMALL_CELL,
    Attribute,
    Groups,
    check_cells,
    check_codes,
    check_sizes,
    count_rows,
    group_columns,
    group_name,
)
from evenrisk._validation._names import shown, visible
from evenrisk._validation._warnings import (
    ArgumentError,
    BudgetWarning,
    CollapseWarning,
    MajorityRateWarning,
    MisalignedIndexWarning,
    MissingSensitiveFeatures,
    RepairWarning,
    ReversedRankingWarning,
    SmallCellWarning,
    install_hint,
    warn_user,
)
