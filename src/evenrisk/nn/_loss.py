"""The penalty as one more term of a loss: `ParityLoss`, the checks of its input, and E_f of a batch.

A batch is noisy: with few rows the squared gap between two equal groups is far from 0 on average, and a
network would learn to reduce that. So the variance of a cell's mean m may be taken off its squared
norm:

    ‖m‖² − W2/(W² − W2)·(Q/W − ‖m‖²) = ‖m‖² + ‖m‖²·W2/(W² − W2) − Q·W2/W/(W² − W2).

Where all weights are equal this is the mean over pairs of *different* rows (a U-statistic), whose expectation
does not depend on the size of the batch. Where they are not it still depends on differences of scores alone.
The second term is a comparison with a zero cell, ψ = 0. So all of it is the core's penalty with a few more
pairs, less the sum of the third.

Conventions
-----------
c cells, u unions of cells, or the cells themselves where none are named; p entries of ψ. psi (u, p) sums of
wψ; W, W2, Q (u,) sums of w, w² and w‖Φ‖²; m = psi/W. *Known*
are the rows of the batch and those remembered. The penalty is that of all known rows, and its slope that in
the mean of the batch's own: a remembered score is compared with and not learned from. Arrays are NumPy's or
torch's; weights are in units of 2^exponent, see `_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from evenrisk._validation import (
    Comparison,
    Groups,
    check_flag,
    check_groups,
    check_member,
    check_number,
    check_weight,
    count_rows,
    refuse_masked,
)
from evenrisk._xp import (
    Array,
    Cells,
    Sums,
    arange,
    as_index,
    cast,
    concat,
    namespace,
    segment_sum,
    take,
    to_numpy,
)
from evenrisk.distances import DISTANCES, Distance, cell_sum, cell_weights, penalty, psi_sums
from evenrisk.nn._memory import CellMemory, in_units, magnitude
from evenrisk.nn._workers import KnownGradient, Workers
from evenrisk.parity import PARITIES, Contrasts, Parity, cell_codes, contrasts_of

HALF_PRECISION = (torch.float16, torch.bfloat16)
MORE_THAN_ONE_ROW = 1e-3  # of W²: what W² − W2 is above in a cell that is more than one row


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
    contrasts : Contrasts, default=None
        Which unions of groups are compared; None is every pair of groups. `for_groups` makes them.
    probabilities : bool, default=False
        Whether `groups` will hold the probability of each group, (n, n_groups), instead of codes.
    unbiased : bool, default=None
        Whether to take the form whose mean over batches does not depend on their size; it can be below 0 on
        one batch. None: wherever there is one, which is for ``GapDistance`` on the score scale with power 2.
        The other distances see mostly noise in cells of some tens of rows: use large batches or a `memory`.
    memory : int, default=0
        A cell with fewer rows than this in a batch is filled up with its most recent scores, up to this
        number, in train mode and with gradients enabled. They are compared with and not learned from. Rows of
        unequal weight count as (Σw)²/Σw². Keep it below the rows of the smallest cell: a memory that holds a
        row twice takes it for two people. It must be 0 with probabilities and with unions of groups.
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

    pairs: Tensor  # see BatchComparison
    pair_weight: Tensor
    unions: Tensor | None
    cell_of: Tensor  # (k,) or (2k,): the cell of label·k + group

    def __init__(
        self,
        distance: str | Distance = "gap",
        parity: str | Parity = "demographic_parity",
        n_groups: int = 2,
        *,
        contrasts: Contrasts | None = None,
        probabilities: bool = False,
        unbiased: bool | None = None,
        memory: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.distance: Distance = check_member("distance", distance, DISTANCES, Distance)
        self.parity: Parity = check_member("parity", parity, PARITIES, Parity)
        self.n_groups = int(check_number("n_groups", n_groups, low=2, whole=True))
        check_flag("probabilities", probabilities)
        self.probabilities = bool(probabilities)
        self.unbiased = _check_unbiased(unbiased, self.distance, soft=self.probabilities)
        size = int(check_number("memory", memory, low=0, whole=True))
        if size and self.probabilities:
            raise ValueError(
                f"`memory` must be 0 with probabilities=True, got {size}: a row is in every group"
            )
        if size and contrasts is not None and (contrasts.unions.sum(axis=1) > 1).any():
            raise ValueError(
                f"`memory` must be 0 where unions of groups are compared, got {size}: every group is filled "
                "up to this number, and a union would no longer be made of its groups as the data are"
            )
        self._workers = Workers(process_group)
        n_strata = len(self.parity.strata)
        self.n_cells = n_strata * self.n_groups
        every = _in_strata(contrasts, n_strata, self.n_groups)
        self._comparison = BatchComparison(self.distance, len(every.unions), self.unbiased, self._workers)
        pairs = np.vstack([every.pairs, self._comparison.with_zero])
        self.register_buffer("pairs", torch.from_numpy(pairs), persistent=False)
        self._weights = torch.from_numpy(every.weight)
        self.register_buffer("pair_weight", self._weights, persistent=False)
        unions = None if contrasts is None else torch.from_numpy(every.unions.astype(np.int64))
        self.register_buffer("unions", unions, persistent=False)
        self.register_buffer(
            "cell_of", torch.from_numpy(_cell_of(self.parity, self.n_groups)), persistent=False
        )
        self.memory = CellMemory(self.n_cells, size) if size else None

    @classmethod
    def for_groups(
        cls,
        sensitive_features: Any,
        comparison: str | Comparison = "crossed",
        *,
        sample_weight: Any = None,
        **settings: Any,
    ) -> tuple[Self, Tensor]:
        """Return the penalty of some people's groups, and the codes of these people to call it with.

        Parameters
        ----------
        sensitive_features : array-like of shape (n,) or (n, m)
            The group of each row, in one column or several.
        comparison : str or Comparison, default="crossed"
            Which groups are compared, as in the estimators.
        sample_weight : array-like of shape (n,), default=None
            Weight of each row; it counts where cuts are chosen and groups are left out.
        **settings
            Of the constructor.

        Returns
        -------
        ParityLoss
            The penalty.
        Tensor of shape (n,) or (n, k)
            The code of each row, or the probabilities of its groups: the `groups` of the call.

        Examples
        --------
        >>> from evenrisk import Comparison
        >>> from evenrisk.nn import ParityLoss
        >>> age = [23, 31, 35, 44, 52, 67]
        >>> parity, codes = ParityLoss.for_groups(age, Comparison(ordered={0: [30, 50]}))
        >>> codes.tolist()
        [0, 1, 1, 1, 2, 2]
        """
        n = count_rows(sensitive_features)
        weight = check_weight(sample_weight, n)
        groups = check_groups(sensitive_features, n, comparison=comparison, weight=weight)
        return cls.of_groups(groups, **settings), torch.from_numpy(
            groups.code.astype(np.int64) if groups.share is None else groups.share
        )

    @classmethod
    def of_groups(cls, groups: Groups, **settings: Any) -> Self:
        """Return the penalty of groups that have been checked."""
        contrasts, soft = contrasts_of(groups), groups.share is not None
        return cls(n_groups=len(groups.labels), contrasts=contrasts, probabilities=soft, **settings)

    @property
    def process_group(self) -> Any:
        """The processes of ``torch.distributed`` to add up over; None is all of them."""
        return self._workers.group

    @process_group.setter
    def process_group(self, group: Any) -> None:
        self._workers.group = group

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        # a change of precision is meant for what is learned
        self.pair_weight = self._weights.to(self.pairs.device)
        return self

    def extra_repr(self) -> str:
        settings = f"parity={self.parity.name!r}, n_groups={self.n_groups}, unbiased={self.unbiased}"
        return f"{self.distance!r}, {settings}"

    def forward(
        self, scores: Tensor, groups: Tensor, y: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return E_f of the batch.

        Parameters
        ----------
        scores : Tensor of shape (n,) or (n, 1)
            Raw scores (logits).
        groups : Tensor of shape (n,) or (n, n_groups)
            Group codes, 0 … n_groups − 1; with ``probabilities=True`` the probability of each group, 0 in all
            of them for a row that is not to be compared.
        y : Tensor of shape (n,), default=None
            Labels in {0, 1}; not needed under demographic parity.
        sample_weight : Tensor of shape (n,), default=None
            Weight of each row.

        Returns
        -------
        Tensor
            A scalar, in float32 at the least.
        """
        soft = self.n_groups if self.probabilities else None
        batch = check_batch(
            scores, groups, y, sample_weight, needs_label=self.parity.needs_label, n_shares=soft
        )
        memory = self.memory if self.training and torch.is_grad_enabled() else None
        with torch.no_grad():
            if stays_in_torch(scores):
                rows, value, gradient = self._on_device(batch, memory)
            else:
                rows, number, row_gradient = self._on_host(batch.on_host(), memory)
                value = torch.tensor(float(number), dtype=batch.g.dtype, device=batch.g.device)
                gradient = torch.from_numpy(row_gradient).to(batch.g)
            if memory is not None:
                memory.remember(*rows, self._workers)
        if not (torch.is_grad_enabled() and scores.requires_grad):
            return value
        return KnownGradient.apply(scores, value, gradient.reshape(scores.shape), self._workers)

    def _on_host(self, batch: ScoreBatch, memory: CellMemory | None) -> tuple[WeightedScores, Array, Array]:
        if not valid_rows(batch, self.n_groups).all():
            raise_invalid(batch, self.n_groups)
        checked = cells_and_weights(batch, self.cell_of.cpu().numpy(), self.n_groups)
        rows = self._in_units(*checked, memory)
        return rows, *self._evaluate(rows, batch.share, lambda x: None if x is None else to_numpy(x), memory)

    def _on_device(self, batch: ScoreBatch, memory: CellMemory | None) -> tuple[WeightedScores, Array, Array]:
        device = batch.g.device
        valid = valid_rows(batch, self.n_groups)
        all_valid = valid.all()
        with torch.autocast(device.type, enabled=False):
            checked = cells_and_weights(zeroed(batch, valid), self.cell_of.to(device), self.n_groups)
            rows = self._in_units(*checked, memory)
            share = zeroed(batch, valid).share
            value, gradient = self._evaluate(
                rows, share, lambda x: None if x is None else x.to(device), memory
            )
        if torch.compiler.is_compiling():  # a look at values would break the graph
            value = torch.where(all_valid, value, torch.nan)
            gradient = torch.where(all_valid, gradient, torch.nan)
        elif not bool(all_valid):  # the one time that the host waits: all kernels are queued
            raise_invalid(batch, self.n_groups)
        return rows, value, gradient

    def _in_units(self, g: Array, code: Array, weight: Array, memory: CellMemory | None) -> WeightedScores:
        """Return the rows with weights in units of the largest one of all processes and the memory."""
        exponent = self._workers.max(magnitude(weight))
        if memory is not None:
            exponent = namespace(exponent).maximum(exponent, memory.magnitude(g))
        return WeightedScores(g, code, in_units(weight, exponent, g.dtype), exponent)

    def _evaluate(
        self,
        rows: WeightedScores,
        share: Array | None,
        here: Callable[[Any], Any],
        memory: CellMemory | None,
    ) -> tuple[Array, Array]:
        """Evaluate the rows; `here` brings the tables to where they are."""
        cells = Cells(
            rows.code,
            rows.weight,
            self.n_cells,
            here(self.pairs),
            cast(here(self.pair_weight), rows.g.dtype),
            share=None if share is None else cast(share, rows.g.dtype),
            unions=here(self.unions),
        )
        return self._comparison.evaluate(rows.g, cells, memory, rows.exponent)


