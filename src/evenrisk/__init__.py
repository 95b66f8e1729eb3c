"""evenrisk: risk scores that are fair at every threshold."""

__version__ = "0.1.0.dev0"
