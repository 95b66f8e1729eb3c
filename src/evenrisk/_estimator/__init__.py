"""Where parity, losses, distances and solvers meet: the contract every estimator shares."""

from evenrisk._estimator._base import FairClassifier
from evenrisk._estimator._data import TrainingData, distinct_rows
from evenrisk._estimator._diagnosis import diagnose
from evenrisk._estimator._linear import FairLinearClassifier, LinearScores
from evenrisk._estimator._path import Point
from evenrisk._estimator._penalised import PenalisedClassifier, Problem

__all__ = [
    "FairClassifier",
    "FairLinearClassifier",
    "LinearScores",
    "PenalisedClassifier",
    "Point",
    "Problem",
    "TrainingData",
    "diagnose",
    "distinct_rows",
]
