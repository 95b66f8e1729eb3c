"""What fairlearn's two reductions share."""

import warnings
from contextlib import contextmanager

from fairlearn.reductions import DemographicParity, EqualizedOdds

CONSTRAINTS = {"demographic_parity": DemographicParity, "equalized_odds": EqualizedOdds}


@contextmanager
def old_pandas():
    """Let fairlearn write to a Series in two ways that pandas 3 deprecates."""
    with warnings.catch_warnings():
        for told in (r"Setting a value on a Series via \.at with", "Setting an item of incompatible dtype"):
            warnings.filterwarnings("ignore", told)
        yield
