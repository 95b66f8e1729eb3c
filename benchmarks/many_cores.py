"""What more cores bring: an evaluation, a fair fit, a fair LightGBM and a profile, by number of threads.

Each number of threads is a process of its own, with `OMP_NUM_THREADS` and BLAS's threads set to it. Ratios
are of medians over repeats that take turns. Compiled loops are loaded before anything is timed.
"""

import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

import _data
from _objective import linear_objective
from _report import option_parser, print_heading, print_table, results_file, time_in_turn
from evenrisk import FairLogisticRegression, _kernels, threshold_profile

ALPHA, TOL, ETA = 1e-4, 1e-4, 10.0


def evaluation(n, d):
    """Return milliseconds of an evaluation without and with the gap, by compiled loops and by NumPy."""
    X, y, groups = _data.collinear(n, d)
    theta = np.full(d + 1, 0.01)
    found = {}
    for kind in _kernels.KINDS:  # one after the other: BLAS's threads wait busily after NumPy's turn
        tasks = {}
        with _kernels.use(kind):
            for name, eta in (("plain", 0.0), ("gap", ETA)):
                settings = {"parity": "demographic_parity", "distance": "gap", "eta": eta, "alpha": ALPHA}
                objective = linear_objective(X, y, groups, **settings)
                objective(theta)
                tasks[f"{kind} {name}"] = lambda objective=objective: objective(theta)
            found |= time_in_turn(tasks, 11)[0]
    return {name: 1e3 * seconds for name, seconds in found.items()}


def fit(n, d):
    """Return seconds of scikit-learn's plain fits and of our fair one."""
    X, y, groups = _data.collinear(n, d)
    settings = {"C": 1 / (ALPHA * n), "tol": TOL, "max_iter": 10_000}
    fair = FairLogisticRegression(eta=ETA, alpha=ALPHA, tol=TOL)
    tasks = {
        "lbfgs": lambda: LogisticRegression(**settings).fit(X, y),
        "newton": lambda: LogisticRegression(solver="newton-cholesky", **settings).fit(X, y),
        "fair": lambda: fair.fit(X, y, sensitive_features=groups),
    }
    fair.fit(X[:30_000], y[:30_000], sensitive_features=groups[:30_000])
    return time_in_turn(tasks, 3)[0]


def trees(n, d, rounds, threads):
    """Return seconds of a plain LightGBM and of ours."""
    import lightgbm

    from evenrisk.boosting import FairLGBMClassifier

    X, y, groups = _data.skewed(n, d)
    plain = lightgbm.LGBMClassifier(n_estimators=rounds, n_jobs=threads, verbosity=-1)
    fair = FairLGBMClassifier(eta=ETA, n_estimators=rounds, n_jobs=threads)
    fair.fit(X[:30_000], y[:30_000], sensitive_features=groups[:30_000])
    tasks = {
        "plain": lambda: plain.fit(X, y),
        "fair": lambda: fair.fit(X, y, sensitive_features=groups),
    }
    return time_in_turn(tasks, 3)[0]


def profile(n):
    """Return seconds of a profile by NumPy and by compiled loops."""
    rng = np.random.default_rng(0)
    groups, score = rng.integers(0, 2, n), rng.beta(2, 3, n)
    threshold_profile(None, score[:30_000], sensitive_features=groups[:30_000])

    def task(kind):
        with _kernels.use(kind):
            return threshold_profile(None, score, sensitive_features=groups)

    return time_in_turn({kind: lambda kind=kind: task(kind) for kind in _kernels.KINDS}, 3)[0]


def measured(threads, quick):
    """Return all figures of this process."""
    warnings.simplefilter("ignore")
    share = 20 if quick else 1
    start = time.perf_counter()
    found = {
        "evaluation": evaluation(1_000_000 // share, 50),
        "fit": fit(1_000_000 // share, 50),
        "many": trees(1_000_000 // share, 20, 50, threads),
        "few": trees(34_000, 40, 200 // (4 if quick else 1), threads),
        "profile": profile(10_000_000 // share),
    }
    return found | {"seconds": time.perf_counter() - start}


def in_a_process(threads, quick):
    """Run `measured` where all libraries have this many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, __file__, "--here", str(threads), *(["--quick"] if quick else [])]
    env = os.environ | dict.fromkeys(names, str(threads))
    return json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = option_parser(__doc__, "a twentieth of the rows")
    every = [2**k for k in range((os.cpu_count() or 1).bit_length())]
    parser.add_argument("--threads", type=int, nargs="+", default=every, help="numbers of threads")
    parser.add_argument("--here", type=int, help="measure in this process and print JSON")
    args = parser.parse_args()
    if args.here:
        print(json.dumps(measured(args.here, args.quick)))
        return
    with results_file(parser, args):
        found = {threads: in_a_process(threads, args.quick) for threads in args.threads}
        print_heading(
            "An evaluation of value and gradient, 1,000,000 × 50, in milliseconds",
            "Target: with the gap at most 1.25 times the unpenalised one on 16 threads.",
        )
        headings = ["threads", "NumPy, unpenalised", "gap", "compiled, unpenalised", "gap"]
        lines = (
            [
                threads,
                *(f"{e[name]:.1f}" for name in ("numpy plain", "numpy gap", "numba plain", "numba gap")),
                f"**{e['numba gap'] / e['numba plain']:.2f}**",
            ]
            for threads, e in ((threads, each["evaluation"]) for threads, each in found.items())
        )
        print_table([*headings, "gap / unpenalised"], lines)
        print_heading(
            f"A fair fit (gap, eta = {ETA:g}) to a gradient of {TOL:g}, 1,000,000 × 50, in seconds",
            "Target: at most 1.0 times newton-cholesky on 16 threads, 1.2 times on 2.",
        )
        lines = (
            [
                threads,
                *(f"{e[name]:.2f}" for name in ("lbfgs", "newton", "fair")),
                f"**{e['fair'] / e['newton']:.2f}**",
            ]
            for threads, e in ((threads, each["fit"]) for threads, each in found.items())
        )
        print_table(["threads", "lbfgs", "newton-cholesky", "fair", "fair / newton-cholesky"], lines)
        print_heading(
            "LightGBM, in seconds",
            "Targets: fair / plain at most 1.5 with many rows (1,000,000 × 20, 50 trees), at most 2 with few "
            "(34,000 × 40, 200 trees).",
        )
        lines = (
            [
                threads,
                *(
                    text
                    for e in (each["many"], each["few"])
                    for text in (f"{e['plain']:.2f}", f"{e['fair']:.2f}", f"**{e['fair'] / e['plain']:.2f}**")
                ),
            ]
            for threads, each in found.items()
        )
        print_table(["threads", *("plain", "fair", "many rows"), *("plain", "fair", "few rows")], lines)
        print_heading(
            "A profile of 10,000,000 scores, in seconds",
            "Target: 3 times as fast as NumPy's form on 16 threads.",
        )
        lines = (
            [threads, f"{e['numpy']:.2f}", f"{e['numba']:.2f}", f"**{e['numpy'] / e['numba']:.1f}**"]
            for threads, e in ((threads, each["profile"]) for threads, each in found.items())
        )
        print_table(["threads", "NumPy", "compiled", "NumPy / compiled"], lines)


if __name__ == "__main__":
    main()
