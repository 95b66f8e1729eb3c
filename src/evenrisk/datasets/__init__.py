"""Two small data sets, shipped with the package: nothing is downloaded.

Each has a data card (`Dataset.description`) that says where the data come from, what is wrong with them and
what they must not be used for.
"""

from evenrisk.datasets._loaders import Dataset, load_adult, load_compas

__all__ = ["Dataset", "load_adult", "load_compas"]
