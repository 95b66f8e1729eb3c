"""The penalty as one more term of a loss."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenrisk._types import Array, Cells
from evenrisk._validation import check_flag, check_member, check_number
from evenrisk._xp import namespace
from evenrisk.distances import DISTANCES, Distance
from evenrisk.nn._batch import Comparison
from evenrisk.nn._inputs import (
    Batch,
    check_batch,
    complain,
    emptied,
    in_units,
    laid_out,
    magnitude,
    sound_rows,
)
from evenrisk.nn._memory import CellMemory
from evenrisk.nn._workers import Graft, largest
from evenrisk.parity import PARITIES, Parity, cell_codes

Rows = tuple[Array, Array, Array, Array]  # score, cell and weight of each, and the weights' exponent


class ParityLoss(nn.Module):
    """E_f of a batch, to be added to any loss: ``loss = bce(g, y) + eta * parity(g, groups, y)``.

    A cell that is missing from the batch contributes nothing. Neither does a cell of one row where two are
    needed, for the unbiased form and for the variance of the gaussian distance.

    Parameters
    ----------
    distance : {"gap", "histogram", "gaussian"} or Distance, default="gap"
        How two cells' score distributions are compared.
    parity : str or Parity, default="demographic_parity"
        Who is compared with whom: "demographic_parity", "equalized_odds", "equal_opportunity" or
        "predictive_equality".
    n_groups : int, default=2
        Number of groups in the whole data; a batch may hold fewer.
    unbiased : bool, default=None
        Whether to take the form whose mean over batches does not depend on their size; it can be below 0 on
        one batch. None: wherever there is one, which is for ``GapDistance`` on the score scale with power 2.
        The other distances see mostly noise in cells of some tens of rows: use large batches or a `memory`.
    memory : int, default=0
        A cell with fewer rows than this in a batch is filled up with its most recent scores, up to this
        number, in train mode and with gradients enabled. They are compared with and not learned from. Rows of
        unequal weight count as (Σw)²/Σw². Keep it below the rows of the smallest cell: a memory that holds a
        row twice takes it for two people.
    process_group : optional
        The processes of ``torch.distributed`` to add up over; None is all of them.

    Notes
    -----
    Under ``torch.distributed`` the sums of the cells are added up over all processes, so that each has the
    penalty of the global batch; all must call it equally often. What is differentiated is the sum of the
    processes' losses, and `DistributedDataParallel` takes the mean of their gradients: the line above is
    right as it is, and yields the gradient of the global batch's penalty. (The mean loss beside it is the
    global mean only if all processes have equally many rows.) Without `DistributedDataParallel`, take the
    mean of the gradients over the processes.

    Under ``torch.compile`` values cannot be looked at: scores that are not finite and codes out of range,
    which otherwise raise an error, make the penalty and its gradient NaN. The penalty can be differentiated
    once, and not by the transforms of ``torch.func``.

    Examples
    --------
    >>> import torch
    >>> from evenrisk.nn import ParityLoss
    >>> parity = ParityLoss()
    >>> g = torch.tensor([2.0, 1.0, 0.5, -0.5, -1.0, -2.0], requires_grad=True)
    >>> groups = torch.tensor([0, 0, 0, 1, 1, 1])
    >>> loss = parity(g, groups)
    >>> loss.backward()
    >>> bool(loss > 0), bool((g.grad[:3] > 0).all())  # downhill, group 0 comes down
    (True, True)
    """

    pairs: Tensor  # see Comparison
    cell_of: Tensor  # (k,) or (2k,): the cell of label·k + group

    def __init__(
        self,
        distance: str | Distance = "gap",
        parity: str | Parity = "demographic_parity",
        n_groups: int = 2,
        *,
        unbiased: bool | None = None,
        memory: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.distance: Distance = check_member("distance", distance, DISTANCES, Distance)
        self.parity: Parity = check_member("parity", parity, PARITIES, Parity)
        self.n_groups = int(check_number("n_groups", n_groups, low=2, whole=True))
        self.unbiased = _check_unbiased(unbiased, self.distance)
        size = int(check_number("memory", memory, low=0, whole=True))
        self.process_group = process_group
        n_strata = len(self.parity.strata)
        self.n_cells = n_strata * self.n_groups
        self._comparison = Comparison(self.distance, n_strata, self.n_groups, self.unbiased, process_group)
        self.register_buffer("pairs", torch.from_numpy(self._comparison.pairs), persistent=False)
        self.register_buffer(
            "cell_of", torch.from_numpy(_cell_of(self.parity, self.n_groups)), persistent=False
        )
        self.memory = CellMemory(self.n_cells, size) if size else None

    def __deepcopy__(self, memo: dict[int, Any]) -> ParityLoss:
        if self.process_group is not None:
            memo[id(self.process_group)] = self.process_group  # a handle that cannot be copied
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        new.__dict__ = deepcopy(self.__dict__, memo)
        return new

    def extra_repr(self) -> str:
        settings = f"parity={self.parity.name!r}, n_groups={self.n_groups}, unbiased={self.unbiased}"
        return f"{self.distance!r}, {settings}"

    def forward(
        self, scores: Tensor, groups: Tensor, y: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Give E_f of the batch.

        Parameters
        ----------
        scores : Tensor of shape (n,) or (n, 1)
            Raw scores (logits).
        groups : Tensor of shape (n,)
            Group codes, 0 … n_groups − 1.
        y : Tensor of shape (n,), default=None
            Labels in {0, 1}; not needed under demographic parity.
        sample_weight : Tensor of shape (n,), default=None
            Weight of each row.

        Returns
        -------
        Tensor
            A scalar, in float32 at the least.
        """
        batch = check_batch(scores, groups, y, sample_weight, needs_label=self.parity.needs_label)
        memory = self.memory if self.training and torch.is_grad_enabled() else None
        with torch.no_grad():
            if stays_in_torch(scores):
                rows, value, gradient = self._on_device(batch, memory)
            else:
                rows, number, row_gradient = self._on_host(batch.on_host(), memory)
                value = torch.tensor(float(number), dtype=batch.g.dtype, device=batch.g.device)
                gradient = torch.from_numpy(row_gradient).to(batch.g)
            if memory is not None:
                memory.remember(*rows, self.process_group)
        if not (torch.is_grad_enabled() and scores.requires_grad):
            return value
        return Graft.apply(scores, value, gradient.reshape(scores.shape), self.process_group)

    def _on_host(self, batch: Batch, memory: CellMemory | None) -> tuple[Rows, Array, Array]:
        if not sound_rows(batch, self.n_groups).all():
            complain(batch, self.n_groups)
        rows = self._in_units(*laid_out(batch, self.cell_of.cpu().numpy(), self.n_groups), memory)
        return rows, *self._evaluate(rows, self.pairs.cpu().numpy(), memory)

    def _on_device(self, batch: Batch, memory: CellMemory | None) -> tuple[Rows, Array, Array]:
        device = batch.g.device
        sound = sound_rows(batch, self.n_groups)
        all_sound = sound.all()
        with torch.autocast(device.type, enabled=False):
            laid = laid_out(emptied(batch, sound), self.cell_of.to(device), self.n_groups)
            rows = self._in_units(*laid, memory)
            value, gradient = self._evaluate(rows, self.pairs.to(device), memory)
        if torch.compiler.is_compiling():  # a look at values would break the graph
            value = torch.where(all_sound, value, torch.nan)
            gradient = torch.where(all_sound, gradient, torch.nan)
        elif not bool(all_sound):  # the one time that the host waits: all kernels are queued
            complain(batch, self.n_groups)
        return rows, value, gradient

    def _in_units(self, g: Array, code: Array, weight: Array, memory: CellMemory | None) -> Rows:
        """Put the weights into units of the largest that anybody has, in a batch or in the memory."""
        exponent = largest(magnitude(weight), self.process_group)
        if memory is not None:
            exponent = namespace(exponent).maximum(exponent, memory.magnitude(g))
        return g, code, in_units(weight, exponent, g.dtype), exponent

    def _evaluate(self, rows: Rows, pairs: Array, memory: CellMemory | None) -> tuple[Array, Array]:
        g, code, weight, exponent = rows
        cells = Cells(code, weight, self.n_cells, pairs, None)
        return self._comparison.evaluate(g, cells, memory, exponent)


