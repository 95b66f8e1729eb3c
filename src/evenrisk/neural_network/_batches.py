"""Rows on a device, dealt out to mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from evenrisk._estimator import TrainingData
from evenrisk._xp import is_sparse
from evenrisk.neural_network._network import import_torch
from evenrisk.parity import Parity

LEAST, MOST, STEPS = 128, 2048, 12  # "auto": about STEPS batches an epoch, each of LEAST to MOST rows


class Batch(NamedTuple):
    """Some rows, as tensors."""

    X: Any
    y: Any
    weight: Any  # 1 on average over all rows; None where all have the same
    group: Any  # None where there are none


def rows_in_batch(batch_size: Any, n: int) -> int:
    """Give the number of rows asked for: "auto", None = all, or a number; never more than there are."""
    if batch_size is None:
        return n
    if isinstance(batch_size, str):
        batch_size = min(max(n // STEPS, LEAST), MOST)
    return min(int(batch_size), n)


class Rows:
    """A training set that is dealt anew every epoch, every cell of it into every batch."""

    def __init__(
        self, data: TrainingData, parity: Parity, batch_size: Any, seed: int, device: Any, dtype: Any
    ) -> None:
        torch = import_torch()
        self.device, self.dtype, self.n = device, dtype, len(data.y)
        self.size = rows_in_batch(batch_size, self.n)
        self.X = data.X if is_sparse(data.X) else torch.tensor(data.X, dtype=dtype, device=device)
        weight = None if np.ptp(data.weight) == 0 else data.weight / data.weight.mean()
        self.y = torch.tensor(data.y, dtype=dtype, device=device)
        self.weight = None if weight is None else torch.tensor(weight, dtype=dtype, device=device)
        code = None if data.groups is None else data.groups.code
        self.group = None if code is None else torch.tensor(code, dtype=torch.int64, device=device)
        self.sampler = None if self.size >= self.n else _sampler(data, parity, self.size, seed)
        self.rng = np.random.default_rng(seed)

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

    def _batch(self, X: Any, rows: Any) -> Batch:
        weight, group = (None if each is None else each[rows] for each in (self.weight, self.group))
        return Batch(X, self.y[rows], weight, group)

    def _dense(self, rows: Any) -> Any:
        return import_torch().tensor(self.X[rows].toarray(), dtype=self.dtype, device=self.device)

    def _deal(self) -> list[np.ndarray]:
        if self.sampler is not None:
            return [np.asarray(batch) for batch in self.sampler]
        return np.array_split(self.rng.permutation(self.n), -(-self.n // self.size))


def _sampler(data: TrainingData, parity: Parity, size: int, seed: int) -> Any:
    """Deal by cells; None where the rows are all in one, or no groups were given."""
    from evenrisk.nn import ParityBatchSampler

    if data.groups is None or data.cells is None:
        return None
    present = np.unique(data.cells.code)
    if np.count_nonzero(present >= 0) == data.cells.n_cells:
        return ParityBatchSampler(data.groups.code, data.y, batch_size=size, parity=parity, seed=seed)
    if len(present) < 2:
        return None
    # of `partial_fit`: cells may be missing, and those that are there are as good as groups
    return ParityBatchSampler(data.cells.code, batch_size=size, seed=seed)
