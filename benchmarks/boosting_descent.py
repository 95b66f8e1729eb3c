"""Whether the training objective of a fair booster ever rises from one round to the next.

500 rounds on Adult (one-hot, 70 %), learning rate 0.1, from η = 1 to 100. No change may be above 0.
"""

import warnings
from itertools import product

import numpy as np

from _data import adult, train_test
from _report import option_parser, print_table, results_file
from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier

KINDS = (FairLGBMClassifier, FairXGBClassifier)
PARITIES = ("demographic_parity", "equalized_odds")


def lines(rounds):
    (X, y, groups), _ = train_test(*adult(), 0)
    for kind, parity, distance, eta in product(KINDS, PARITIES, ("gap", "histogram"), (1, 10, 100)):
        settings = {"n_estimators": rounds, "learning_rate": 0.1, "n_jobs": 1}
        model = kind(parity, distance=distance, eta=eta, **settings)
        curve = model.fit(X, y, sensitive_features=groups).objective_curve_
        ends = f"{curve[0]:.4f}", f"{curve[-1]:.4f}", f"{np.diff(curve).max():+.1e}"
        yield [kind.__name__, parity.replace("_", " "), distance, eta, *ends]


def main() -> None:
    parser = option_parser(__doc__, "20 rounds")
    args = parser.parse_args()
    rounds = 20 if args.quick else 500
    warnings.simplefilter("ignore")
    with results_file(parser, args):
        changed = f"largest change in {rounds} rounds"
        print_table(["model", "parity", "distance", "η", "first", "last", changed], lines(rounds))


if __name__ == "__main__":
    main()
