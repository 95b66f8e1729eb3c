"""What the experiment is: rows, features, splits, the grids that η and c are chosen from, what is measured.

Four features, as in the paper: age and number of priors standardised on the part that is fitted, sex and
charge degree 0/1; race only as the group. Each split is 70 % training and 30 % test, at random; a quarter of
the training part serves as validation, then the whole of it is fitted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.datasets import Dataset
from evenrisk.linear_model import FairLogisticRegression
from evenrisk.metrics import threshold_profile
from evenrisk.svm import FairKernelSVC, FairLinearSVC

PARITIES = ("demographic_parity", "equalized_odds")
TEST_SHARE, VALIDATION_SHARE = 0.3, 0.25
STANDARDISED = ("age", "priors_count")
GAMMA = 0.5
# of four features more trees or leaves learn the rows by heart
TREES: dict[str, Any] = {"n_estimators": 60, "num_leaves": 8, "n_jobs": 1}
MACHINE_TOL = 3e-4  # a finer one moves accuracy by some thousandths, a tenth of the spread over splits
VERSION = 2  # of this protocol; results of another one are not continued, nor those of other packages
PACKAGES = (
    *("evenrisk", "numpy", "scipy", "scikit-learn", "cvxpy", "dccp", "clarabel"),
    *("torch", "lightgbm"),
)

COLUMNS = ("accuracy", "gap", "interval", "std", "max_gap", "rank_gap", "auc", "score_sd")
CHANCE_COLUMNS = ("gap", "interval", "std", "max_gap", "rank_gap")  # chance alone makes these positive
GRID = np.linspace(0, 1, 201)  # thresholds at which curves of several splits are averaged
PERMUTATIONS = 200  # per split
LARGEST_SLOPE = 1e3  # a score stretched this much is 0 or 1

Split = dict[str, np.ndarray]  # what a split leaves behind: see `runner.fit_split`

# accuracy, gap at 0.5, Int. and STD in the paper's Tables 1 and 2: one split, no error bars
PAPER = {
    "demographic_parity": {
        "Baseline": (0.684, 0.225, 0.145, 0.044),
        "Zafar-DP": (0.574, 0.060, 0.079, 0.024),
        "LR-HA": (0.566, 0.075, 0.089, 0.024),
        "LR-GA": (0.569, 0.066, 0.093, 0.023),
        "LSVM-HA": (0.562, 0.035, 0.073, 0.022),
        "LSVM-GA": (0.565, 0.048, 0.097, 0.020),
        "KSVM-HA": (0.570, 0.059, 0.057, 0.014),
        "KSVM-GA": (0.584, 0.064, 0.098, 0.024),
    },
    "equalized_odds": {
        "Baseline": (0.684, 0.188, 0.123, 0.037),
        "Zafar-EO": (0.632, 0.120, 0.154, 0.047),
        "LR-HA": (0.627, 0.117, 0.077, 0.024),
        "LR-GA": (0.629, 0.117, 0.098, 0.028),
        "LSVM-HA": (0.633, 0.137, 0.109, 0.029),
        "LSVM-GA": (0.630, 0.129, 0.062, 0.018),
        "KSVM-HA": (0.632, 0.112, 0.067, 0.012),
        "KSVM-GA": (0.629, 0.096, 0.040, 0.009),
    },
}
PAPER_COLUMNS = ("accuracy", "gap", "interval", "std")
ZAFAR_ACCURACY = {
    parity: PAPER[parity][name][0] for parity, name in zip(PARITIES, ("Zafar-DP", "Zafar-EO"), strict=True)
}
ZAFAR_BOUNDS = {
    "demographic_parity": tuple(n / 1000 for n in range(13)),
    "equalized_odds": (0.003, 0.004, 0.005, 0.006),  # by convex–concave steps: a second or two each
}


@dataclass(frozen=True)
class Row:
    """A proposed method: a classifier with a distance, and the values of η it is fitted for."""

    classifier: str  # "LR", "LSVM", "KSVM", "MLP" or "LightGBM"
    distance: str
    etas: tuple[float, ...]
    ours: bool = False

    @property
    def name(self) -> str:
        """The name in the paper's tables."""
        return f"{self.classifier}-{SUFFIX[self.distance]}"

    def estimator(self, parity: str) -> Any:
        """Return the classifier, not fitted."""
        if self.classifier == "LR":
            return FairLogisticRegression(parity, distance=self.distance)
        if self.classifier == "LSVM":
            return FairLinearSVC(parity, distance=self.distance, tol=MACHINE_TOL)
        if self.classifier == "KSVM":
            return FairKernelSVC(parity, distance=self.distance, gamma=GAMMA, tol=MACHINE_TOL)
        if self.classifier == "MLP":
            from evenrisk.neural_network import FairMLPClassifier

            return FairMLPClassifier(parity, distance=self.distance, random_state=0)
        from evenrisk.boosting import FairLGBMClassifier

        return FairLGBMClassifier(parity, distance=self.distance, **TREES)