def stays_in_torch(scores: Tensor) -> bool:
    """Whether to compute where the scores are; on a CPU, NumPy is several times faster at small arrays."""
    return torch.compiler.is_compiling() or scores.is_cuda


def _in_strata(contrasts: Contrasts | None, n_strata: int, n_groups: int) -> Contrasts:
    """Return what is compared, of the cells of all strata."""
    if contrasts is None:
        return Contrasts.every_pair(n_groups).in_strata(n_strata)
    if not isinstance(contrasts, Contrasts) or contrasts.unions.shape[1] != n_groups:
        came = f"of {contrasts.unions.shape[1]}" if isinstance(contrasts, Contrasts) else repr(contrasts)
        raise ValueError(f"`contrasts` must be Contrasts of {n_groups} groups, got {came:.60}")
    return contrasts.in_strata(n_strata)


def _check_unbiased(unbiased: bool | None, distance: Distance, *, soft: bool = False) -> bool:
    """Return whether to take the unbiased form; None means wherever the distance has one."""
    if soft and unbiased:
        raise ValueError(
            "`unbiased` must be False or None with probabilities=True, got True: a row is in both of the "
            "groups that are compared"
        )
    has_norm = distance.traits.norms and not soft
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
    """Return the cell of label·k + group for either label, or of each group where labels do not matter."""
    labels = 2 if parity.needs_label else 1
    group = np.tile(np.arange(n_groups), labels)
    code = cell_codes(parity, np.repeat(np.arange(labels), n_groups), group, n_groups)
    if code.min() < -1 or code.max() >= len(parity.strata) * n_groups:
        raise ValueError(
            f"`parity` must map labels to strata from -1 to {len(parity.strata) - 1}, got {parity.name!r} "
            f"with cells {code.tolist()} of {n_groups} groups"
        )
    return np.asarray(code)


