"""fairlearn's GridSearch: one cost-sensitive logistic regression for each Lagrange multiplier.

Its own grid runs through both signs of every multiplier. Only one of them closes the gap, and the plain
model's gap says which: the settings are sizes of multipliers on that side, up to where the score turns round.
Under equalized odds there is one for each label and all pairs of sizes are settings. The score is
`predict_proba` of the model at that multiplier, so that the benchmark's validation chooses among them and not
GridSearch's rule, which looks at decisions on the training rows.
"""

from itertools import product

import pandas as pd
from fairlearn.reductions import GridSearch

from rivals._fairlearn import CONSTRAINTS, old_pandas
from rivals._protocol import Rival, Score, plain_model, risk_of

SIZES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0, 1.1, 1.2, 1.25, 1.3, 1.35, 1.4)
LEVELS = (0.0, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0)
PAIRS = tuple(sorted(product(LEVELS, repeat=2), key=lambda pair: (sum(pair), pair)))


def path(X, y, groups, settings, *, parity, seed) -> list[Score]:
    """Fit all multipliers as one grid; nothing in the fit is random."""
    constraint, y = CONSTRAINTS[parity](), pd.Series(y)
    with old_pandas():
        constraint.load_data(X, y, sensitive_features=groups)
        directions = _directions(constraint, plain_model(len(y)).fit(X, y))
        grid = pd.DataFrame({i: directions @ _sizes(setting) for i, setting in enumerate(settings)})
        search = GridSearch(plain_model(len(y)), CONSTRAINTS[parity](), grid=grid)
        search.fit(X, y, sensitive_features=groups)
    return [risk_of(model) for model in search.predictors_]


def _sizes(setting) -> list[float]:
    return list(setting) if isinstance(setting, tuple) else [setting]


def _directions(constraint, plain) -> pd.DataFrame:
    """Return a column for each event: 1 where the plain model violates the first group's constraint."""
    violation = constraint.gamma(plain.predict)
    first = violation.index.get_level_values(2).min()
    events = violation.index.get_level_values(1).unique().sort_values()
    directions = pd.DataFrame(0.0, index=violation.index, columns=range(len(events)))
    for column, event in enumerate(events):
        sign = "+" if violation[("+", event, first)] > 0 else "-"
        directions.loc[(sign, event, first), column] = 1.0
    return directions


GRID_SEARCH = Rival("fairlearn GridSearch", path, {"demographic_parity": SIZES, "equalized_odds": PAIRS})
