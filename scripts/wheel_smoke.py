"""Run by `make test-wheel` with the interpreter of an empty environment: the wheel holds all it needs."""

import evenrisk
from evenrisk import FairLogisticRegression, threshold_profile
from evenrisk.datasets import load_adult, load_compas

assert "site-packages" in evenrisk.__file__, evenrisk.__file__
X, y, race = load_compas()
assert X.shape == (5278, 4)
assert load_adult().X.shape[0] == 48_842
plain = FairLogisticRegression(eta=0).fit(X, y)
fair = FairLogisticRegression(eta=10).fit(X, y, sensitive_features=race)
gaps = [
    threshold_profile(y, clf.predict_proba(X)[:, 1], sensitive_features=race).max_gap for clf in (plain, fair)
]
assert gaps[0] > 0.25, gaps
assert gaps[1] < 0.12, gaps
print(f"evenrisk {evenrisk.__version__} from a wheel: max gap {gaps[0]:.3f} → {gaps[1]:.3f}")