# ---------------------------------------------------------------- input


class ScoreBatch(NamedTuple):
    """The rows of one process, in torch or NumPy."""

    g: Array  # (n,) float32 or float64
    group: Array  # (n,) whole numbers
    y: Array | None  # (n,) numbers; None where the rule does not look at them
    weight: Array | None  # (n,) float32 or float64, whatever g is; None where all are 1
    share: Array | None = None  # (n, k) of each group; `group` is then 0 everywhere

    def on_host(self) -> ScoreBatch:
        """Return the same rows in NumPy; no copy is made of what is on the host already."""
        return ScoreBatch(*(None if x is None else to_numpy(x) for x in self))


class WeightedScores(NamedTuple):
    """Rows that have been checked: score, cell and weight of each (n,), and the weights' exponent."""

    g: Array
    code: Array
    weight: Array
    exponent: Array


def check_batch(
    scores: Any,
    groups: Any,
    y: Any,
    sample_weight: Any,
    *,
    needs_label: bool,
    n_shares: int | None = None,
) -> ScoreBatch:
    """Return the rows as torch vectors; refuse what can be refused without a look at the values."""
    if not (isinstance(scores, Tensor) and scores.is_floating_point()):
        came = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"`scores` must be a tensor of floating-point numbers, got {came}")
    if scores.ndim not in (1, 2) or (scores.ndim == 2 and scores.shape[1] != 1):
        raise ValueError(f"`scores` must have shape (n,) or (n, 1), one per row, got {tuple(scores.shape)}")
    if needs_label and y is None:
        raise ValueError("`y` must be given under a parity rule that looks at the label, got None")
    g = _widened(scores.detach().reshape(-1))
    group, share = _group_or_share(groups, g, n_shares)
    label = _vector("y", y, g) if needs_label else None
    weight = None if sample_weight is None else _vector("sample_weight", sample_weight, g)
    if weight is not None and not weight.is_floating_point():
        weight = weight.to(g.dtype)
    return ScoreBatch(g, group, label, weight, share)


