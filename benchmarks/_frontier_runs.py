"""Runs of `frontier.py` and `repair_frontier.py`: every method on every split of a data set.

A split gives 30 % of the rows to the test; of the rest a quarter is validation and three quarters are fitted
to. Each method is fitted once at each of its settings, from plain to its fairest. Validation chooses among
them (`_frontier_tables.choose`); the test part is only measured. With `--refit`, the model measured there is
fitted again to training and validation rows together. Accuracy is that of score > 0.5 for all; a method whose
own decision is randomised would have another.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from _data import adult, compas, crowded, skewed, train_validation_test
from _frontier_tables import draw, report
from _report import option_parser, results_file
from evenrisk import threshold_profile
from rivals._protocol import PARITIES


@dataclass(frozen=True)
class Table:
    """A data set and the max gaps asked for on it."""

    name: str
    load: Callable
    targets: tuple[float, ...]
    quick_rows: int


COMPAS = Table("COMPAS", compas, (0.15, 0.10, 0.075), 4000)
ADULT = Table("Adult", adult, (0.105, 0.075, 0.06, 0.055, 0.045, 0.035), 3000)
SYNTHETIC = Table("synthetic", skewed, (0.15, 0.10, 0.075, 0.05), 3000)
CROWD = Table("crowd", crowded, (0.10, 0.05, 0.03, 0.025), 3000)


def measure(score, X, y, groups, parity):
    s = score(X, groups)
    return {
        "max_gap": threshold_profile(y, s, sensitive_features=groups, parity=parity).max_gap,
        "auc": roc_auc_score(y, s),
        "accuracy": ((s > 0.5) == y).mean(),
    }


def thinned(settings):
    """Return every fifth setting, and the last."""
    return (*settings[:-1:5], settings[-1])


def one_path(rival, split, parity, seed, quick, refit):
    """Yield the measurements of a method at all its settings, on validation and test rows.

    With `refit`, what is measured on test rows was fitted to training and validation rows.
    """
    train, validation, test = split
    settings = rival.settings[parity]
    settings = thinned(settings) if quick else settings
    start = time.perf_counter()
    scores = last = rival.path(*train, settings, parity=parity, seed=seed)
    seconds = (time.perf_counter() - start) / len(settings)
    if refit:
        both = [np.concatenate(parts) for parts in zip(train, validation, strict=True)]
        last = rival.path(*both, settings, parity=parity, seed=seed)
    for place, (setting, score, final) in enumerate(zip(settings, scores, last, strict=True)):
        name = f"{rival.name}, refitted" if refit else rival.name
        row = {"method": name, "aware": rival.aware, "place": place, "setting": str(setting)}
        row |= {f"validation_{key}": value for key, value in measure(score, *validation, parity).items()}
        yield row | measure(final, *test, parity) | {"seconds": seconds}


def one_run(table, parity, rival, seed, quick, refit) -> list[dict]:
    """Return the measurements of a method on one split."""
    data = table.load()
    if quick:
        rows = np.random.default_rng(0).permutation(len(data[1]))[: table.quick_rows]
        data = tuple(column[rows] for column in data)
    start = time.perf_counter()
    where = {"data": table.name, "parity": parity, "split": seed}
    split = train_validation_test(*data, seed)
    found = [where | row for row in one_path(rival, split, parity, seed, quick, refit)]
    what = f"{table.name}, {parity}, split {seed + 1}, {rival.name}"
    print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return found


def run(table, methods, parities, n_splits, args) -> pd.DataFrame:
    """Return the measurements of all methods on all splits of one data set, a row for each setting.

    What is measured is written at once to `--csv`, so that a run that is stopped loses no finished split.
    """
    n_train = round(0.525 * len(table.load()[1]))  # of all rows: few are no reason to show a slow method
    tasks = [
        delayed(one_run)(table, parity, rival, seed, args.quick, args.refit)
        for parity in parities
        for rival in methods
        for seed in range(n_splits)
        if parity in rival.settings and n_train <= rival.most_rows
    ]
    frames = []
    for found in Parallel(args.jobs, return_as="generator_unordered")(tasks):
        frames.append(pd.DataFrame(found))
        if args.csv:
            begun = Path(args.csv).exists()
            frames[-1].to_csv(args.csv, mode="a", header=not begun, index=False)
    names = [each.name for each in methods]
    order = {"parity": parities.index, "method": lambda name: names.index(name.removesuffix(", refitted"))}
    keys = ["parity", "method", "split", "place"]
    return pd.concat(frames).sort_values(
        keys, key=lambda column: column.map(order[column.name]) if column.name in order else column
    )


def main(
    doc: str | None,
    tables: Sequence[Table],
    methods: Sequence,
    *,
    more: Callable | None = None,
) -> None:
    """Run a frontier benchmark; `more` prints what it adds to the tables of a data set."""
    parser = option_parser(doc, "2 splits, fewer rows, every fifth setting")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", choices=[table.name for table in tables], help="only this data set")
    parser.add_argument("--parity", choices=PARITIES, help="only this rule")
    parser.add_argument("--method", default="", help="only methods whose names match this pattern")
    parser.add_argument("--refit", action="store_true", help="measure models of all but the test rows")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--read", metavar="PATH", nargs="+", help="fit nothing: measurements of other runs")
    parser.add_argument("--csv", metavar="PATH", help="add every measurement to this file as it comes")
    parser.add_argument("--picture", metavar="PATH", help="draw mean AUC against mean max gap")
    args = parser.parse_args()
    n_splits = 2 if args.quick else args.splits
    for path in (args.csv, args.picture):
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
    methods = [each for each in methods if re.search(args.method, each.name)]
    parities = PARITIES if args.parity is None else (args.parity,)
    earlier = pd.concat(map(pd.read_csv, args.read)) if args.read else None
    frames = []
    with results_file(parser, args):
        for table in tables:
            if args.data in (None, table.name):
                if earlier is None:
                    frames.append(run(table, methods, parities, n_splits, args))
                else:
                    frames.append(earlier[earlier.data == table.name])
                print(report(frames[-1], table.name, table.targets), flush=True)
                if more is not None:
                    more(frames[-1], table.name)
    if args.picture:
        draw(pd.concat(frames), args.picture)
