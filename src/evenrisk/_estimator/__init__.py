"""Where parity, losses, distances and solvers meet: the contract every estimator shares."""

from evenrisk._estimator._base import FairClassifier
from evenrisk._estimator._data import TrainingData
from evenrisk._estimator._linear import FairLinearClassifier, LinearScores
from evenrisk._estimator._penalised import PenalisedClassifier

__all__ = ["FairClassifier", "FairLinearClassifier", "LinearScores", "PenalisedClassifier", "TrainingData"]
