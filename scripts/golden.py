"""Record what evenrisk computes, and compare two recordings: a refactoring must change nothing.

    python scripts/golden.py record before.npz       # on the code before
    python scripts/golden.py record after.npz        # on the code after
    python scripts/golden.py compare before.npz after.npz

Everything is asked for through public names: coefficients and scores of every estimator × distance × parity
on a small world with weights, ties and three groups; paths, budget searches, profiles, bands, certificates,
audits as JSON, text and page, and two splits of the paper's experiment. A recording depends on the machine's
arithmetic, so it is made twice on one machine and not kept. `compare` fails where a number moved by more than
1e-10 of its size, or a text by one character.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from evenrisk import (
    BudgetSearchCV,
    FairKernelSVC,
    FairLinearSVC,
    FairLogisticRegression,
    GapDistance,
    GaussianDistance,
    HistogramDistance,
    threshold_profile,
)
from evenrisk.baselines import ZafarDP, ZafarEO
from evenrisk.metrics import decisions, max_demographic_parity_difference, risk_distribution
from evenrisk.model_selection import tradeoff_path
from evenrisk.report import audit

MOVED = 1e-10  # of the largest entry
PARITIES = ("demographic_parity", "equalized_odds", "equal_opportunity", "predictive_equality")
DISTANCES = {
    "gap": GapDistance(),
    "gap rank": GapDistance(scale="rank"),
    "gap power": GapDistance(power=6),
    "gap window": GapDistance(window=(0.2, 0.6), n_thresholds=50),
    "histogram": HistogramDistance(),
    "gaussian": GaussianDistance(),
}

Recorded = Iterator[tuple[str, Any]]


class World:
    """X, y, three groups as names, weights, ties among rows."""

    def __init__(self, n: int = 400, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        group = rng.choice(3, n, p=[0.5, 0.3, 0.2])
        self.X = np.round(rng.standard_normal((n, 4)) * [1, 0.5, 2, 1] + 0.4 * group[:, None], 1)
        self.X[1::9] = self.X[0]
        g = self.X @ [0.8, -0.5, 0.3, 0.4] + 0.3 * group - 0.6
        self.y = np.where(g + rng.logistic(size=n) > 0, "yes", "no")
        self.group = np.array(["b", "a", "c"])[group]
        self.weight = rng.integers(1, 5, n).astype(float)
        self.score = 1 / (1 + np.exp(-np.round(g, 1)))


def fitted(name: str, model: Any, world: World, X: Any = None, **settings: Any) -> Recorded:
    """Everything a fitted model knows and says."""
    X = world.X if X is None else X
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, world.y, world.weight, sensitive_features=world.group, **settings)
    yield f"{name} | warnings", sorted({f"{w.category.__name__}: {w.message}" for w in caught})
    yield from described(name, model, X)


def described(name: str, model: Any, X: Any) -> Recorded:
    """Scores and fitted attributes."""
    yield f"{name} | raw scores", model.decision_function(X)
    yield f"{name} | risks", model.predict_proba(X)
    for key, value in sorted(vars(model).items()):
        if key.endswith("_") and not key.startswith("_"):
            try:
                array = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                continue
            yield f"{name} | {key}", array


def linear() -> Recorded:
    world = World()
    for parity in PARITIES:
        for name, distance in DISTANCES.items():
            eta = 3.0 if "gap" in name else 0.2
            for kind, settings in (
                (FairLogisticRegression, {}),
                (FairLinearSVC, {"loss": "squared_hinge", "alpha": 1e-3}),
            ):
                model = kind(parity, distance=distance, eta=eta, **settings)
                yield from fitted(f"{kind.__name__} {parity} {name}", model, world)
    variants: dict[str, tuple[Any, Any]] = {
        "hinge": (FairLinearSVC(eta=1), None),
        "hinge histogram": (FairLinearSVC("equalized_odds", distance="histogram", eta=0.1), None),
        "plain": (FairLogisticRegression(eta=0), None),
        "lbfgs": (FairLogisticRegression(eta=3, solver="lbfgs"), None),
        "momentum": (FairLogisticRegression(eta=3, solver="momentum", max_iter=300), None),
        "ridge": (FairLogisticRegression(eta=3, alpha=0.01), None),
        "no intercept": (FairLogisticRegression(eta=3, fit_intercept=False), None),
        "balanced": (FairLogisticRegression(eta=3, class_weight="balanced"), None),
        "sigmoid": (FairLogisticRegression(eta=3, calibration="sigmoid"), None),
        "isotonic": (FairLogisticRegression(eta=3, calibration="isotonic"), None),
        "sparse": (FairLogisticRegression(eta=3), sparse.csr_array(world.X)),
        "sparse gaussian": (FairLogisticRegression(distance="gaussian", eta=0.2), sparse.csr_array(world.X)),
        "float32": (FairLogisticRegression(eta=3), world.X.astype(np.float32)),
        "constant and far": (
            FairLogisticRegression(eta=3),
            np.column_stack([world.X, np.full(400, 7.0), 2000 + world.X[:, 0] ** 2]),
        ),
        "DP bound": (ZafarDP(c=0.01), None),
        "EO bound": (ZafarEO(c=0.01), None),
        "strong": (FairLogisticRegression(eta=300), None),
    }
    for name, (model, X) in variants.items():
        yield from fitted(name, model, world, X)
    warm = FairLogisticRegression(eta=1, warm_start=True)
    warm.fit(world.X, world.y, sensitive_features=world.group)
    yield from fitted("warm", warm.set_params(eta=4), world)
    for i, model in enumerate(
        FairLogisticRegression(calibration="sigmoid").fit_path(
            world.X, world.y, [3, 0, 0.5, 40], world.weight, sensitive_features=world.group
        )
    ):
        yield from described(f"path {i}", model, world.X)


def kernels() -> Recorded:
    world = World(n=200)
    for name, model in {
        "rbf": FairKernelSVC(eta=3),
        "rbf EO histogram": FairKernelSVC("equalized_odds", distance="histogram", eta=0.5),
        "poly": FairKernelSVC(eta=3, kernel="poly", degree=2, coef0=1.0, loss="squared_hinge"),
        "landmarks": FairKernelSVC(eta=3, n_components=30, random_state=0),
        "kernel sigmoid": FairKernelSVC(eta=3, loss="squared_hinge", calibration="sigmoid"),
    }.items():
        yield from fitted(name, model, world)
    kernel = world.X @ world.X.T
    yield from fitted("precomputed", FairKernelSVC(eta=3, kernel="precomputed"), world, kernel)


def networks() -> Recorded:
    import torch

    from evenrisk.neural_network import FairMLPClassifier
    from evenrisk.nn import ParityBatchSampler, ParityLoss

    world = World()
    settings: dict[str, Any] = {"max_iter": 12, "random_state": 0}
    for parity in PARITIES:
        for name in ("gap", "histogram", "gaussian"):
            model = FairMLPClassifier(parity, distance=name, eta=0.5, **settings)
            yield from fitted(f"network {parity} {name}", model, world)
    for name, model in {
        "small batches": FairMLPClassifier(eta=3, batch_size=40, **settings),
        "early": FairMLPClassifier(eta=3, early_stopping=True, **settings),
        "calibrated network": FairMLPClassifier(eta=3, calibration="sigmoid", **settings),
    }.items():
        yield from fitted(name, model, world)
    piecewise = FairMLPClassifier(eta=3, random_state=0)
    for part in np.array_split(np.arange(400), 4):
        piecewise.partial_fit(
            world.X[part],
            world.y[part],
            classes=["no", "yes"],
            sensitive_features=world.group[part],
            groups=["a", "b", "c"],
        )
    yield from described("piecewise", piecewise, world.X)
    code = np.unique(world.group, return_inverse=True)[1]
    y = (world.y == "yes").astype(int)
    sampler = ParityBatchSampler(code, y, batch_size=50, parity="equalized_odds", seed=1)
    yield "sampler", np.concatenate(list(sampler)).astype(float)
    for parity in PARITIES:
        for name, distance in DISTANCES.items():
            loss = ParityLoss(distance, parity, n_groups=3)
            g = torch.tensor(world.X @ [0.8, -0.5, 0.3, 0.4], requires_grad=True)
            value = loss(g, torch.tensor(code), torch.tensor(y), sample_weight=torch.tensor(world.weight))
            value.backward()
            assert g.grad is not None
            yield f"loss {parity} {name}", np.append(g.grad.numpy(), value.item())


def trees() -> Recorded:
    from evenrisk.boosting import FairLGBMClassifier, FairXGBClassifier, ParityObjective

    world = World()
    common: dict[str, Any] = {"n_estimators": 10, "random_state": 0, "n_jobs": 1}
    for parity in PARITIES:
        for name in ("gap", "histogram"):
            for kind in (FairLGBMClassifier, FairXGBClassifier):
                model = kind(parity=parity, distance=name, eta=2.0, **common)
                yield from fitted(f"{kind.__name__} {parity} {name}", model, world)
    code = np.unique(world.group, return_inverse=True)[1]
    objective = ParityObjective(code, eta=2.0)
    y = (world.y == "yes").astype(float)
    slope, bend = objective(y, world.X @ [0.8, -0.5, 0.3, 0.4])
    yield "objective of trees", np.column_stack([slope, bend])


def searches() -> Recorded:
    world = World()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, settings in {
            "as measured": {"max_gap": 0.3},
            "with confidence": {"max_gap": 0.5, "confidence": 0.9},
            "equalized odds": {"max_gap": 0.35, "parity": "equalized_odds"},
        }.items():
            search = BudgetSearchCV(FairLogisticRegression(), random_state=0, **settings)
            search.fit(world.X, world.y, sample_weight=world.weight, sensitive_features=world.group)
            yield from described(f"search {name}", search, world.X)
            yield f"search {name} | path", _table(search.path_)
        path = tradeoff_path(
            FairLogisticRegression(), world.X, world.y, world.group, [0, 1, 10], random_state=0
        )
        yield "trade-off", _table(path)


def _table(frame: Any) -> Any:
    """Numbers of a table, or what else it is."""
    if hasattr(frame, "select_dtypes"):
        return frame.select_dtypes("number").to_numpy(dtype=float)
    return json.loads(json.dumps(frame, default=float))


def measures() -> Recorded:
    world = World()
    given = {"sensitive_features": world.group, "sample_weight": world.weight, "pos_label": "yes"}
    for parity in PARITIES:
        profile = threshold_profile(world.y, world.score, parity=parity, **given)
        yield f"profile {parity}", profile.to_frame().to_numpy(dtype=float)
        yield (
            f"figures {parity}",
            np.array(
                [profile.max_gap, profile.worst_threshold, profile.mean_gap, profile.rank_gap, profile.std()]
            ),
        )
        test = profile.test(n_permutations=200, random_state=0)
        yield f"test {parity}", repr(test)
        band = profile.band(0.9, n_resamples=200, random_state=0)
        yield f"band {parity}", np.column_stack([band.lower, band.upper])
        yield f"certificate {parity}", repr(profile.certify(0.3, n_resamples=200, random_state=0))
        yield f"intervals {parity}", repr(profile.intervals(0.9, n_resamples=200, random_state=0))
    yield "scorer", max_demographic_parity_difference(world.y, world.score, **given)
    yield "decisions", repr(decisions(world.y, world.score, thresholds=[0.4, 0.6], **given))
    yield "distribution", risk_distribution(world.y, world.score, **given).density


def audits() -> Recorded:
    world = World()
    for name, settings in {
        "one score": {},
        "weights": {"sample_weight": world.weight, "favourable": "low", "max_gap": [0.1, 0.6]},
        "rules": {"parity": list(PARITIES), "level": 0.9, "threshold": 0.4},
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = {"model": world.score, "model 2": np.round(world.score, 1)}
            y_score = world.score if name == "one score" else scores
            report = audit(
                world.y,
                y_score,
                sensitive_features=world.group,
                n_resamples=200,
                n_permutations=200,
                **settings,
            )
        yield f"audit {name} | json", report.to_json()
        yield f"audit {name} | markdown", report.to_markdown()
        yield f"audit {name} | page", report.to_html()


def commands() -> Recorded:
    world = World()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "scores.csv"
        rows = zip(world.score, world.y, world.group, world.weight, strict=True)
        table.write_text(
            "score,label,group,weight\n" + "".join(f"{float(s)!r},{y},{g},{w}\n" for s, y, g, w in rows)
        )
        for name, options in {
            "audit": [],
            "gate": ["--weight", "weight", "--max-gap", "0.3", "--parity", "equalized_odds"],
        }.items():
            page, text = Path(folder) / "page.html", Path(folder) / "audit.json"
            done = _run(
                *("audit", str(table), "--score", "score", "--label", "label", "--group", "group"),
                *("--positive", "yes", "--html", str(page), "--json", str(text), *options),
            )
            yield f"command {name}", [str(done.returncode), done.stdout.replace(folder, ""), done.stderr]
            yield f"command {name} | json", text.read_text()
            yield f"command {name} | page", page.read_text().replace(folder, "")
        results = Path(folder) / "results"
        done = _run("reproduce", "--splits", "2", "--out", str(results))
        yield "reproduce", [str(done.returncode), done.stdout.replace(str(results), "")]
        for path in sorted(results.rglob("*.npz")):
            with np.load(path) as saved:
                for key in saved.files:
                    if saved[key].dtype.kind in "fiub":
                        yield f"reproduce {path.relative_to(results)} {key}", saved[key].astype(float)
        for path in sorted([*results.rglob("*.csv"), *results.rglob("*.json"), *results.rglob("*.md")]):
            yield f"reproduce {path.relative_to(results)}", path.read_text().replace(str(results), "")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenrisk.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PARTS = (linear, kernels, networks, trees, searches, measures, audits, commands)


def record(path: Path, only: list[str]) -> None:
    found: dict[str, np.ndarray] = {}
    for part in PARTS:
        if only and part.__name__ not in only:
            continue
        for name, value in part():
            assert name not in found, name
            is_text = isinstance(value, (str, list, dict))
            found[name] = np.array(json.dumps(value)) if is_text else np.asarray(value, dtype=float)
        print(f"{part.__name__}: {len(found)} so far", file=sys.stderr)
    np.savez_compressed(path, **{name.replace("/", " per "): value for name, value in found.items()})


def compare(before: Path, after: Path) -> int:
    """Print what moved; 1 where it moved too far."""
    with np.load(before) as a, np.load(after) as b:
        names = sorted(set(a.files) | set(b.files))
        bad, same, worst = [], 0, 0.0
        for name in names:
            if name not in a.files or name not in b.files:
                bad.append(f"{name}: only in {'the second' if name in b.files else 'the first'}")
                continue
            x, z = a[name], b[name]
            if x.shape == z.shape and x.dtype == z.dtype and x.tobytes() == z.tobytes():
                same += 1
            elif x.dtype.kind == "U" or z.dtype.kind == "U" or x.shape != z.shape:
                bad.append(f"{name}: {_first_difference(str(x), str(z))}")
            else:
                moved = _moved(x, z)
                worst = max(worst, moved)
                if not moved <= MOVED:
                    bad.append(f"{name}: moved by {moved:.1e}")
    print(f"{len(names)} recorded, {same} the same bytes, {len(bad)} moved; largest other move {worst:.1e}")
    print("\n".join(bad))
    return int(bool(bad))


def _moved(x: np.ndarray, z: np.ndarray) -> float:
    if not np.array_equal(np.isfinite(x), np.isfinite(z)):
        return float("inf")
    finite = np.isfinite(x)
    size = np.abs(x[finite]).max(initial=1e-300)
    return float(np.abs(x[finite] - z[finite]).max(initial=0.0) / size)


def _first_difference(x: str, z: str) -> str:
    at = next((i for i, (p, q) in enumerate(zip(x, z, strict=False)) if p != q), min(len(x), len(z)))
    return f"{x[max(at - 60, 0) : at + 60]!r} became {z[max(at - 60, 0) : at + 60]!r}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands_ = parser.add_subparsers(dest="command", required=True)
    recording = commands_.add_parser("record")
    recording.add_argument("path", type=Path)
    recording.add_argument("--only", nargs="*", default=[], choices=[part.__name__ for part in PARTS])
    comparing = commands_.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.path, given.only)
    else:
        sys.exit(compare(given.before, given.after))
