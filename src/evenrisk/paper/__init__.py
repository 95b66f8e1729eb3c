"""The paper's experiment on COMPAS, made of public parts only."""

from evenrisk.paper.protocol import METHODS, Experiment, Method, run_experiment

__all__ = ["METHODS", "Experiment", "Method", "run_experiment"]