SUFFIX = {"histogram": "HA", "gaussian": "GA", "gap": "gap"}
# logistic regression and the linear machine fall off a cliff within a factor of two of η and are cheap to
# fit: their grids are fine there. The kernel machine falls gently and takes longer.
_LR_ETAS = (
    *(0.0, 0.02, 0.04, 0.05, 0.06, *(n / 200 for n in range(14, 26)), *(n / 100 for n in range(13, 25))),
    *(0.25, 0.28, 0.32, 0.36, 0.4, 0.5, 0.7, 1.0, 2.0, 5.0),
)
_LSVM_ETAS = (
    *(0.0, 0.02, 0.04, 0.06, 0.08, *(n / 50 for n in range(5, 21)), 0.45, 0.5, 0.6, 0.7, 0.85),
    *(1.0, 1.2, 1.5, 2.0, 3.0, 5.0),
)
_KSVM_ETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0)
_LR_GAP_ETAS = (*(n / 2 for n in range(11)), *(float(n) for n in range(6, 13)), 14.0, 16.0, 20.0, 30.0, 50.0)
_MLP_GAP_ETAS = (*(float(n) for n in range(6)), 7.0, 9.0, 12.0, 18.0, 30.0, 50.0, 100.0)
_MLP_HISTOGRAM_ETAS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.2, 2.0, 5.0)
_LIGHTGBM_GAP_ETAS = (0.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 20.0, 28.0, 40.0, 80.0, 150.0, 300.0)
_KSVM_GAP_ETAS = (0.0, 2.0, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0, 50.0)
ROWS = (
    Row("LR", "histogram", _LR_ETAS),
    Row("LR", "gaussian", _LR_ETAS),
    Row("LSVM", "histogram", _LSVM_ETAS),
    Row("LSVM", "gaussian", _LSVM_ETAS),
    Row("KSVM", "histogram", _KSVM_ETAS),
    Row("KSVM", "gaussian", _KSVM_ETAS),
    Row("LR", "gap", _LR_GAP_ETAS, ours=True),
    Row("KSVM", "gap", _KSVM_GAP_ETAS, ours=True),
    Row("MLP", "gap", _MLP_GAP_ETAS, ours=True),
    Row("MLP", "histogram", _MLP_HISTOGRAM_ETAS, ours=True),
    Row("LightGBM", "gap", _LIGHTGBM_GAP_ETAS, ours=True),
)


def zafar(parity: str, c: float) -> Any:
    """Return the paper's baseline for this parity, not fitted."""
    return ZafarDP(c=c) if parity == "demographic_parity" else ZafarEO(c=c)


def zafar_name(parity: str) -> str:
    return "Zafar-DP" if parity == "demographic_parity" else "Zafar-EO"


@dataclass(frozen=True)
class Parts:
    """Row numbers of one split."""

    train: np.ndarray
    test: np.ndarray
    fitted: np.ndarray  # of the training part, while η and c are chosen
    validation: np.ndarray  # the rest of it


