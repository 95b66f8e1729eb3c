"""What comes into the loss: one entry per score, codes in range, finite numbers.

Conventions
-----------
exponent (1,) float64, a whole number e: weights are in units of 2ᵉ. Their scale says nothing, and their
squares must neither overflow nor vanish; a power of 2 takes no digits off them.
"""

from __future__ import annotations

from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from evenrisk._types import Array
from evenrisk._validation import refuse_masked
from evenrisk._xp import as_array, as_index, cast, namespace, to_numpy

HALF = (torch.float16, torch.bfloat16)
LOWEST = -1022.0  # exponent of float64's least normal number


class Batch(NamedTuple):
    """The rows of one process, in torch or NumPy."""

    g: Array  # (n,) float32 or float64
    group: Array  # (n,) whole numbers
    y: Array | None  # (n,) numbers; None where the rule does not look at them
    weight: Array | None  # (n,) float32 or float64, whatever g is; None where all are 1

    def on_host(self) -> Batch:
        """Give the same rows in NumPy; no copy is made of what is on the host already."""
        return Batch(*(None if x is None else to_numpy(x) for x in self))


def check_batch(scores: Any, groups: Any, y: Any, sample_weight: Any, *, needs_label: bool) -> Batch:
    """Refuse what can be refused without a look at the values, and lay out the rest as torch vectors."""
    if not (isinstance(scores, Tensor) and scores.is_floating_point()):
        came = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"`scores` must be a tensor of floating-point numbers, got {came}")
    if scores.ndim not in (1, 2) or (scores.ndim == 2 and scores.shape[1] != 1):
        raise ValueError(f"`scores` must have shape (n,) or (n, 1), one per row, got {tuple(scores.shape)}")
    if needs_label and y is None:
        raise ValueError("`y` must be given under a parity rule that looks at the label, got None")
    g = _widened(scores.detach().reshape(-1))
    group = _vector("groups", groups, g)
    if group.is_floating_point() or group.is_complex():
        raise ValueError(f"`groups` must be whole numbers, got {group.dtype}")
    label = _vector("y", y, g) if needs_label else None
    weight = None if sample_weight is None else _vector("sample_weight", sample_weight, g)
    if weight is not None and not weight.is_floating_point():
        weight = weight.to(g.dtype)
    return Batch(g, group, label, weight)


def _vector(name: str, values: Any, g: Tensor) -> Tensor:
    """One entry per score, where the scores are."""
    refuse_masked(name, values)
    values = (values if isinstance(values, Tensor) else _tensor(name, values)).to(g.device).detach()
    if values.numel() != g.shape[0]:
        raise ValueError(
            f"`{name}` must have one entry per score, {g.shape[0]}, got shape {tuple(values.shape)}"
        )
    return _widened(values.reshape(-1))


def _tensor(name: str, values: Any) -> Tensor:
    """Numbers of any kind as a tensor; text and other things that are none are refused."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        entries = np.asarray(values, dtype=object).flat
        kind = next((type(each).__name__ for each in entries if not isinstance(each, Number)), "a mixture")
        if name != "groups":
            raise ValueError(f"`{name}` must be numbers, got {kind}") from error
        raise ValueError(
            f"`groups` must be whole numbers, codes from 0 on, got {kind}. Code groups once for all batches, "
            "for example by np.unique(groups, return_inverse=True)[1]"
        ) from error


def _widened(x: Tensor) -> Tensor:
    """Half precision cannot count to 2049."""
    return x.float() if x.dtype in HALF else x


def sound_rows(batch: Batch, n_groups: int) -> Array:
    """Which rows have a finite score, a code in range, a label 0 or 1 and a finite weight, 0 or more (n,)."""
    xp = namespace(batch.g)
    sound = xp.isfinite(batch.g) & (batch.group >= 0) & (batch.group < n_groups)
    if batch.y is not None:
        sound = sound & ((batch.y == 0) | (batch.y == 1))
    if batch.weight is not None:
        sound = sound & xp.isfinite(batch.weight) & (batch.weight >= 0)
    return sound


def emptied(batch: Batch, sound: Array) -> Batch:
    """Put zeros into rows that are not sound: on a device they are only told of when the work is queued."""
    xp = namespace(batch.g)
    g, group, y = (None if x is None else xp.where(sound, x, xp.zeros_like(x)) for x in batch[:3])
    weight = xp.ones_like(batch.g) if batch.weight is None else batch.weight
    return Batch(g, group, y, xp.where(sound, weight, xp.zeros_like(weight)))


def laid_out(batch: Batch, cell_of: Array, n_groups: int) -> tuple[Array, Array, Array]:
    """Give score, cell and weight of each row."""
    xp = namespace(batch.g)
    row = as_index(batch.group)
    row = row if batch.y is None else row + n_groups * as_index(batch.y)
    weight = xp.ones_like(batch.g) if batch.weight is None else batch.weight
    return batch.g, cell_of[row], weight


def magnitude(weight: Array) -> Array:
    """⌊log₂⌋ of the largest weight (1,); the lowest there is where none is above 0."""
    xp = namespace(weight)
    lowest = as_array(np.array([LOWEST]), weight, dtype=xp.float64)
    if weight.shape[0] == 0:
        return lowest
    top = xp.max(cast(weight, xp.float64), axis=0, keepdims=True)
    there = top > 0
    return xp.where(there, xp.floor(xp.log2(xp.where(there, top, xp.ones_like(top)))), lowest)


def in_units(weight: Array, exponent: Array, dtype: Any) -> Array:
    """Give weights (n,) of any size in units of 2ᵉ."""
    xp = namespace(weight)
    return cast(cast(weight, xp.float64) / xp.exp2(exponent), dtype)


def complain(batch: Batch, n_groups: int) -> None:
    """Say what was wrong; some row is not sound."""
    g, group, y, weight = batch.on_host()
    finite = namespace(g).isfinite(g)
    if not finite.all():
        raise ValueError(
            f"`scores` must be finite, got {int((~finite).sum())} of {len(g)} that are not: the network has "
            "diverged. Lower the learning rate or eta"
        )
    if group.min() < 0 or group.max() >= n_groups:
        raise ValueError(
            f"`groups` must be codes from 0 to {n_groups - 1}, got {group.min()} to {group.max()}"
        )
    if y is not None and not ((y == 0) | (y == 1)).all():
        raise ValueError(f"`y` must be 0 or 1, got {y[(y != 0) & (y != 1)][0]}")
    if weight is not None:
        bad = ~((weight >= 0) & (weight < float("inf")))
        raise ValueError(f"`sample_weight` must be finite and 0 or more, got {weight[bad][0]}")
