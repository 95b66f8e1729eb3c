"""What an audit costs: the exact profile and its band against fairlearn's MetricFrame, and ten million rows.

Both libraries get the same arrays in the same run, taken in turn. MetricFrame answers at one threshold at a
time; its figures at 100 thresholds and 1000 resamples are extrapolated from fewer, in which it is linear.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fairlearn.metrics import MetricFrame, selection_rate

from _machine import describe
from evenrisk.metrics import threshold_profile

GROUPS = np.array(["Asian", "Black", "White"])


def people(n: int, seed: int = 0, n_groups: int = 2):
    """Continuous risks, unequal groups that differ a little, outcomes that follow the risk."""
    rng = np.random.default_rng(seed)
    group = rng.choice(n_groups, n, p=np.array([0.5, 0.3, 0.2][:n_groups]) / sum([0.5, 0.3, 0.2][:n_groups]))
    raw = rng.standard_normal(n)
    raw += 0.3 * group - 0.2
    score = 1 / (1 + np.exp(-raw))
    y = (rng.random(n) < score).astype(np.int8)
    return y, score, group


def seconds(functions: dict, repeats: int) -> dict[str, float]:
    """Median time of each function, taken in turn so that a slow moment hits all alike."""
    taken = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            taken[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in taken.items()}


def frame(y, score, group, t: float, **boot) -> MetricFrame:
    """fairlearn's selection rates by group at one threshold; all its work is in the making."""
    chosen = (score > t).astype(int)
    return MetricFrame(metrics=selection_rate, y_true=y, y_pred=chosen, sensitive_features=group, **boot)


def ratio(what: str, ours: float, theirs: float) -> None:
    print(f"| {what} | {ours:.3f} s | {theirs:.1f} s | {theirs / ours:.0f}× |", flush=True)


def head(what: str, how: str) -> None:
    print(f"| rows | {what} | thresholds | evenrisk | fairlearn, {how} | ratio |\n" + "|---" * 6 + "|")


def full_profile(n=1_000_000, repeats=3, thresholds=(0.3, 0.5, 0.7)) -> None:
    y, score, numbers = people(n)
    for kind, group in (("whole numbers", numbers), ("text", pd.Series(GROUPS[numbers]))):

        def ours(group=group):
            return threshold_profile(None, score, sensitive_features=group)

        def theirs(group=group):
            return [frame(y, score, group, t) for t in thresholds]

        profile = ours()
        for t, made in zip(thresholds, theirs(), strict=True):
            assert abs(profile.at(t) - made.difference()) < 1e-12, "they measure the same"
        spent = seconds({"ours": ours, "theirs": theirs}, repeats)
        what = f"{n:,} | {kind} | {len(profile.thresholds):,}"
        ratio(what, spent["ours"], spent["theirs"] / len(thresholds) * 100)


def band(n=10_000, repeats=3, drawn=100) -> None:
    y, risk, group = people(n)
    for kind, score in (("continuous", risk), ("deciles", np.ceil(risk * 10))):

        def ours(score=score):
            return threshold_profile(None, score, sensitive_features=group).band(random_state=0)

        def theirs(score=score):
            boot = {"n_boot": drawn, "ci_quantiles": [0.025, 0.975], "random_state": 0}
            return frame(y, score, group, float(np.median(score)), **boot)

        spent = seconds({"ours": ours, "theirs": theirs}, repeats)
        what = f"{n:,} | {kind} | {len(np.unique(score)):,}"
        ratio(what, spent["ours"], spent["theirs"] / drawn * 1000)


def write_parquet(path: Path, n: int) -> None:
    """A file of what the audit needs: risk, race, outcome."""
    y, score, group = people(n, n_groups=3)
    race = pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int8)), pa.array(GROUPS)).cast(pa.string())
    pq.write_table(pa.table({"risk": score, "race": race, "outcome": y}), path)


def audit_of_a_file(n: int, repeats: int, folder: Path) -> None:
    """The command as a person types it, in a child whose own largest memory is read off at its end."""
    path, page, numbers = folder / "people.parquet", folder / "page.html", folder / "numbers.json"
    if subprocess.run([sys.executable, __file__, "--write", str(path), str(n)], check=False).returncode:
        raise SystemExit("the file could not be written")
    columns = ["--score", "risk", "--group", "race", "--label", "outcome"]
    command = [str(Path(sys.executable).with_name("evenrisk")), "audit", str(path), *columns]
    command += ["--html", str(page), "--json", str(numbers)]
    spent, peak = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        with (folder / "said.txt").open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(child.pid, 0)
        spent.append(time.perf_counter() - start)
        peak.append(used.ru_maxrss / 2**20)
        said = (folder / "said.txt").read_text()
        if status:
            raise SystemExit(said)
    json.loads(numbers.read_text())
    sizes = [f"{file.stat().st_size / 1e6:.{digits}f} MB" for file, digits in ((path, 0), (page, 2))]
    print(f"| {n:,} | {sizes[0]} | {median(spent):.0f} s | {max(peak):.1f} GiB | {sizes[1]} |")
    print(f"\nWhat it said:\n\n```\n{said.strip()}\n```", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("profile", "band", "file"))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the file")
    parser.add_argument("--repeats", type=int, default=3, help="audits of the file")
    parser.add_argument("--write", nargs=2, metavar=("PATH", "ROWS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:  # in a child of its own: the parent stays small
        write_parquet(Path(args.write[0]), int(args.write[1]))
        return
    print(f"{date.today():%d %B %Y}; {describe()}, {os.environ.get('OMP_NUM_THREADS', 'all')} OpenMP threads")
    if args.only in (None, "profile"):
        print(
            "\n### The profile at every threshold against MetricFrame(selection_rate) at 100 (target: 50×)\n"
        )
        head("groups", "100 from 3")
        full_profile()
    if args.only in (None, "band"):
        print("\n### Profile with band, 1000 resamples, against MetricFrame's bootstrap of ONE threshold")
        print("\nTarget: 100×.\n")
        head("scores", "1000 from 100")
        band()
    if args.only in (None, "file"):
        print("\n### `evenrisk audit` of a Parquet file (targets: < 180 s, < 8 GiB, page < 1.5 MB)\n")
        print("| rows | file | time | peak memory | page |\n|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            audit_of_a_file(args.rows, args.repeats, Path(folder))


if __name__ == "__main__":
    main()