def _group_or_share(groups: Any, g: Tensor, n_shares: int | None) -> tuple[Tensor, Tensor | None]:
    """Return a code per row, or zeros and the probabilities of the groups."""
    if n_shares is None:
        group = _vector("groups", groups, g)
        if group.is_floating_point() or group.is_complex():
            raise ValueError(f"`groups` must be whole numbers, got {group.dtype}")
        return group, None
    refuse_masked("groups", groups)
    share = (groups if isinstance(groups, Tensor) else _tensor("groups", groups)).to(g.device).detach()
    if tuple(share.shape) != (g.shape[0], n_shares):
        raise ValueError(
            f"`groups` must have shape {(g.shape[0], n_shares)}, a probability of each group, got "
            f"{tuple(share.shape)}"
        )
    return torch.zeros(g.shape[0], dtype=torch.int64, device=g.device), _widened(share)


def _vector(name: str, values: Any, g: Tensor) -> Tensor:
    """Return one entry per score, where the scores are."""
    refuse_masked(name, values)
    values = (values if isinstance(values, Tensor) else _tensor(name, values)).to(g.device).detach()
    if values.numel() != g.shape[0]:
        raise ValueError(
            f"`{name}` must have one entry per score, {g.shape[0]}, got shape {tuple(values.shape)}"
        )
    return _widened(values.reshape(-1))


def _tensor(name: str, values: Any) -> Tensor:
    """Return numbers of any kind as a tensor; refuse text and whatever else is not a number."""
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
    """Return x, half precision as float32: it cannot count to 2049."""
    return x.float() if x.dtype in HALF_PRECISION else x