@dataclass(frozen=True)
class Protocol:
    """Everything a split's results depend on."""

    seed: int = 0
    rows: tuple[Row, ...] = ROWS
    bounds: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: ZAFAR_BOUNDS)

    def parts(self, n: int, split: int) -> Parts:
        """Draw one split of n rows."""
        order = np.random.default_rng([self.seed, split]).permutation(n)
        n_test = round(TEST_SHARE * n)
        train = order[n_test:]
        n_validation = round(VALIDATION_SHARE * len(train))
        return Parts(train, order[:n_test], train[n_validation:], train[:n_validation])

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    @property
    def steps(self) -> int:
        """Paths to be fitted per split, for the progress bar."""
        return 2 * len(PARITIES) * (len(self.rows) + 1)

    def settings(self) -> dict[str, Any]:
        """Return all of it for the record, and to know whether an earlier run can be continued."""
        return {
            "protocol": VERSION,
            "versions": {name: version(name) for name in PACKAGES},
            "seed": self.seed,
            "test_share": TEST_SHARE,
            "validation_share": VALIDATION_SHARE,
            "gamma": GAMMA,
            "machine_tol": MACHINE_TOL,
            "trees": TREES,
            "zafar_accuracy": ZAFAR_ACCURACY,
            "zafar_bounds": {name: list(bounds) for name, bounds in self.bounds.items()},
            "rows": [asdict(row) | {"name": row.name, "etas": list(row.etas)} for row in self.rows],
        }


def features(data: Dataset, fitted: np.ndarray) -> np.ndarray:
    """Return the features of all rows, standardised on the fitted ones."""
    X = data.X.copy()
    for name in STANDARDISED:
        column = X[name].to_numpy(dtype=float)
        X[name] = (column - column[fitted].mean()) / column[fitted].std()
    return X.to_numpy(dtype=float)


def measure(y: np.ndarray, s: np.ndarray, group: np.ndarray, parity: str) -> dict[str, float]:
    """Return every column of the tables."""
    profile = threshold_profile(y, s, sensitive_features=group, parity=parity)
    return {
        "accuracy": float(((s > 0.5) == y).mean()),
        **_gaps(profile),
        "auc": float(roc_auc_score(y, s)),
        "score_sd": float(s.std()),
    }


def _gaps(profile: Any) -> dict[str, float]:
    return {
        "gap": profile.at(0.5),
        "interval": profile.interval(),
        "std": profile.std(),
        "max_gap": profile.max_gap,
        "rank_gap": profile.rank_gap,
    }


def by_chance(
    y: np.ndarray, s: np.ndarray, group: np.ndarray, parity: str, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Measure the gaps, and the curve, of a score under permuted groups: within labels for equalized odds."""
    labels = np.zeros(len(y)) if parity == "demographic_parity" else y
    strata = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    found: dict[str, list[Any]] = {name: [] for name in (*CHANCE_COLUMNS, "curve")}
    for _ in range(PERMUTATIONS):
        permuted = group.copy()
        for rows in strata:
            permuted[rows] = rng.permutation(group[rows])
        profile = threshold_profile(y, s, sensitive_features=permuted, parity=parity)
        for name, value in (_gaps(profile) | {"curve": profile.at(GRID)}).items():
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


def rescaled(s: np.ndarray, sd: float) -> np.ndarray:
    """Return sigmoid(k·g), g the raw score, with the k for which its standard deviation is `sd`.

    Accuracy, the gap at 0.5 and the max gap stay as they were: nobody changes sides and the order is kept.
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    g = logit(s)

    def excess(log_k: float) -> float:
        return float(expit(np.exp(log_k) * g).std()) - sd

    low, high = -np.log(LARGEST_SLOPE), np.log(LARGEST_SLOPE)
    if excess(high) < 0:  # even as 0 and 1 it does not spread that far
        return np.asarray(expit(LARGEST_SLOPE * g))
    if excess(low) > 0:
        return np.asarray(expit(g / LARGEST_SLOPE))
    return np.asarray(expit(np.exp(brentq(excess, low, high, xtol=1e-12)) * g))
