"""Fit all splits, on several processes, and keep each as it finishes: an interrupted run goes on from there.

A split has every row's path over η and every bound c, once for validation and again on the whole training
part. Fits do not depend on which η or c is chosen in the end, so splits are independent of one another. A
split is kept in ``splits/split_000.npz`` together with the settings it was made with. Each process has one
thread, and a single one is a process of its own too, so that the number of processes changes no bit.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from evenrisk._files import remove_left_over, replacing
from evenrisk.datasets import Dataset, load_compas
from evenrisk.exceptions import CollapseWarning
from evenrisk.paper.protocol import (
    COLUMNS,
    PARITIES,
    Protocol,
    Split,
    by_chance,
    features,
    measure,
    zafar,
    zafar_name,
)

POLL_SECONDS = 0.2
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def split_path(folder: Path, split: int) -> Path:
    return folder / "splits" / f"split_{split:03d}.npz"


def load(folder: Path, protocol: Protocol, split: int) -> Split | None:
    """Read a finished split; None if it is not there, not whole, or of other settings."""
    try:
        with open(split_path(folder, split), "rb") as file, np.load(file) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        return None
    wanted = json.dumps(protocol.settings(), sort_keys=True)
    return arrays if str(arrays.pop("settings", "")) == wanted else None


def load_all(folder: Path, protocol: Protocol, n_splits: int) -> list[Split]:
    """Read all splits of a finished run."""
    splits = [load(folder, protocol, split) for split in range(n_splits)]
    missing = [i for i, split in enumerate(splits) if split is None]
    if missing:
        raise FileNotFoundError(f"splits {missing} of {n_splits} are not in {folder / 'splits'}")
    return [split for split in splits if split is not None]


def run(
    folder: Path,
    protocol: Protocol,
    n_splits: int,
    jobs: int,
    step: Callable[[int], Any] = lambda steps: None,
) -> None:
    """Fit what is missing; `step` is called with the number of steps done, `protocol.steps` per split."""
    (folder / "splits").mkdir(parents=True, exist_ok=True)
    remove_left_over(folder / "splits")
    missing = [split for split in range(n_splits) if load(folder, protocol, split) is None]
    step(protocol.steps * (n_splits - len(missing)))
    if missing:
        for steps in _in_parallel(folder, protocol, missing, min(jobs, len(missing))):
            step(steps)


def _save_split(folder: Path, protocol: Protocol, split: int) -> None:
    arrays = fit_split(load_compas(), protocol, split, lambda: _ticks.put(1))
    stored = {"settings": np.array(json.dumps(protocol.settings(), sort_keys=True)), **arrays}
    with replacing(split_path(folder, split)) as file:
        np.savez_compressed(file, **stored)  # type: ignore[arg-type]


def _in_parallel(folder: Path, protocol: Protocol, missing: list[int], jobs: int) -> Iterator[int]:
    """Fit the missing splits in `jobs` processes; yield how many steps were finished since the last time."""
    context = multiprocessing.get_context("spawn")
    ticks = context.Queue()
    threads = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ |= dict.fromkeys(threads, "1")  # what is imported in the workers sees it from the start
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(ticks,))
    try:
        waiting: set[Future[None]] = {pool.submit(_save_split, folder, protocol, split) for split in missing}
        while waiting:
            ended, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                future.result()
            yield _count_ticks(ticks)
    except BaseException:
        # do not wait for splits that are under way: a run that goes on later fits them again
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in threads.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _count_ticks(ticks: Any) -> int:
    steps = 0
    while not ticks.empty():
        ticks.get()
        steps += 1
    return steps


_ticks: Any = None  # of this worker


def _start_worker(ticks: Any) -> None:
    """Set a worker up: it reports to its parent, leaves Ctrl-C to it, and does not outlive it."""
    import signal

    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        parent.join()  # type: ignore[union-attr]
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def fit_split(data: Dataset, protocol: Protocol, split: int, step: Callable[[], Any] = lambda: None) -> Split:
    """Fit everything and measure it on rows that were not fitted.

    The arrays' names are such as "equalized_odds/LR-HA/scores" (etas, test rows); "…/validation" and "…/test"
    hold the tables' columns (etas, columns), "…/unfinished" how many fits did not converge.
    """
    rows = protocol.parts(len(data.y), split)
    y, group = data.y.to_numpy(), data.sensitive_features.to_numpy().astype(str)
    out = {"rows": rows.test, "y": y[rows.test].astype(np.int8), "group": group[rows.test]}
    for stage, fitted, scored in (
        ("validation", rows.fitted, rows.validation),
        ("test", rows.train, rows.test),
    ):
        X = features(data, fitted)
        for parity in PARITIES:
            for method in (zafar_name(parity), *(row.name for row in protocol.rows)):
                models, unfinished = _fit(protocol, parity, method, X[fitted], y[fitted], group[fitted])
                scores = np.array([model.predict_proba(X[scored])[:, 1] for model in models])
                measured = [measure(y[scored], s, group[scored], parity) for s in scores]
                key = f"{parity}/{method}"
                out[f"{key}/{stage}"] = np.array([[each[column] for column in COLUMNS] for each in measured])
                out[f"{key}/unfinished"] = out.get(f"{key}/unfinished", np.array(0)) + unfinished
                if stage == "test":
                    out[f"{key}/scores"] = scores
                step()
    return out | _noise_floor(protocol, out, np.random.default_rng([protocol.seed, split, 1]))


def _fit(protocol: Protocol, parity: str, method: str, X: Any, y: Any, group: Any) -> tuple[list[Any], int]:
    """Fit a method at each of its settings, and count the fits that did not converge.

    For Zafar those count too whose guard of the norm could not be held.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if method == zafar_name(parity):
            counted: tuple[type[Warning], ...] = (ConvergenceWarning, CollapseWarning)
            models = [zafar(parity, c).fit(X, y, sensitive_features=group) for c in protocol.bounds[parity]]
        else:
            counted = (ConvergenceWarning,)
            row = protocol.row(method)
            models = _fit_path(row.estimator(parity), X, y, row.etas, group)
    return models, sum(issubclass(warning.category, counted) for warning in caught)


def _fit_path(estimator: Any, X: Any, y: Any, etas: tuple[float, ...], group: Any) -> list[Any]:
    """Fit a model for each η, along its own path if it has one."""
    if hasattr(estimator, "fit_path"):
        return estimator.fit_path(X, y, etas, sensitive_features=group)
    return [clone(estimator).set_params(eta=eta).fit(X, y, sensitive_features=group) for eta in etas]


def _noise_floor(protocol: Protocol, split: Split, rng: np.random.Generator) -> Split:
    """Measure what chance alone shows of the plain model: its scores with the groups permuted."""
    found = {}
    for parity in PARITIES:
        plain = split[f"{parity}/{protocol.rows[0].name}/scores"][0]
        for name, values in by_chance(split["y"], plain, split["group"], parity, rng).items():
            found[f"{parity}/chance/{name}"] = values
    return found
