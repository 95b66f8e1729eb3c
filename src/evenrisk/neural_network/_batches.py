"""Rows on a device, dealt out to mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from evenrisk._estimator import TrainingData
from evenrisk._xp import is_sparse
from evenrisk.neural_network._network import import_torch

LEAST, MOST, STEPS = 128, 2048, 12  # "auto": about STEPS batches an epoch, each of LEAST to MOST rows


class Batch(NamedTuple):
    """Some rows, as tensors."""

    X: Any
    y: Any
    weight: Any  # 1 on average over all rows; None where all have the same
    loss_weight: Any  # the same in the loss, where rows that come again count less
    group: Any  # None where there are none


def rows_in_batch(batch_size: Any, n: int) -> int:
    """Give the number of rows asked for: "auto", None = all, or a number; never more than there are."""
    if batch_size is None:
        return n
    if isinstance(batch_size, str):
        batch_size = min(max(n // STEPS, LEAST), MOST)
    return min(int(batch_size), n)


class Rows:
    """A training set that is dealt anew every epoch; `by_cells`, every cell of it into every batch."""

    def __init__(self, data: TrainingData, batch_size: Any, seed: int, device: Any, dtype: Any) -> None:
        torch = import_torch()
        self.device, self.dtype, self.n = device, dtype, len(data.y)
        self.size = rows_in_batch(batch_size, self.n)
        self.X = data.X if is_sparse(data.X) else torch.tensor(data.X, dtype=dtype, device=device)
        weight = None if np.ptp(data.weight) == 0 else data.weight / data.weight.mean()
        self.y = torch.tensor(data.y, dtype=dtype, device=device)
        self.weight = None if weight is None else torch.tensor(weight, dtype=dtype, device=device)
        self.loss_weight = self.weight
        code = None if data.groups is None else data.groups.code
        self.group = None if code is None else torch.tensor(code, dtype=torch.int64, device=device)
        self.sampler = _sampler(data, self.size, seed) if self.size < self.n else None
        if self.sampler is not None and self.sampler.loss_weight.min() < 1:
            once = self.sampler.loss_weight if weight is None else self.sampler.loss_weight * weight
            self.loss_weight = torch.tensor(once, dtype=dtype, device=device)
        self.rng = np.random.default_rng(seed)
        self.by_cells = True  # without a penalty there is no reason to

    def __iter__(self) -> Iterator[Batch]:
        torch = import_torch()
        if self.size >= self.n:
            yield self._batch(self.X if not is_sparse(self.X) else self._dense(slice(None)), slice(None))
            return
        parts = self._deal()
        # one look-up for the epoch instead of one for every batch
        order = torch.from_numpy(np.concatenate(parts)).to(self.device)
        X = None if is_sparse(self.X) else self.X[order]
        start = 0
        for part in parts:
            here = slice(start, start + len(part))
            yield self._batch(self._dense(part) if X is None else X[here], order[here])
            start += len(part)

    def first(self, n: int) -> Any:
        """Features of the first rows."""
        return self._dense(slice(n)) if is_sparse(self.X) else self.X[:n]

    def _batch(self, X: Any, rows: Any) -> Batch:
        others = (self.weight, self.loss_weight if self.by_cells else self.weight, self.group)
        return Batch(X, self.y[rows], *(None if each is None else each[rows] for each in others))

    def _dense(self, rows: Any) -> Any:
        return import_torch().tensor(self.X[rows].toarray(), dtype=self.dtype, device=self.device)

    def _deal(self) -> list[np.ndarray]:
        if self.sampler is not None and self.by_cells:
            return self.sampler.batches()
        return np.array_split(self.rng.permutation(self.n), -(-self.n // self.size))


def _sampler(data: TrainingData, size: int, seed: int) -> Any:
    """Deal by cells; None where the rows are all in one, or no groups were given."""
    from evenrisk.nn import ParityBatchSampler

    if data.cells is None or np.ptp(data.cells.code) == 0:
        return None
    # a piece of `partial_fit` may lack cells or a label: the cells that are there are as good as groups
    return ParityBatchSampler(data.cells.code, batch_size=size, seed=seed)