def valid_rows(batch: ScoreBatch, n_groups: int) -> Array:
    """Return which rows have a finite score, a code in range, a label 0 or 1 and a finite weight ≥ 0 (n,)."""
    xp = namespace(batch.g)
    valid = xp.isfinite(batch.g) & (batch.group >= 0) & (batch.group < n_groups)
    if batch.y is not None:
        valid = valid & ((batch.y == 0) | (batch.y == 1))
    if batch.weight is not None:
        valid = valid & xp.isfinite(batch.weight) & (batch.weight >= 0)
    if batch.share is not None:
        valid = valid & xp.all((batch.share >= 0) & (batch.share <= 1), axis=1)
    return valid


def zeroed(batch: ScoreBatch, valid: Array) -> ScoreBatch:
    """Return zeros for rows that are not valid: on a device they are reported after the work is queued."""
    xp = namespace(batch.g)
    g, group, y = (None if x is None else xp.where(valid, x, xp.zeros_like(x)) for x in batch[:3])
    weight = xp.ones_like(batch.g) if batch.weight is None else batch.weight
    share = batch.share
    share = None if share is None else xp.where(valid[:, None], share, xp.zeros_like(share))
    return ScoreBatch(g, group, y, xp.where(valid, weight, xp.zeros_like(weight)), share)


def cells_and_weights(batch: ScoreBatch, cell_of: Array, n_groups: int) -> tuple[Array, Array, Array]:
    xp = namespace(batch.g)
    row = as_index(batch.group)
    if batch.share is not None:
        row = row[:, None] + arange(n_groups, batch.g)[None, :]
        row = row if batch.y is None else row + n_groups * as_index(batch.y)[:, None]
        weight = xp.ones_like(batch.g) if batch.weight is None else batch.weight
        return batch.g, cell_of[row], weight
    row = row if batch.y is None else row + n_groups * as_index(batch.y)
    weight = xp.ones_like(batch.g) if batch.weight is None else batch.weight
    return batch.g, cell_of[row], weight


def raise_invalid(batch: ScoreBatch, n_groups: int) -> None:
    g, group, y, weight, share = batch.on_host()
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
    if share is not None and not ((share >= 0) & (share <= 1)).all():
        raise ValueError(
            f"`groups` must be probabilities from 0 to 1, got {share[~((share >= 0) & (share <= 1))][0]}"
        )
    if weight is not None:
        bad = ~((weight >= 0) & (weight < float("inf")))
        raise ValueError(f"`sample_weight` must be finite and 0 or more, got {weight[bad][0]}")


# ---------------------------------------------------------------- E_f of a batch


class BatchSums(NamedTuple):
    """Additive over rows, batches and workers."""

    psi: Array
    w: Array
    w2: Array
    own: Array  # Q, or 0 where it is not asked for

    def plus(self, other: BatchSums) -> BatchSums:
        """Return the sums of two disjoint sets of rows."""
        return BatchSums(*(a + b for a, b in zip(self, other, strict=True)))

    def united(self, cells: Cells) -> BatchSums:
        """Return the sums of unions of cells."""
        return self if cells.unions is None else BatchSums(*map(cells.unite, self))


