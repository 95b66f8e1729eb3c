"""Python's threads for loops that run without its lock.

Threads of our own and not numba's: those are lost by a fork, and two callers at once may not use them. A task
is a part of the rows. Each thread takes the next part until there is none, the caller's thread too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
Part = TypeVar("Part")


def n_threads() -> int:
    """Return how many threads scikit-learn's own loops would use here."""
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    return max(int(_openmp_effective_n_threads()), 1)


def run(task: Callable[[Part], T], parts: Sequence[Part]) -> list[T]:
    """Return the task's results for all parts, in order.

    An exception or Ctrl-C ends the work as soon as the parts at hand are done.
    """
    workers = min(n_threads(), len(parts))
    if workers <= 1:
        return [task(part) for part in parts]
    results: list[Any] = [None] * len(parts)
    left = iter(range(len(parts)))  # `next` is one step under Python's lock

    def work() -> None:
        try:
            for i in left:
                results[i] = task(parts[i])
        except BaseException:
            for _ in left:  # nobody takes another part
                pass
            raise

    others = [_pool(os.getpid(), workers - 1).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for other in others:
            other.cancel()
        failed = [other.exception() for other in others if not other.cancelled()]
    for error in failed:
        if error is not None:
            raise error
    return results


@cache
def _pool(pid: int, size: int) -> ThreadPoolExecutor:
    """Return the threads of this process; those of a parent process do not live on after a fork."""
    return ThreadPoolExecutor(size, thread_name_prefix="evenrisk")


class _BlasLimit:
    """Counts who wants BLAS on one thread; the last to leave restores what was before the first."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limit: Any = None

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limit = _controller().limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limit.restore_original_limits()


_blas = _BlasLimit()


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Keep BLAS on one thread inside a with statement, if `wanted`.

    The parts of the rows are the threads there. BLAS's own threads wait busily for some time after every
    product, however small, on the cores that the parts want.
    """
    if not wanted:
        yield
        return
    _blas.enter()
    try:
        yield
    finally:
        _blas.leave()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
