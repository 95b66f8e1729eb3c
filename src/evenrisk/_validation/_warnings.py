"""Exceptions and warnings; public as `evenrisk.exceptions`."""


class MissingSensitiveFeatures(ValueError):
    """A penalty (eta > 0) or a bound was asked for and no groups were given."""


class SmallCellWarning(UserWarning):
    """A group, or a group within a label, has fewer than 30 rows."""


class MisalignedIndexWarning(UserWarning):
    """Two pandas objects hold the same index labels in different order; rows are matched by position."""


class CollapseWarning(UserWarning):
    """The penalty has squeezed all risk scores into nearly one value."""


class MajorityRateWarning(UserWarning):
    """The fitted model is less accurate on its training data than a constant answer."""


class ReversedRankingWarning(UserWarning):
    """The fitted model ranks its training data worse than chance (AUC below 0.5)."""
