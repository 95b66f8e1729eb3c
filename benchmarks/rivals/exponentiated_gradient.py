"""fairlearn's ExponentiatedGradient: a mixture of classifiers whose decisions are fair on average.

Its score is the chance that its randomised `predict` says yes, Σ_t weight_t·decision_t(x): few distinct
values, but all that it offers. The setting is `difference_bound`; all else stays at fairlearn's defaults. It
stops when its duality gap is under its threshold `nu`, after 6 to 10 rounds of the 50 it may take; with `nu`
at 1e-4 and 200 rounds six of eight mixtures were the same, and two traded some AUC for a smaller gap.
"""

from fairlearn.reductions import ExponentiatedGradient

from rivals._fairlearn import CONSTRAINTS, old_pandas
from rivals._protocol import Rival, Score, plain_model

BOUNDS = (0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005)


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit a mixture for each bound; nothing in the fit is random."""
    return [_mixture(X, y, groups, CONSTRAINTS[parity](difference_bound=bound)) for bound in settings]


def _mixture(X, y, groups, constraint) -> Score:
    mixture = ExponentiatedGradient(plain_model(len(y)), constraint)
    with old_pandas():
        mixture.fit(X, y, sensitive_features=groups)
    return lambda X, groups: mixture._pmf_predict(X)[:, 1].clip(0, 1)  # a sum of weights may round above 1


EXPONENTIATED_GRADIENT = Rival(
    "fairlearn ExponentiatedGradient",
    path,
    {"demographic_parity": BOUNDS, "equalized_odds": BOUNDS},
    randomised=True,
)
