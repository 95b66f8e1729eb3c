"""The rows that the benchmarks run on: COMPAS and Adult, three synthetic tables, scores without features.

Conventions
-----------
A table is (X, y, groups): X (n, d) float64, y 0/1, groups whole numbers in the order of the sorted names. The
same seed gives the same rows.
"""

import numpy as np

from evenrisk.datasets import load_adult, load_compas

# ---------------------------------------------------------------- COMPAS and Adult


def compas():
    """Return COMPAS: four features, race."""
    return _arrays(*load_compas())


def adult():
    """Return Adult, one-hot: 89 columns, sex."""
    return _arrays(*load_adult(one_hot=True))


def _arrays(X, y, attribute):
    return X.to_numpy(dtype=float), y.to_numpy(), np.unique(attribute.to_numpy(), return_inverse=True)[1]


def standardised(X, rows=slice(None)):
    """Return X with mean 0 and sd 1 on the given rows; a column that is constant there is only centred."""
    mean, sd = X[rows].mean(axis=0), X[rows].std(axis=0)
    return (X - mean) / np.where(sd > 0, sd, 1)


def train_test(X, y, groups, seed, n_train=None):
    """Return a random training part (70 % unless given) and the rest, standardised on the training part."""
    n_test = round(0.3 * len(y)) if n_train is None else len(y) - n_train
    test, train = np.split(np.random.default_rng(seed).permutation(len(y)), [n_test])
    return _parts(X, y, groups, train, test)


def train_validation_test(X, y, groups, seed):
    """Return random parts of 52.5, 17.5 and 30 %, standardised on the first."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, validation, train = np.split(order, np.cumsum([round(0.3 * len(y)), round(0.175 * len(y))]))
    return _parts(X, y, groups, train, validation, test)


def _parts(X, y, groups, train, *others):
    X = standardised(X, train)
    return [(X[rows], y[rows], groups[rows]) for rows in (train, *others)]


# ---------------------------------------------------------------- synthetic tables


def skewed(n=20_000, d=20, seed=0):
    """Return correlated, skewed rows whose groups differ: a stand-in for tables that nobody has tuned on.

    d Gaussians with correlation 0.7^|i−j|; in group 1 (35 % of the rows) the first third is shifted up by 1
    and the second third has its scale raised by a half. Every second column is then exponentiated. The label
    is drawn from a logistic model of the Gaussians with one interaction, and is 1 for 30 % or so.
    """
    rng = np.random.default_rng(seed)
    groups = (rng.random(n) < 0.35).astype(int)
    correlation = 0.7 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    G = rng.standard_normal((n, d)) @ np.linalg.cholesky(correlation).T
    G[:, : d // 3] += groups[:, None]
    G[:, d // 3 : 2 * d // 3] *= 1 + 0.5 * groups[:, None]
    w = np.abs(rng.normal(0, 0.25, d))
    raw = G @ w + 0.3 * G[:, 0] * G[:, d // 2] - 1.5
    y = (rng.random(n) < 1 / (1 + np.exp(-raw))).astype(int)
    G[:, ::2] = np.exp(0.7 * G[:, ::2])
    return G, y, groups


def crowded(n=20_000, seed=0):
    """Return rows a fifth of which are a crowd with a risk of .003.

    The crowd is 8 % of one group and 28 % of the other. Six Gaussian columns. The group (40 %) shows in two
    of them, but not in the crowd, which is marked by a third. The label of the others follows a logistic
    model with one interaction.
    """
    rng = np.random.default_rng(seed)
    groups = (rng.random(n) < 0.4).astype(int)
    crowd = rng.random(n) < np.where(groups == 1, 0.08, 0.28)
    X = rng.standard_normal((n, 6))
    X[~crowd, :2] += groups[~crowd, None] * [0.7, 0.3]
    X[crowd, 2] -= 8
    risk = 1 / (1 + np.exp(0.3 - X @ [1, 0, 0, 0.8, 0, 0] - 0.5 * X[:, 0] * X[:, 4]))
    return X, (rng.random(n) < np.where(crowd, 0.003, risk)).astype(int), groups


def collinear(n, d, seed=0):
    """Return standardised rows that are hard for a solver.

    Neighbouring columns correlate at 0.95, and every second one is exponentiated.
    """
    rng = np.random.default_rng(seed)
    groups = (rng.random(n) < 0.35).astype(np.int64)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.95 * X[:, j - 1] + (1 - 0.95**2) ** 0.5 * X[:, j]
    X[:, : d // 3] += 0.4 * groups[:, None]
    g = X @ (rng.normal(size=d) / d**0.5) - 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-g))).astype(np.int64)
    np.exp(0.8 * X[:, ::2], out=X[:, ::2])
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X, y, groups


def gaussian(n, d, seed=0):
    """Return correlated Gaussian columns, two groups that differ in the first, labels in small integers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1::3] += 0.5 * X[:, ::3][:, : X[:, 1::3].shape[1]]
    groups = (rng.random(n) < 0.4).astype(np.int32)
    X[:, 0] += 0.5 * groups
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] + 0.3 * X[:, 1]))).astype(np.int8)
    return X, y, groups


# ---------------------------------------------------------------- scores without features


def scored_people(n, seed=0, n_groups=2):
    """Return outcomes, continuous risks that they follow, and unequal groups that differ a little."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.5, 0.3, 0.2][:n_groups])
    groups = rng.choice(n_groups, n, p=shares / shares.sum())
    raw = rng.standard_normal(n)
    raw += 0.3 * groups - 0.2
    score = 1 / (1 + np.exp(-raw))
    y = (rng.random(n) < score).astype(np.int8)
    return y, score, groups
