"""Sums over the processes of torch.distributed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

from evenrisk._xp import Array


def workers(group: Any = None) -> int:
    """Return how many processes share the batch."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size(group))


def summed(x: Array, group: Any = None) -> Array:
    """Return Σ x over all processes; x itself where there is one."""
    if workers(group) < 2:
        return x
    total = torch.as_tensor(x).clone()
    distributed.all_reduce(total, group=group)
    return total if isinstance(x, Tensor) else total.numpy()


def largest(x: Array, group: Any = None) -> Array:
    """Return the largest x of all processes; x itself where there is one."""
    if workers(group) < 2:
        return x
    top = torch.as_tensor(x).clone()
    distributed.all_reduce(top, op=distributed.ReduceOp.MAX, group=group)
    return top if isinstance(x, Tensor) else top.numpy()


def gathered(x: Array, group: Any = None) -> list[Array]:
    """Return the x of all processes, in the order of their ranks."""
    if workers(group) < 2:
        return [x]
    mine = torch.as_tensor(x).contiguous()
    every = [torch.empty_like(mine) for _ in range(workers(group))]
    distributed.all_gather(every, mine, group=group)
    return every if isinstance(x, Tensor) else [one.numpy() for one in every]


class Graft(torch.autograd.Function):
    """A value whose gradient in the scores is known already.

    Every process has the same value, that of all processes' scores. What is differentiated is the sum of
    their losses, as with all of torch's collectives, so the factors of the value in them are added up.
    """

    @staticmethod
    def forward(context: Any, scores: Tensor, value: Tensor, gradient: Tensor, group: Any) -> Tensor:
        context.save_for_backward(gradient)
        context.group, context.dtype = group, scores.dtype
        return value.clone()

    @staticmethod
    def backward(context: Any, factor: Tensor) -> tuple[Tensor, None, None, None]:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "ParityLoss can be differentiated once, got a backward pass of create_graph=True"
            )
        (gradient,) = context.saved_tensors
        return (summed(factor, context.group) * gradient).to(context.dtype), None, None, None
