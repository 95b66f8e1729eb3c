"""Where parity, losses, distances and solvers meet: what every estimator shares."""

from evenrisk._estimator._contract import (
    FairClassifier,
    PenalisedClassifier,
    TrainingData,
    all_or_nothing,
    diagnose,
    distinct_rows,
    forget,
)
from evenrisk._estimator._path import PathPoint, SolverSettings, eta_path, intermediate_etas
from evenrisk._estimator._unseen import FOLDS, left_out_scores

__all__ = [
    "FOLDS",
    "FairClassifier",
    "PathPoint",
    "PenalisedClassifier",
    "SolverSettings",
    "TrainingData",
    "all_or_nothing",
    "diagnose",
    "distinct_rows",
    "eta_path",
    "forget",
    "intermediate_etas",
    "left_out_scores",
]
