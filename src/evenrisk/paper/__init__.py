"""The paper's experiment on COMPAS, made of public parts only."""

from evenrisk.paper.output import foreign_files, write_results
from evenrisk.paper.protocol import Protocol
from evenrisk.paper.runner import load_all, run
from evenrisk.paper.summary import Experiment, summarise
from evenrisk.paper.tables import print_tables

__all__ = [
    "Experiment",
    "Protocol",
    "foreign_files",
    "load_all",
    "print_tables",
    "run",
    "summarise",
    "write_results",
]
