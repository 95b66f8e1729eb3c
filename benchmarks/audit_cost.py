"""What an audit costs: a profile and its band beside fairlearn's MetricFrame, and ten million rows.

Both libraries get the same arrays in the same run, taken in turn. MetricFrame answers at one threshold at a
time; its figures at 100 thresholds and 1000 resamples are extrapolated from fewer, in which it is linear.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fairlearn.metrics import MetricFrame, selection_rate

from _data import scored_people
from _report import option_parser, print_heading, print_table, results_file, time_in_turn
from evenrisk.metrics import threshold_profile

GROUPS = np.array(["Asian", "Black", "White"])


def frame(y, score, group, t: float, **boot) -> MetricFrame:
    """Return fairlearn's selection rates by group at one threshold; all its work is in the constructor."""
    chosen = (score > t).astype(int)
    return MetricFrame(metrics=selection_rate, y_true=y, y_pred=chosen, sensitive_features=group, **boot)


def ratio(ours: float, theirs: float) -> list[str]:
    return [f"{ours:.3f} s", f"{theirs:.1f} s", f"{theirs / ours:.0f}×"]


def profile(n, repeats=3, thresholds=(0.3, 0.5, 0.7)) -> None:
    y, score, numbers = scored_people(n)

    def lines():
        for kind, group in (("whole numbers", numbers), ("text", pd.Series(GROUPS[numbers]))):
            tasks = {
                "ours": lambda group=group: threshold_profile(None, score, sensitive_features=group),
                "theirs": lambda group=group: [frame(y, score, group, t) for t in thresholds],
            }
            made = {name: task() for name, task in tasks.items()}
            for t, each in zip(thresholds, made["theirs"], strict=True):
                assert abs(made["ours"].at(t) - each.difference()) < 1e-12, "they measure the same"
            spent, _ = time_in_turn(tasks, repeats)
            found = ratio(spent["ours"], spent["theirs"] / len(thresholds) * 100)
            yield [f"{n:,}", kind, f"{len(made['ours'].thresholds):,}", *found]

    print_heading(
        "The profile at every threshold against MetricFrame(selection_rate) at 100 thresholds (target: 50×)"
    )
    headings = ["rows", "groups", "thresholds", "evenrisk", "fairlearn, 100 from 3", "ratio"]
    print_table(headings, lines())


def band(n, repeats=3, drawn=100) -> None:
    y, risk, group = scored_people(n)
    boot = {"n_boot": drawn, "ci_quantiles": [0.025, 0.975], "random_state": 0}

    def ours(score):
        return threshold_profile(None, score, sensitive_features=group).band(random_state=0)

    def lines():
        for kind, score in (("continuous", risk), ("deciles", np.ceil(risk * 10))):
            t = float(np.median(score))
            tasks = {
                "ours": lambda score=score: ours(score),
                "theirs": lambda score=score, t=t: frame(y, score, group, t, **boot),
            }
            spent, _ = time_in_turn(tasks, repeats)
            found = ratio(spent["ours"], spent["theirs"] / drawn * 1000)
            yield [f"{n:,}", kind, f"{len(np.unique(score)):,}", *found]

    print_heading(
        "Profile with band, 1000 resamples, against MetricFrame's bootstrap of one threshold (target: 100×)"
    )
    headings = ["rows", "scores", "thresholds", "evenrisk", "fairlearn, 1000 from 100", "ratio"]
    print_table(headings, lines())


def write_parquet(path: Path, n: int) -> None:
    """Write what the audit needs: risk, race, outcome."""
    y, score, group = scored_people(n, n_groups=3)
    race = pa.DictionaryArray.from_arrays(pa.array(group.astype(np.int8)), pa.array(GROUPS)).cast(pa.string())
    pq.write_table(pa.table({"risk": score, "race": race, "outcome": y}), path)


def audit_of_a_file(n: int, repeats: int, folder: Path) -> None:
    """Run the command as a person types it, in a child whose peak memory is read off at its end."""
    path, page, numbers = folder / "people.parquet", folder / "page.html", folder / "numbers.json"
    if subprocess.run([sys.executable, __file__, "--write", str(path), str(n)], check=False).returncode:
        raise SystemExit("the file could not be written")
    columns = ["--score", "risk", "--group", "race", "--label", "outcome"]
    command = [str(Path(sys.executable).with_name("evenrisk")), "audit", str(path), *columns]
    command += ["--html", str(page), "--json", str(numbers)]
    spent, peak = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        with (folder / "printed.txt").open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(child.pid, 0)
        spent.append(time.perf_counter() - start)
        peak.append(used.ru_maxrss / 2**20)
        if status:
            raise SystemExit((folder / "printed.txt").read_text())
    json.loads(numbers.read_text())
    sizes = [f"{file.stat().st_size / 1e6:.{digits}f} MB" for file, digits in ((path, 0), (page, 2))]
    print_heading(
        "`evenrisk audit` of a Parquet file (targets: < 180 s, < 8 GiB, page < 1.5 MB)",
        "Three groups and outcomes, demographic parity and equalized odds, page and JSON written.",
    )
    row = [f"{n:,}", sizes[0], f"{median(spent):.0f} s", f"{max(peak):.1f} GiB", sizes[1]]
    print_table(["rows", "file", "time", "peak memory", "page"], [row])


def main() -> None:
    parser = option_parser(__doc__, "a tenth of the rows, one audit of 100,000 rows")
    parser.add_argument("--only", choices=("profile", "band", "file"))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the file")
    parser.add_argument("--repeats", type=int, default=3, help="audits of the file")
    parser.add_argument("--write", nargs=2, metavar=("PATH", "ROWS"), help="(in a process of its own)")
    args = parser.parse_args()
    if args.write:  # the parent stays small
        write_parquet(Path(args.write[0]), int(args.write[1]))
        return
    with results_file(parser, args):
        if args.only in (None, "profile"):
            profile(100_000 if args.quick else 1_000_000)
        if args.only in (None, "band"):
            band(1000 if args.quick else 10_000)
        if args.only in (None, "file"):
            with tempfile.TemporaryDirectory() as folder:
                n, repeats = (100_000, 1) if args.quick else (args.rows, args.repeats)
                audit_of_a_file(n, repeats, Path(folder))


if __name__ == "__main__":
    main()
