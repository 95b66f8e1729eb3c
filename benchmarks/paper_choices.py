"""What the paper leaves open, varied: bins, distance, start, rows of COMPAS, γ and λ of the kernel.

A value "at a gap of …" is read off the curve that a warm path over η draws on the *test* part: the same
advantage for all, and no way to choose η.
"""

import time
import warnings
from itertools import pairwise, product

import numpy as np

from _objective import linear_objective
from _report import option_parser, print_heading, print_table, results_file
from evenrisk import FairKernelSVC, FairLinearSVC, FairLogisticRegression, HistogramDistance
from evenrisk.datasets import load_compas
from evenrisk.losses import HINGE, LOGISTIC
from evenrisk.paper.protocol import MACHINE_TOL, PAPER, SUFFIX, TEST_SHARE, Protocol, features, measure
from evenrisk.paper.summary import paired
from evenrisk.solvers import lbfgs, momentum

DP, EO = "demographic_parity", "equalized_odds"
COLLAPSED = 0.01  # sd of the scores below which nothing is left of them
JUMP = 0.05  # neighbours on a path whose gaps differ by more have nothing in between


def split(data, n):
    """Return (X, y, group) of the training and of the test part."""
    rows = Protocol().parts(len(data.y), n)
    X, y, group = features(data, rows.train), data.y.to_numpy(), data.sensitive_features.to_numpy()
    return [(X[part], y[part], group[part].astype(str)) for part in (rows.train, rows.test)]


def estimator(classifier, parity=DP, **settings):
    if classifier == "LR":
        return FairLogisticRegression(parity, **settings)
    machine = {"LSVM": FairLinearSVC, "KSVM": FairKernelSVC}[classifier]
    return machine(parity, tol=MACHINE_TOL, **settings)


def on_test(model, test, parity=DP):
    X, y, group = test
    found = measure(y, model.predict_proba(X)[:, 1], group, parity)
    return found | {"eta": model.eta, "objective": model.objective_}


def path(model, etas, train, test):
    """Return the measurements along a warm path over η, the unpenalised fit first."""
    models = model.fit_path(*train[:2], (0.0, *etas), sensitive_features=train[2])
    return [on_test(each, test, model.parity) for each in models]


def read(points, target, column="max_gap"):
    """Return the point where `column` first falls to the target, and a remark on how it got there.

    The accuracy between two neighbours is that of drawing lots between them, person by person: then the gap
    at every threshold is at most the same mixture of theirs.
    """
    for before, after in pairwise([points[0], *points]):
        if after["score_sd"] < COLLAPSED:
            return None, "collapsed"
        if after[column] <= target:
            drop = before[column] - after[column]
            share = (before[column] - target) / drop if drop else 1.0
            point = {name: before[name] + share * (after[name] - before[name]) for name in before}
            return point, "across a jump" if drop > JUMP else ""
    return None, "never"


def mean_sd(values, *, sd=True):
    spread = f" ± {np.std(values, ddof=1):.3f}" if sd and len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}" if len(values) else "–"


def remarks(kinds):
    names = ("never", "collapsed", "across a jump")
    return ", ".join(f"{kinds.count(name)} {name}" for name in names if name in kinds)


# 1. N, σ_c and the floor of the histogram distance; three splits where fine bins take half a minute a path

BINS = {"LR": (5, (0.01, 100, 65)), "LSVM": (5, (0.02, 50, 45)), "KSVM": (3, (0.2, 60, 12))}


def at_two_gaps(classifier, distance, data, parity=DP):
    """Return accuracy, AUC, η, spread and remarks at a max gap of .15, then of .10."""
    n_splits, etas = BINS[classifier]
    model = estimator(classifier, parity, distance=distance)
    paths = [path(model, np.geomspace(*etas), *split(data, n)) for n in range(n_splits)]
    cells = []
    for target in (0.15, 0.10):
        points, kinds = zip(*(read(points, target) for points in paths), strict=True)
        reached = [(p["accuracy"], p["auc"], p["score_sd"], p["eta"]) for p in points if p]
        accuracy, auc, sd, eta = np.reshape(reached, (-1, 4)).T
        median = f"{np.median(eta):.2g}" if reached else "–"
        cells += [mean_sd(accuracy), mean_sd(auc, sd=False), median, mean_sd(sd, sd=False), remarks(kinds)]
    return cells


