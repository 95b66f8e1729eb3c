"""Batches that hold every cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from evenrisk._validation import (
    check_binary,
    check_cells,
    check_flag,
    check_groups,
    check_length,
    check_member,
    check_number,
)
from evenrisk.parity import PARITIES, Parity, cell_codes


class ParityBatchSampler(Sampler[list[int]]):
    """Put all rows into batches, each with its share of every cell: the `batch_sampler` of a DataLoader.

    A cell with too few rows for all batches comes more than once in an epoch, so that `min_rows` of it are in
    every batch (all of it, if it has no more than that). All other rows come once. Where the mean loss over
    an epoch is to be that of the data, weight the rows of a batch by ``loss_weight[batch]`` in it.

    Parameters
    ----------
    groups : array-like of shape (n,) or (n, m)
        The group of each row; several columns are crossed.
    y : array-like of shape (n,), default=None
        Labels; not needed under demographic parity.
    batch_size : int
        Rows in a batch of all processes together, at the most, except those that come again.
    parity : str or Parity, default="demographic_parity"
        The rule whose cells are kept.
    min_rows : int, default=2
        Rows of every cell in every batch, at the least; the unbiased gap needs two. With 0 no row comes
        again, and a small cell may be missing from a batch.
    shuffle : bool, default=True
        Whether every epoch has other batches.
    seed : int, default=0
        Of the shuffling.
    num_replicas, rank : int, default=1 and 0
        Processes and the number of this one: each gets its part of every batch.

    Attributes
    ----------
    loss_weight : ndarray of shape (n,)
        One over how often a row comes in an epoch, on average; 1 but in small cells.

    Examples
    --------
    >>> from evenrisk.nn import ParityBatchSampler
    >>> sampler = ParityBatchSampler(["a"] * 90 + ["b"] * 10, batch_size=20)
    >>> [sum(row >= 90 for row in batch) for batch in sampler]
    [2, 2, 2, 2, 2]
    """

    def __init__(
        self,
        groups: Any,
        y: Any = None,
        *,
        batch_size: int,
        parity: str | Parity = "demographic_parity",
        min_rows: int = 2,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        rule: Parity = check_member("parity", parity, PARITIES, Parity)
        self.num_replicas = int(check_number("num_replicas", num_replicas, low=1, whole=True))
        self.batch_size = int(check_number("batch_size", batch_size, low=self.num_replicas, whole=True))
        self.min_rows = int(check_number("min_rows", min_rows, low=0, whole=True))
        check_flag("shuffle", shuffle)
        self.shuffle = bool(shuffle)
        self.seed = int(check_number("seed", seed, low=0, whole=True))
        self.rank = int(check_number("rank", rank, low=0, whole=True))
        if self.rank >= self.num_replicas:
            raise ValueError(f"`rank` must be below num_replicas, {self.num_replicas}, got {self.rank}")
        self.code = _check_code(groups, y, rule)
        cells = range(-1, int(self.code.max()) + 1)
        self.members = {cell: np.flatnonzero(self.code == cell) for cell in cells}  # −1: in no cell
        self.epoch = 0
        if len(self.code) // len(self) < self.num_replicas:
            raise ValueError(
                f"`batch_size` must leave a row of every batch to each of {self.num_replicas} processes, got "
                f"{self.batch_size} for {len(self.code)} rows, in {len(self)} batches"
            )
        self.loss_weight = np.ones(len(self.code))
        for cell, rows in self.members.items():
            if cell >= 0:
                self.loss_weight[rows] = len(rows) / self._n_in_epoch(len(rows))

    def set_epoch(self, epoch: int) -> None:
        """Set which epoch comes next; each iteration adds 1 by itself."""
        self.epoch = int(check_number("epoch", epoch, low=0, whole=True))

    def __len__(self) -> int:
        return -(-len(self.code) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        rng = self._next_rng()
        for batch in self._batches(rng):
            yield (batch if rng is None else rng.permutation(batch)).tolist()

    def _n_in_epoch(self, n: int) -> int:
        """Return the number of rows that a cell of n rows has in an epoch, those that come again included."""
        return max(n, len(self) * min(self.min_rows, n))

    def batches(self) -> list[np.ndarray]:
        """Return this process's rows of each batch of the next epoch, those of a batch cell by cell."""
        return self._batches(self._next_rng())

    def _next_rng(self) -> np.random.Generator | None:
        """Begin an epoch, and return its generator; None without shuffling."""
        self.epoch += 1
        return np.random.default_rng([self.seed, self.epoch - 1]) if self.shuffle else None

    def _batches(self, rng: np.random.Generator | None) -> list[np.ndarray]:
        """Return the rows of each batch; every cell is cut into one piece per batch."""
        n_batches = len(self)
        batches: list[list[np.ndarray]] = [[] for _ in range(n_batches)]
        start = 0
        for cell, rows in self.members.items():
            rows = rows if rng is None else rng.permutation(rows)
            if cell >= 0 and self._n_in_epoch(len(rows)) > len(rows):
                # those of a small cell come again, never twice in one piece: pairs need different rows
                rows = np.resize(rows, self._n_in_epoch(len(rows)))
            for place, piece in enumerate(np.array_split(rows, n_batches)):
                # a cell's longer pieces begin where the last one's ended, so that batches are equally long
                batches[(start + place) % n_batches].append(piece)
            start += len(rows) % n_batches
        # a batch lies cell by cell, so that every process gets its share of each
        return [np.concatenate(pieces)[self.rank :: self.num_replicas] for pieces in batches]


def _check_code(groups: Any, y: Any, rule: Parity) -> np.ndarray:
    """Return the cell of each row; none may be empty."""
    n = len(next(iter(groups.values()), ())) if isinstance(groups, Mapping) else len(groups)
    label = None
    if rule.needs_label:
        if y is None:
            raise ValueError(f"`y` must be given for {rule.name}, got None")
        label, _ = check_binary(y)
        check_length("y", len(label), n)
    coded = check_groups(groups, n, name="groups")
    code = cell_codes(rule, label, coded.code, len(coded.labels))
    check_cells(code, rule.cell_names([repr(each) for each in coded.names]), name="groups", warn=False)
    return np.asarray(code)
