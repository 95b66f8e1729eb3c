"""The penalty in a PyTorch loop: one more term of the loss, unbiased in mini-batches.

Conventions
-----------
scores (n,) raw scores (logits) g of a batch; groups (n,) integer codes 0 … n_groups − 1; y (n,) in {0, 1}. A
*cell* is one group inside one stratum of the parity rule.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    from evenrisk._validation import install_hint

    raise ImportError(f"evenrisk.nn needs torch: {install_hint('torch', 'torch')}") from error

from evenrisk.nn._loss import ParityLoss
from evenrisk.nn._sampler import ParityBatchSampler

__all__ = ["ParityBatchSampler", "ParityLoss"]