def bins():
    columns = [
        f"{gap}: {name}" for gap in (".15", ".10") for name in ("accuracy", "AUC", "η", "sd", "splits")
    ]
    data, grid = load_compas(), list(product((10, 20, 50), (0.5, 1, 2)))
    for name, parity in (("LR", DP), ("LR", EO), ("LSVM", DP), ("KSVM", DP)):
        print_heading(f"{name}-HA, {parity}, {BINS[name][0]} splits: at a test max gap of .15 and .10")
        cells = (at_two_gaps(name, HistogramDistance(n, k / n), data, parity) for n, k in grid)
        lines = ([n, f"{k:g}/N = {k / n:g}", *rest] for (n, k), rest in zip(grid, cells, strict=True))
        print_table(["N", "σ_c", *columns], lines)
    print_heading("LR-HA, demographic_parity, 5 splits: the floor on the bins, N = 20, σ_c = 1/N")
    floors = (1e-12, 1e-6, 1e-3)
    cells = (at_two_gaps("LR", HistogramDistance(floor=floor), data) for floor in floors)
    print_table(["floor", *columns], ([f"{f:g}", *rest] for f, rest in zip(floors, cells, strict=True)))


# 2. HA, GA and gap

CLIFF, GENTLE = np.geomspace(0.02, 20, 45), np.geomspace(0.5, 100, 30)
ETAS = {(c, d): GENTLE if d == "gap" else CLIFF for c in ("LR", "LSVM") for d in SUFFIX}
KERNEL_ETAS = {"histogram": (0.2, 60, 12), "gaussian": (0.2, 200, 13), "gap": (1, 300, 12)}
ETAS |= {("KSVM", d): np.geomspace(*ends) for d, ends in KERNEL_ETAS.items()}
TARGETS = [("max_gap", 0.20), ("max_gap", 0.15), ("max_gap", 0.10), ("gap", 0.10), ("gap", 0.05)]


def both_columns(readings):
    """Return accuracy / AUC, and how many splits did not get there."""
    points, kinds = zip(*readings, strict=True)
    values = (mean_sd([point[name] for point in points if point]) for name in ("accuracy", "auc"))
    return " / ".join(values) + (f" ({remarks(kinds)})" if any(kinds) else "")


def difference(readings, others, column):
    """Return the paired difference with its 95 % interval, over the splits in which both get there."""
    both = [(a, b) for (a, _), (b, _) in zip(readings, others, strict=True) if a and b]
    if len(both) < 3:
        return f"– ({len(both)})"
    found = paired(np.array([a[column] - b[column] for a, b in both]), TEST_SHARE / (1 - TEST_SHARE))
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}] ({len(both)})"


def distances(n_splits=10):
    splits = [split(load_compas(), n) for n in range(n_splits)]
    headings = [""] + [f"{'max gap' if name == 'max_gap' else 'gap at 0.5'} {t:.2f}" for name, t in TARGETS]
    for parity in (DP, EO):
        found = {}
        for (c, d), etas in ETAS.items():
            paths = [path(estimator(c, parity, distance=d), etas, *each) for each in splits]
            found[c, d] = [[read(points, t, name) for points in paths] for name, t in TARGETS]
        print_heading(f"{parity}, {n_splits} splits: accuracy / AUC")
        print_table(headings, ([f"{c}-{SUFFIX[d]}", *map(both_columns, found[c, d])] for c, d in found))
        for column in ("accuracy", "auc"):
            print(f"\nPaired difference in {column}, 95 % interval (splits in which both get there):")
            lines = []
            for c, d in (key for key in found if key[1] != "histogram"):
                pairs = zip(found[c, d], found[c, "histogram"], strict=True)
                lines.append([f"{c}: {SUFFIX[d]} − HA", *(difference(*pair, column) for pair in pairs)])
            print_table(headings, lines)


# 3. Where descent begins

