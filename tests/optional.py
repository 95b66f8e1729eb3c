"""Packages that the minimum environment lacks: absent there, required everywhere else."""

import importlib
import os

import pytest


def need(name):
    """Import a package; only in the minimum environment may the test be skipped for want of it."""
    if os.environ.get("EVENRISK_TESTS") == "minimum":
        return pytest.importorskip(name)
    return importlib.import_module(name)
