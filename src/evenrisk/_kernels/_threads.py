"""Python's threads for loops that run without its lock.

Threads of our own and not numba's: those are lost by a fork, and two callers at once may not use them. A task
is a part of the rows. Each thread takes the next part until there is none, the caller's thread too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Any, TypeVar

T = TypeVar("T")
Part = TypeVar("Part")


_wanted = local()  # .n_jobs, by `at_most`


def n_threads() -> int:
    """Return how many threads scikit-learn's own loops would use here, or fewer inside `at_most`."""
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    return max(min(int(_openmp_effective_n_threads()), getattr(_wanted, "n_jobs", sys.maxsize)), 1)


@contextmanager
def at_most(n_jobs: int | None) -> Iterator[None]:
    """Use no more threads than this inside a with statement; None, 0 and -1 are all."""
    before = getattr(_wanted, "n_jobs", sys.maxsize)
    if n_jobs is not None and n_jobs < -1:
        n_jobs = max((os.cpu_count() or 1) + 1 + n_jobs, 1)
    _wanted.n_jobs = n_jobs if n_jobs is not None and n_jobs > 0 else before
    try:
        yield
    finally:
        _wanted.n_jobs = before


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


_blas = Lock()  # held by the thread that has BLAS on one thread


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Keep BLAS on one thread inside a with statement, if `wanted`.

    The parts of the rows are the threads there. BLAS's own threads wait busily for some time after every
    product, however small, on the cores that the parts want. The number is one for the whole process, so the
    first caller sets it and sets it back; for others, who come while it does, nothing is changed.
    """
    if not (wanted and _blas.acquire(blocking=False)):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _blas.release()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
