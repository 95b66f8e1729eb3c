"""Fair support vector machines: linear, and with a kernel."""

from evenrisk.svm._kernel import FairKernelSVC
from evenrisk.svm._linear import FairLinearSVC

__all__ = ["FairKernelSVC", "FairLinearSVC"]
