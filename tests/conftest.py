"""Settings every test shares."""

import os

# scikit-learn's checks skip their array API part unless this is set before SciPy is imported
os.environ["SCIPY_ARRAY_API"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from hypothesis import settings

from evenrisk.datasets import load_adult, load_compas

settings.register_profile("evenrisk", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("evenrisk")


def standardised(X):
    """Zero mean, unit variance; a constant column stays."""
    X = np.asarray(X, dtype=float)
    sd = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1)


@pytest.fixture(scope="session")
def compas():
    """COMPAS, standardised: X, y, race."""
    X, y, race = load_compas()
    return standardised(X), y.to_numpy(), race.to_numpy()


@pytest.fixture(scope="session")
def adult():
    """Adult, one-hot and standardised: X, y, sex."""
    X, y, sex = load_adult(one_hot=True)
    return standardised(X), y.to_numpy(), sex.to_numpy()
