"""fairlearn's ThresholdOptimizer: randomised cut-offs of a plain score, one pair for each group.

Its score is the chance that its `predict` says yes. Under demographic parity the setting is `tol`, the
difference of rates it lets stand (None: none); under equalized odds it has no such setting.
"""

from fairlearn.postprocessing import ThresholdOptimizer

from rivals._protocol import Rival, Score, plain_model

TOLERANCES = (0.2, 0.1, 0.05, 0.02, None)


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit the plain model once and its cut-offs for every tolerance; nothing in the fit is random."""
    plain = plain_model(len(y)).fit(X, y)
    return [_cut(plain, X, y, groups, parity, tol) for tol in settings]


def _cut(plain, X, y, groups, parity, tol) -> Score:
    cut = ThresholdOptimizer(
        estimator=plain, constraints=parity, prefit=True, predict_method="predict_proba", tol=tol
    ).fit(X, y, sensitive_features=groups)
    return lambda X, groups: cut._pmf_predict(X, sensitive_features=groups)[:, 1].clip(0, 1)


THRESHOLD_OPTIMIZER = Rival(
    "fairlearn ThresholdOptimizer",
    path,
    {"demographic_parity": TOLERANCES, "equalized_odds": (None,)},
    aware=True,
    randomised=True,
)
