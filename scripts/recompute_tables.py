"""Recompute both tables from the saved test scores, with NumPy alone: nothing of evenrisk is imported.

    python scripts/recompute_tables.py results

reads results/scores/*.npz, prints every row's columns as mean ± sd over splits, compares them with
results/results.json, and ends with status 1 if any number differs by more than 1e-9.
"""

import json
import sys
from pathlib import Path

import numpy as np

COLUMNS = ("accuracy", "gap", "interval", "std", "max_gap", "rank_gap", "auc", "score_sd")


def rates(y, s, group, strata, t):
    """Share of each group with a score above each t, by stratum: (strata, groups, t)."""
    return np.array(
        [[(s[rows & (group == a)][:, None] > t).mean(axis=0) for a in np.unique(group)] for rows in strata]
    )


def gaps(y, s, group, strata, t):
    """Largest minus smallest rate over groups: (strata, t)."""
    found = rates(y, s, group, strata, t)
    return found.max(axis=1) - found.min(axis=1)


def auc(y, s):
    """Share of (positive, negative) pairs in the right order, ties half: from the ranks."""
    _, inverse, count = np.unique(s, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[inverse.reshape(-1)]
    positive = y == 1
    n1, n0 = positive.sum(), (~positive).sum()
    return (rank[positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


def columns(y, s, group, parity):
    """One row of a table on one split."""
    everybody = np.ones(len(y), dtype=bool)
    strata = [everybody] if parity == "demographic_parity" else [y == 0, y == 1]
    distinct = np.unique(s)
    at_all = gaps(y, s, group, strata, distinct)
    in_range = gaps(y, s, group, strata, np.linspace(0.3, 0.7, 41)).mean(axis=0)
    share = np.array([(s[rows][:, None] == distinct).mean(axis=0) for rows in strata])
    return (
        ((s > 0.5) == y).mean(),
        gaps(y, s, group, strata, np.array([0.5])).mean(),
        np.ptp(in_range),
        in_range.std(),
        at_all.max(),
        (at_all * share).sum(axis=1).mean(),
        auc(y, s),
        s.std(),
    )


def main(folder):
    """Print the tables and compare them."""
    results = json.loads((folder / "results.json").read_text())
    splits = [np.load(path) for path in sorted((folder / "scores").glob("split_*.npz"))]
    worst = 0.0
    for parity, rows in results["tables"].items():
        print(f"\n{parity}, {len(splits)} splits")
        print(f"{'method':10}" + "".join(f"{name:>18}" for name in COLUMNS))
        for row in rows:
            key = f"{parity}/{row['method']}"
            values = np.array([columns(d["y"].astype(int), d[key], d["group"], parity) for d in splits])
            mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None
            cells = [f"{m:.3f}" + ("" if sd is None else f" ± {sd[i]:.3f}") for i, m in enumerate(mean)]
            print(f"{row['method']:10}" + "".join(f"{cell:>18}" for cell in cells))
            for i, name in enumerate(COLUMNS):
                worst = max(worst, abs(mean[i] - row[name]["mean"]))
                worst = worst if sd is None else max(worst, abs(sd[i] - row[name]["sd"]))
    print(f"\nlargest difference to results.json: {worst:.1e}")
    return int(worst > 1e-9)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "results")))