STEPS, DESCRIBED = 5000, ("objective", "accuracy", "max gap", "sd")
STARTED = [("LSVM", "histogram", eta) for eta in (0.3, 0.5, 1.0)] + [("LSVM", "gaussian", 0.4)]
STARTED += [("LR", "histogram", 0.4), ("LR", "gaussian", 0.2), ("LR", "gap", 5.0)]
HOW = [("lbfgs", 10, 30), ("momentum", 1, 6)]  # solver, splits, random starts in each
FROM_ZERO = [("LR", "gaussian", 0.2), ("LR", "histogram", 0.4), ("LR", "gap", 5.0)]
FROM_ZERO += [("LSVM", "gaussian", 0.3), ("LSVM", "histogram", 0.3), ("LSVM", "gap", 5.0)]


def begin(classifier, theta, train, **settings):
    """Return a fit from θ = (w, b)."""
    model = estimator(classifier, warm_start=True, **settings)
    model.coef_, model.intercept_ = theta[None, :-1], theta[-1:]
    return model.fit(*train[:2], sensitive_features=train[2])


def described(points):
    digits = {"objective": 4, "accuracy": 3, "max_gap": 3, "score_sd": 3}
    return [f"{np.mean([point[name] for point in points]):.{n}f}" for name, n in digits.items()]


def counts(found, reference):
    """Return how many points collapsed, and how many others are as low as the reference, lower, higher."""
    others = [p["objective"] / reference["objective"] - 1 for p in found if p["score_sd"] >= COLLAPSED]
    lower, higher = (sum(sign * d > MACHINE_TOL for d in others) for sign in (-1, 1))
    return [len(found) - len(others), len(others) - lower - higher, lower, higher]


def starts():
    sizes = np.resize([0.1, 0.3, 1.0], 30)  # of the random coefficients, in turn
    thetas = sizes[:, None] * np.random.default_rng(0).standard_normal((30, 5))
    splits, lines = [split(load_compas(), n) for n in range(10)], []
    for (classifier, distance, eta), (solver, n_splits, n_starts) in product(STARTED, HOW):
        settings, tally, ends = {"distance": distance, "eta": eta}, np.zeros(4, int), []
        for train, test in splits[:n_splits]:
            on_path = estimator(classifier, **settings).fit(*train[:2], sensitive_features=train[2])
            more = settings | {"solver": solver, "max_iter": STEPS}
            models = [begin(classifier, theta, train, **more) for theta in thetas[:n_starts]]
            reference, found = on_test(on_path, test), [on_test(model, test) for model in models]
            tally += counts(found, reference)
            ends.append((reference, min(found, key=lambda point: point["objective"])))
        better = sum(low["objective"] < (1 - MACHINE_TOL) * fit["objective"] for fit, low in ends)
        cells = [cell for points in zip(*ends, strict=True) for cell in described(points)]
        name = [f"{classifier}-{SUFFIX[distance]}", eta, f"{solver}, {n_splits} × {n_starts}"]
        lines.append([*name, *tally, better, *cells])
    print_heading("Demographic parity: where random starts end, and the lowest end of each split (means)")
    columns = [f"{end}: {name}" for end in ("`fit`", "lowest") for name in DESCRIBED]
    counted = ("collapsed", "as `fit`", "lower", "higher", "splits with a lower end")
    print_table(["", "η", "splits × starts", *counted, *columns], lines)


def zero():
    """Print where the bare solvers end from w = 0, b = 0, where the estimators do not begin."""
    train, test = split(load_compas(), 0)
    X, y, group = train
    code, nothing = np.unique(group, return_inverse=True)[1], np.zeros(X.shape[1] + 1)
    lines = []
    for classifier, distance, eta in FROM_ZERO:
        loss, alpha = (LOGISTIC, 0.0) if classifier == "LR" else (HINGE, 1 / (10 * len(y)))
        settings = {"parity": DP, "distance": distance, "eta": eta, "alpha": alpha, "loss": loss}
        objective = linear_objective(X, y, code, **settings)
        slope = np.abs(objective(nothing)[1] - objective.with_eta(0.0)(nothing)[1]).max()
        model = estimator(classifier, distance=distance, eta=eta).fit(X, y, sensitive_features=group)
        again = begin(classifier, nothing, train, distance=distance, eta=eta)
        assert (again.coef_ == model.coef_).all()  # it follows the path all the same
        name = [f"{classifier}-{SUFFIX[distance]}", eta, f"{slope:.1g}"]
        lines.append([*name, "path (`fit`)", *described([on_test(model, test)])])
        found = {"momentum from 0": momentum(objective, nothing, max_iter=STEPS)}
        if classifier == "LR":
            found["L-BFGS from 0"] = lbfgs(objective, nothing, preconditioner=objective.preconditioner())
        for label, each in found.items():
            theta, model.objective_ = each.theta, each.value
            model.coef_, model.intercept_ = theta[None, :-1], theta[-1:]
            lines.append([*name, label, *described([on_test(model, test)])])
    print_heading("Split 0, demographic_parity: from exactly zero")
    print_table(["", "η", "penalty's gradient at 0", "from", *DESCRIBED], lines)


