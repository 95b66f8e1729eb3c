"""The processes of torch.distributed, and a value whose gradient is known already."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from evenrisk._xp import Array


class Workers:
    """The processes that share a batch: those of a process group, or all of them for None."""

    def __init__(self, group: Any = None) -> None:
        self.group = group

    def __deepcopy__(self, memo: dict[int, Any]) -> Workers:
        return Workers(self.group)  # a handle, which cannot be copied

    def __len__(self) -> int:
        if not (distributed.is_available() and distributed.is_initialized()):
            return 1
        return max(1, int(distributed.get_world_size(self.group)))  # -1 outside the group: a process alone

    def sum(self, x: Array) -> Array:
        """Return Σ x over all processes."""
        return self._reduced(x, "SUM")

    def max(self, x: Array) -> Array:
        """Return the largest x of all processes."""
        return self._reduced(x, "MAX")

    def _reduced(self, x: Array, operation: str) -> Array:
        if len(self) < 2:
            return x
        total = torch.as_tensor(x).clone()
        distributed.all_reduce(total, op=getattr(distributed.ReduceOp, operation), group=self.group)
        return total if isinstance(x, Tensor) else total.numpy()

    def gather(self, x: Array) -> list[Array]:
        """Return the x of all processes, in the order of their ranks."""
        if len(self) < 2:
            return [x]
        mine = torch.as_tensor(x).contiguous()
        every = [torch.empty_like(mine) for _ in range(len(self))]
        distributed.all_gather(every, mine, group=self.group)
        return every if isinstance(x, Tensor) else [one.numpy() for one in every]


class KnownGradient(torch.autograd.Function):
    """A value whose gradient in the scores is known already.

    Every process has the same value, that of all processes' scores. What is differentiated is the sum of
    their losses, as with all of torch's collectives, so the factors of the value in them are added up.
    """

    @staticmethod
    def forward(context: Any, scores: Tensor, value: Tensor, gradient: Tensor, workers: Workers) -> Tensor:
        context.save_for_backward(gradient)
        context.workers, context.dtype = workers, scores.dtype
        return value.clone()

    @staticmethod
    def backward(context: Any, factor: Tensor) -> tuple[Tensor, None, None, None]:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "ParityLoss can be differentiated once, got a backward pass of create_graph=True"
            )
        (gradient,) = context.saved_tensors
        return (context.workers.sum(factor) * gradient).to(context.dtype), None, None, None