@dataclass(frozen=True)
class BatchComparison:
    """How cells, or unions of them, are compared in a batch."""

    distance: Distance
    n_unions: int
    unbiased: bool
    workers: Workers  # to add up over

    @property
    def with_zero(self) -> np.ndarray:
        """Pairs of each union and the zero cell, which is the last, where the unbiased form needs them."""
        pairs = [(union, self.n_unions) for union in range(self.n_unions)] if self.unbiased else []
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def evaluate(
        self, g: Array, cells: Cells, memory: CellMemory | None, exponent: Array
    ) -> tuple[Array, Array]:
        """Return E_f of the batch of all processes, and its gradient in the scores at hand (n,)."""
        shift = self._shift(g, cells)
        placed = self.distance.prepare(g - shift)
        norm, norm_slope = self._norms(placed)
        batch = known = self._over_workers(self._sums(placed, cells, norm))
        if memory is not None:
            present = batch.w * batch.w / _safe(batch.w2)
            scores, code, weight = memory.rows_to_fill(g, present, exponent)
            remembered = cells._replace(code=code, weight=weight)
            recalled = self.distance.prepare(scores - shift)
            known = known.plus(self._sums(recalled, remembered, self._norms(recalled)[0]))
        of_unions = known.united(cells)
        value, D, in_own = self._value_and_slopes(
            of_unions if batch is known else batch.united(cells), of_unions, cells
        )
        D = cells.divide(D)
        gradient = sum(self.distance.gradient(placed, one, D) for one in cells.memberships())
        if self.unbiased:
            in_own = cells.divide(in_own)
            table = concat([0 * in_own[:1], in_own], 0)
            gradient = gradient + take(table, as_index(cells.code) + 1) * cells.weight * norm_slope
        return value, gradient

    def _shift(self, g: Array, cells: Cells) -> Array | float:
        """Return the pooled mean of all processes' scores where the distance needs one, else 0."""
        if not self.distance.traits.two_moments:
            return 0.0
        xp = namespace(g)
        total = self.workers.sum(xp.stack([xp.sum(cells.weight * g), xp.sum(cells.weight)]))
        return total[0] / _safe(total[1])

    def _norms(self, placed: Any) -> tuple[Array, Array]:
        """Return ‖Φ‖² of each row and its slope, where the unbiased form needs them."""
        norms = self.distance.row_norms(placed) if self.unbiased else None
        return (None, None) if norms is None else norms

    def _sums(self, placed: Any, cells: Cells, norm: Array) -> BatchSums:
        """Return the sums over the rows at hand."""
        psi = psi_sums(self.distance, placed, cells)
        w, w2 = cell_weights(cells)
        own = cell_sum(cells, cells.weight * norm) if self.unbiased else 0 * w
        return BatchSums(psi, w, w2, own)

    def _over_workers(self, sums: BatchSums) -> BatchSums:
        """Return the sums of all processes, added up in one message."""
        if len(self.workers) < 2:
            return sums
        xp = namespace(sums.w)
        flat = self.workers.sum(concat([xp.reshape(x, (-1,)) for x in sums], 0))
        n_cells, p = sums.psi.shape
        rest = xp.reshape(flat[n_cells * p :], (3, n_cells))
        return BatchSums(xp.reshape(flat[: n_cells * p], (n_cells, p)), rest[0], rest[1], rest[2])

    def _value_and_slopes(
        self, batch: BatchSums, known: BatchSums, cells: Cells
    ) -> tuple[Array, Array, Array]:
        """Return E_f, and its derivatives in the batch's psi (u, p) and own (u,)."""
        xp = namespace(known.w)
        valid = self._valid(known)
        first, second = (as_index(side) for side in cells.pairs[: cells.pair_weight.shape[0]].T)
        weight = cells.pair_weight * take(valid, first) * take(valid, second)
        # (u,) the weight of all pairs that a union is in
        compared = segment_sum(weight, first, self.n_unions) + segment_sum(weight, second, self.n_unions)
        noise = compared * known.w2 / _safe(known.w * known.w - known.w2)
        value, D = self._penalty(known, valid, noise, weight, cells.pairs)
        value = value - xp.sum(noise * known.own / _safe(known.w))
        if batch is not known:
            noise = compared * batch.w2 / _safe(known.w * batch.w - batch.w2)
            D = self._penalty(known, valid, noise, weight, cells.pairs)[1]
            D = D * (known.w / _safe(batch.w))[:, None]
        return value, D, -noise / _safe(batch.w)

    def _valid(self, known: BatchSums) -> Array:
        """Return 1 for cells that can be compared, else 0: the unbiased form and a variance need two rows."""
        square = known.w * known.w
        needs_two = self.unbiased or self.distance.traits.two_moments
        comparable = square - known.w2 > MORE_THAN_ONE_ROW * square if needs_two else square > 0
        return cast(comparable, known.w.dtype)

    def _penalty(
        self, known: BatchSums, valid: Array, with_zero_cell: Array, pair_weight: Array, pairs: Array
    ) -> tuple[Array, Array]:
        """Return the core's penalty and its derivative in psi; what cannot be compared is all ones."""
        xp = namespace(valid)
        there = valid > 0
        psi = xp.where(there[:, None], known.psi, xp.ones_like(known.psi))
        w = xp.where(there, known.w, xp.ones_like(known.w))
        if self.unbiased:
            psi, w = concat([psi, xp.zeros_like(psi[:1])], 0), concat([w, xp.ones_like(w[:1])], 0)
            pair_weight = concat([pair_weight, with_zero_cell], 0)
        cells = Cells(None, None, w.shape[0], pairs, pair_weight)
        value, D = penalty(self.distance, Sums(psi, w, w), cells)
        return value, D[: valid.shape[0]]


def _safe(x: Array) -> Array:
    """Return x with 1 where it is not positive, so that nothing divides by 0."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))