# 4. Which rows of COMPAS
def baseline(train, test):
    """Return the paper's seven figures of plain logistic regression, then the two max gaps."""
    model = FairLogisticRegression(eta=0).fit(*train[:2])
    dp, eo = (on_test(model, test, parity) for parity in (DP, EO))
    gaps = [found[name] for found in (dp, eo) for name in ("gap", "interval", "std")]
    return [dp["accuracy"], *gaps, dp["max_gap"], eo["max_gap"]]


def rows(n_splits=20, n_more=200):
    paper = np.array([*PAPER[DP]["Baseline"], *PAPER[EO]["Baseline"][1:]])
    lines, together = [["paper, one split", *(f"{value:.3f}" for value in paper), "", ""]], []
    for subset in ("two_races", "two_races_unfiltered"):
        data = load_compas(subset)
        found = np.array([baseline(*split(data, n)) for n in range(n_more)])
        few, many = found[:n_splits, : len(paper)], found[:, : len(paper)]
        z = (paper - few.mean(axis=0)) / (few.std(axis=0, ddof=1) * (1 + 1 / n_splits) ** 0.5)
        lines.append([f"{len(data.y)} rows", *(mean_sd(column) for column in found[:n_splits].T)])
        lines.append([f"z of the paper's among {n_splits}", *(f"{value:+.1f}" for value in z), "", ""])
        off = np.array([paper, *many]) - many.mean(axis=0)
        off = np.sqrt(np.einsum("ij,jk,ik->i", off, np.linalg.inv(np.cov(many.T)), off))
        together.append([f"{len(data.y)} rows", f"{off[0]:.2f}", f"{(off[1:] >= off[0]).mean():.0%}"])
    print_heading(f"Baseline, {n_splits} splits")
    gaps = [f"{name} {parity}" for parity in ("DP", "EO") for name in ("gap", "Int.", "STD")]
    print_table(["", "accuracy", *gaps, "max gap DP", "max gap EO"], lines)
    print(f"\nAll seven figures at once, among {n_more} splits:")
    print_table(["", "Mahalanobis distance of the paper's", "of our own splits as far off"], together)


# 5. γ and λ of the kernel machine
def kernel(n_splits=3, eta=10.0):
    splits, lines = [split(load_compas(), n) for n in range(n_splits)], []
    for gamma, factor in product((0.1, 0.5, 2.0), (0.1, 1, 10)):
        alpha = factor / (10 * len(splits[0][0][1]))
        model = estimator("KSVM", distance="histogram", gamma=gamma, alpha=alpha)
        ends = zip(*(path(model, [eta], *each) for each in splits), strict=True)
        cells = [mean_sd([p[name] for p in end]) for end in ends for name in ("accuracy", "max_gap", "auc")]
        lines.append([gamma, f"{factor:g}×", *cells])
    print_heading(f"KSVM-HA, demographic_parity, {n_splits} splits")
    print_table(
        ["γ", "λ", *(f"η = {e:g}: {n}" for e in (0, eta) for n in ("accuracy", "max gap", "AUC"))], lines
    )


SECTIONS = {each.__name__: each for each in (bins, distances, starts, zero, rows, kernel)}


def main() -> None:
    parser = option_parser(__doc__, quick=None)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="only these sections")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # strong ends of the paths collapse, as they should
    with results_file(parser, args):
        for section in args.only or SECTIONS:
            start = time.perf_counter()
            SECTIONS[section]()
            print(f"\n({section}: {time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
