"""Fair neural networks under scikit-learn's contract; torch is needed to fit them and not to predict."""

from evenrisk.neural_network._classifier import FairMLPClassifier

__all__ = ["FairMLPClassifier"]
