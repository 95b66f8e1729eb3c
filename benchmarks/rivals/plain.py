"""Plain logistic regression: the reference of all."""

from rivals._protocol import Rival, Score, plain_model, risk_of


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit by scikit-learn's L-BFGS; nothing to set."""
    model = plain_model(len(y)).fit(X, y)
    return [risk_of(model) for _ in settings]


PLAIN = Rival("plain LR", path, {"demographic_parity": (None,), "equalized_odds": (None,)})