def stays_in_torch(scores: Tensor) -> bool:
    """Whether to compute where the scores are; on a CPU, NumPy is several times quicker at small arrays."""
    return torch.compiler.is_compiling() or scores.is_cuda


def _check_unbiased(unbiased: bool | None, distance: Distance) -> bool:
    """Let the unbiased form pass where the distance has one; None means wherever it has."""
    has_norm = distance.norms(np.zeros(1)) is not None
    if unbiased is None:
        return has_norm
    check_flag("unbiased", unbiased)
    if unbiased and not has_norm:
        raise ValueError(
            "`unbiased` must be False or None for a distance that is not the squared norm of a difference of "
            f"means, got True with {distance!r}"
        )
    return bool(unbiased)


def _cell_of(parity: Parity, n_groups: int) -> np.ndarray:
    """Ask the rule once: the cell of label·k + group for either label, or of each group if none matters."""
    labels = 2 if parity.needs_label else 1
    group = np.tile(np.arange(n_groups), labels)
    code = cell_codes(parity, np.repeat(np.arange(labels), n_groups), group, n_groups)
    if code.min() < -1 or code.max() >= len(parity.strata) * n_groups:
        raise ValueError(
            f"`parity` must map labels to strata from -1 to {len(parity.strata) - 1}, got {parity.name!r} "
            f"with cells {code.tolist()} of {n_groups} groups"
        )
    return np.asarray(code)
