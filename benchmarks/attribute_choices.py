"""What follows from who is compared: sex and race on Adult, age without bins, sex known as a probability.

Logistic regression, gap distance, demographic parity, alpha = 1e-4, on random 70/30 splits of all rows,
standardised on the training part. Each model goes along a path over η. A value "at a gap of …" is read off
the curve that the path draws on the *test* part, where the gap first falls so far. ± is the standard error
over splits; a split whose path never gets there is left out and counted.
"""

import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from _data import train_test
from _frontier_tables import at_gap, mean_and_error
from _report import option_parser, print_heading, print_table, results_file
from evenrisk import Comparison, FairLogisticRegression, threshold_profile
from evenrisk.datasets import load_adult

SPLITS = 5
ETAS = np.geomspace(0.3, 300, 19)
TARGETS = (0.10, 0.05)
PERMUTATIONS = 200
PLAIN = "nothing"


@cache
def adult():
    data = load_adult(one_hot=True)
    return data.X, data.y.to_numpy(), data.frame


def parts(seed, without=()):
    """Return (X, y, frame) of training and test rows, X without the columns named."""
    X, y, frame = adult()
    kept = [column for column in X.columns if column.partition("=")[0] not in without]
    split = train_test(X[kept].to_numpy(), y, np.arange(len(y)), seed)
    return [(X_part, y_part, frame.iloc[rows]) for X_part, y_part, rows in split]


def path(trained, comparison, train, test, who, etas, measure):
    """Return a line of measurements for each η; measure(model, score) → dict."""
    (X, y, _), (X_test, y_test, _) = train, test
    model = FairLogisticRegression(comparison=comparison, alpha=1e-4)
    lines = []
    for each in model.fit_path(X, y, etas, sensitive_features=who):
        score = each.predict_proba(X_test)[:, 1]
        line = {"trained": trained, "eta": each.eta, "auc": roc_auc_score(y_test, score)}
        lines.append(line | measure(each, score))
    return lines


def floors(profile, name):
    """Return the noise floor of a gap: mean and 95 % point."""
    floor = profile.noise_floor(PERMUTATIONS, random_state=0)
    return {f"{name} floor": floor.mean, f"{name} floor 95": floor.p95}


# ---------------------------------------------------------------- tables of paths


def at(frame, trained, target, column, on="own"):
    """Return a column of one training where `on` first falls to the target, split by split."""
    paths = frame[frame.trained == trained].groupby("split")
    return np.array([at_gap(each.assign(max_gap=each[on]), target, column) for _, each in paths])


def first(frame, trained, target, column, on="own"):
    """Return the most common value of a column of words at the first η within the target."""
    points = frame[(frame.trained == trained) & (frame[on] <= target)].groupby("split").first()
    if points.empty:
        return "–"
    value, times = Counter(points[column]).most_common(1)[0]
    return f"{value} ({times} of {len(points)})"


def plain(frame, column):
    """Return a column of the unpenalised model, split by split."""
    return frame[frame.eta == 0].groupby("split")[column].first().to_numpy()


def paired(values, others):
    """Return the mean difference of pairs where both are known, with its standard error and sign."""
    text = mean_and_error(np.asarray(values) - np.asarray(others))
    return text if text[0] in "-–" else f"+{text}"


def say(*sentences):
    print("\n" + " ".join(sentences), flush=True)


# ---------------------------------------------------------------- 1. sex and race

# Under 1.5 %: the groups that a rule of 2 % leaves out of all 48,842 rows. Asian men are 2.05 % of them, and
# would be compared in one part and not in another.
MIN_SHARE = 0.015
SEX, RACE, CROSSED = "sex", "race", "sex × race"
EVERYTHING = Comparison(columns="each and crossed", min_share=MIN_SHARE)
TRAININGS = {  # columns, comparison, and what the model is trained for
    "sex": ([SEX], Comparison(), [SEX]),
    "race": ([RACE], Comparison(min_share=MIN_SHARE), [RACE]),
    "each": ([SEX, RACE], Comparison(columns="each", min_share=MIN_SHARE), [SEX, RACE]),
    "crossed": ([SEX, RACE], Comparison(min_share=MIN_SHARE), [CROSSED]),
    "each and crossed": ([SEX, RACE], EVERYTHING, [SEX, RACE, CROSSED]),
}


def sex_and_race(seed, etas):
    train, test = parts(seed, without=("race",))
    attributes = test[2][[SEX, RACE]]

    def measure(model, score):
        profile = threshold_profile(None, score, sensitive_features=attributes, comparison=EVERYTHING)
        each = profile.by_attribute
        line = {name: each[name].max_gap for name in (SEX, RACE, CROSSED)}
        line |= {"worst": max(line[SEX], line[RACE]), "between": " – ".join(each[CROSSED].worst_groups)}
        line["own"] = max(line[name] for name in TRAININGS[trained][2])
        line["left out"] = ", ".join(sorted(profile.left_out))
        if trained == "sex" and model.eta == 0:
            for name in (SEX, RACE, CROSSED):
                line |= floors(each[name], name)
        return line

    lines = []
    for trained, (columns, comparison, _) in TRAININGS.items():
        who = train[2][columns]
        lines += path(trained, comparison, train, test, who, etas, measure)
    return lines


def print_sex_and_race(frame):
    n = frame.split.nunique()
    left_out = sorted({name for names in frame["left out"] for name in names.split(", ")})
    print_heading(
        f"Sex and race: the plain model, {n} splits",
        "Inputs: Adult's columns without sex and without race; the same for all trainings. Groups under "
        f"1.5 % of the people (min_share=.015) are in no comparison: {', '.join(left_out)}. Those are the "
        "groups under 2 % of all rows, the limit of some audit laws; 2 % itself cuts through Asian men "
        "(2.05 %), who would be compared in one split and not in the next. Noise floor: the max gap of a "
        "score that has nothing to do with the attribute, at these group sizes.",
    )
    print_table(
        ["gap of", "max gap, plain", "noise floor, mean", "noise floor, 95 % point"],
        (
            [name, *(mean_and_error(plain(frame, name + end)) for end in ("", " floor", " floor 95"))]
            for name in (SEX, RACE, CROSSED)
        ),
    )
    say(f"AUC of the plain model: {mean_and_error(plain(frame, 'auc'))}.")

    print_heading(
        "Sex and race: each training where its own gap is .10, .08 and .05",
        "Its own gap: of sex, of race, the larger of the two (each), of the crossed groups, or the largest "
        "of all three. Last column: between whom the crossed gap is largest, in most splits.",
    )
    columns = ("auc", SEX, RACE, CROSSED)
    print_table(
        ["trained with", "own gap", "AUC", "gap of sex", "of race", "crossed", "crossed gap between"],
        (
            [
                trained,
                f"{target:.2f}",
                *(mean_and_error(at(frame, trained, target, column)) for column in columns),
                first(frame, trained, target, "between"),
            ]
            for target, trained in product((0.10, 0.08, 0.05), TRAININGS)
        ),
    )
    each, crossed = (at(frame, name, 0.10, "auc") for name in ("each", "crossed"))
    left = at(frame, "each", 0.10, CROSSED)
    say(
        f"At an own gap of .10, the AUC of each is {paired(each, plain(frame, 'auc'))} beside the plain "
        f"model and that of crossed {paired(crossed, plain(frame, 'auc'))}; each − crossed: "
        f"{paired(each, crossed)}.",
        f"Each leaves a crossed gap of {mean_and_error(left)}, "
        f"{np.nanmean(left) / 0.10:.1f} times the .10 that sex and race have on their own.",
        f"Along the whole path its lowest crossed gap is {lowest(frame, 'each', CROSSED)}, that of crossed "
        f"{lowest(frame, 'crossed', CROSSED)}.",
    )

    print_heading("Sex and race: AUC at the same gap")
    print_table(
        ["gap", *(f"trained with {name}" for name in TRAININGS)],
        (
            [
                f"{words} {target:.2f}",
                *(mean_and_error(at(frame, trained, target, "auc", on)) for trained in TRAININGS),
            ]
            for words, on, targets in (
                ("larger of sex and race", "worst", (0.10, 0.08, 0.05)),
                ("crossed", CROSSED, (0.20, 0.15, 0.10, 0.05)),
            )
            for target in targets
        ),
    )
    same = [at(frame, name, 0.10, "auc", "worst") for name in ("crossed", "each")]
    both = [at(frame, name, 0.10, "auc", CROSSED) for name in ("each and crossed", "crossed")]
    say(
        f"Where sex and race are both within .10, crossed − each: {paired(*same)};",
        f"there crossed has a crossed gap of {mean_and_error(at(frame, 'crossed', 0.10, CROSSED, 'worst'))}.",
        f"Where the crossed gap is .10, each and crossed − crossed: {paired(*both)}.",
    )


def lowest(frame, trained, column):
    return mean_and_error(frame[frame.trained == trained].groupby("split")[column].min())


# ---------------------------------------------------------------- 2. age

FEW, SOME = 0.02, 0.05  # least share of the people on each side of a cut
BINS = (25, 37, 40)  # 37 is the median


@cache
def years(share):
    """Return every age at which so many people are on both sides, of all rows."""
    age = adult()[2].age.to_numpy()
    found = np.unique(age)
    upto = np.searchsorted(np.sort(age), found, side="right") / len(age)
    return found[(upto >= share) & (upto <= 1 - share)].tolist()


def ordered(cuts):
    return Comparison(ordered={"age": cuts})


def age_trainings():
    bins = {f"two bins, up to {cut} and over": ordered([cut]) for cut in BINS}
    return {"ordered (ten quantiles)": Comparison(ordered=True)} | bins | {"every year": ordered(years(FEW))}


def age(seed, etas):
    train, test = parts(seed, without=("age",))
    ages = test[2][["age"]]

    def profile(score, comparison):
        return threshold_profile(None, score, sensitive_features=ages, comparison=comparison)

    def measure(model, score):
        wide, narrow = (profile(score, ordered(years(share))) for share in (FEW, SOME))
        line = {"gap": wide.max_gap, "narrow gap": narrow.max_gap, "cut": cut(wide)}
        line |= {"narrow cut": cut(narrow), "own": profile(score, model.comparison_).max_gap}
        if trained.startswith("ordered") and model.eta == 0:
            line |= floors(wide, "gap") | floors(narrow, "narrow gap")
            line |= {f"two bins {at}": profile(score, ordered([at])).max_gap for at in BINS}
            line |= {f"floor {at}": profile(score, ordered([at])).noise_floor(99, 0).mean for at in BINS}
        return line

    lines = []
    for trained, comparison in age_trainings().items():
        lines += path(trained, comparison, train, test, train[2][["age"]], etas, measure)
    return lines


def cut(profile):
    """Return the cut of the worst gap, and which side has the higher rate."""
    higher = profile.worst_groups[0].split()
    return f"{higher[-1]}, {'older' if 'over' in higher else 'younger'} higher"


def print_age(frame):
    n = frame.split.nunique()
    wide, narrow = years(FEW), years(SOME)
    ends, narrow_ends = (f"{each[0]} to {each[-1]}" for each in (wide, narrow))
    print_heading(
        f"Age: the plain model, {n} splits",
        "Inputs: Adult's columns without sex and without age; race is one. All ages: those up to a year "
        f"against those over it, at every year with 2 % of the people on both sides ({ends}); or with 5 % "
        f"({narrow_ends}), which has a lower noise floor.",
    )

    def lines():
        for words, gap, where in (
            (f"all ages, {ends}", "gap", "cut"),
            (f"all ages, {narrow_ends}", "narrow gap", "narrow cut"),
        ):
            cells = [mean_and_error(plain(frame, gap + end)) for end in ("", " floor", " floor 95")]
            yield [words, cells[0], first(frame, "ordered (ten quantiles)", 1, where), *cells[1:]]
        for at in BINS:
            cells = [mean_and_error(plain(frame, f"{name} {at}")) for name in ("two bins", "floor")]
            yield [f"two bins, up to {at} and over", cells[0], str(at), cells[1], ""]

    headings = ["gap of", "max gap, plain", "worst cut", "noise floor, mean", "noise floor, 95 % point"]
    print_table(headings, lines())
    share = plain(frame, f"two bins {BINS[1]}") / plain(frame, "gap")
    say(
        f"AUC of the plain model: {mean_and_error(plain(frame, 'auc'))}.",
        f"Two bins at the median show {100 * share.mean():.0f} % of the worst gap over all ages.",
    )

    print_heading(
        "Age: each training where its own gap is .10 and .05",
        "Its own gap: at its ten cuts, between its two bins, or at every year. The others are over all ages.",
    )
    columns = ("auc", "gap", "narrow gap")
    print_table(
        ["trained with", "own gap", "AUC", f"gap, {ends}", f"gap, {narrow_ends}", f"worst cut, {ends}"],
        (
            [
                trained,
                f"{target:.2f}",
                *(mean_and_error(at(frame, trained, target, column)) for column in columns),
                first(frame, trained, target, "cut"),
            ]
            for target, trained in product(TARGETS, age_trainings())
        ),
    )
    ten, *bins = (at(frame, name, 0.10, "gap") for name in age_trainings())
    say(
        f"With its own gap at .10, ordered leaves {mean_and_error(ten)} over all ages;",
        "two bins leave "
        + ", ".join(f"{mean_and_error(left)} (at {at})" for at, left in zip(BINS, bins, strict=False))
        + ".",
    )

    print_heading("Age: AUC at the same gap over all ages")
    print_table(
        ["trained with", *(f"{e}: {t:.2f}" for e in (ends, narrow_ends) for t in TARGETS), "lowest gap"],
        (
            [
                trained,
                *(
                    mean_and_error(at(frame, trained, target, "auc", gap))
                    for gap, target in product(("gap", "narrow gap"), TARGETS)
                ),
                f"{lowest(frame, trained, 'gap')}; {lowest(frame, trained, 'narrow gap')}",
            ]
            for trained in age_trainings()
        ),
    )
    ten, *bins = (at(frame, name, 0.10, "auc", "narrow gap") for name in age_trainings())
    say(
        f"At a gap of .10 over the ages {narrow_ends}, AUC beside that of ordered: "
        + ", ".join(f"two bins at {at} {paired(b, ten)}" for at, b in zip(BINS, bins, strict=False))
        + f"; every year {paired(bins[-1], ten)}."
    )


# ---------------------------------------------------------------- 3. sex as a probability

PROXIES = {  # columns that the prediction of sex does not see
    "all columns": (),
    "without relationship": ("relationship",),
    "without relationship, marital status": ("relationship", "marital_status"),
}
TRUTH = "true sex"
SHOWN_ETAS = (0.3, 3, 30, 300)


def proxy(seed, without):
    """Return the probability of being a man: out of fold for training rows, and of test rows."""
    (X, _, frame), (X_test, _, _) = parts(seed, without)
    model, male = LogisticRegression(max_iter=1000), (frame.sex == "Male").to_numpy()
    out_of_fold = cross_val_predict(model, X, male, cv=5, method="predict_proba")[:, 1]
    return [soft(p) for p in (out_of_fold, model.fit(X, male).predict_proba(X_test)[:, 1])]


def soft(p):
    return pd.DataFrame({"Female": 1 - p, "Male": p})


def probabilities(seed, etas):
    train, test = parts(seed)
    proxies = {name: proxy(seed, without) for name, without in PROXIES.items()}
    sex = test[2].sex

    def measure(model, score):
        def profile(who, comparison="crossed"):
            return threshold_profile(None, score, sensitive_features=who, comparison=comparison)

        true = profile(sex)
        line = {"own": true.max_gap}
        for name, (_, table) in proxies.items():
            line[f"soft {name}"] = profile(table, "probabilities").max_gap
            line[f"guess {name}"] = profile(table.Male > 0.5).max_gap
            line[f"sex AUC {name}"] = roc_auc_score(sex == "Male", table.Male)
            line[f"right {name}"] = ((table.Male > 0.5).to_numpy() == (sex == "Male")).mean()
            if trained == TRUTH and model.eta == 0:
                line |= floors(profile(table, "probabilities"), f"soft {name}")
        if trained == TRUTH and model.eta == 0:
            line |= floors(true, "own")
        return line

    trained = TRUTH
    lines = path(trained, "crossed", train, test, train[2].sex, etas, measure)
    for trained, (table, _) in proxies.items():
        lines += path(trained, "probabilities", train, test, table, etas, measure)
    return lines


def print_probabilities(frame):
    n = frame.split.nunique()
    print_heading(
        f"Sex as a probability: the plain model, {n} splits",
        "Inputs of the score: Adult's columns without sex; relationship (husband, wife) and race are inputs. "
        "Sex is predicted by a plain logistic regression from the same columns, from those without "
        "relationship, and without relationship and marital status: out of fold for training rows, by a "
        "model of all training rows for test rows. The gap by probabilities is the true one if, among people "
        "of the same probability, the score has nothing to do with sex. By guess: everybody counts as the "
        "likelier.",
    )

    def lines():
        cells = [mean_and_error(plain(frame, "own" + end)) for end in ("", " floor", " floor 95")]
        yield [TRUTH, "1", "1", cells[0], "", *cells[1:]]
        for name in PROXIES:
            figures = [f"{what} {name}" for what in ("sex AUC", "right", "soft", "guess")]
            figures += [f"soft {name} floor", f"soft {name} floor 95"]
            yield [name, *(mean_and_error(plain(frame, each)) for each in figures)]

    headings = ["sex predicted from", "AUC of sex", "guessed right", "max gap, plain", "by guess"]
    print_table([*headings, "noise floor, mean", "noise floor, 95 % point"], lines())
    true = plain(frame, "own")
    say(
        f"AUC of the plain model: {mean_and_error(plain(frame, 'auc'))}.",
        "Measured by probabilities − true gap: "
        + "; ".join(f"{name} {paired(plain(frame, f'soft {name}'), true)}" for name in PROXIES)
        + ". By guess − true gap: "
        + "; ".join(f"{name} {paired(plain(frame, f'guess {name}'), true)}" for name in PROXIES)
        + ".",
    )

    print_heading(
        "Sex as a probability: at the same η",
        "Trained with the true sex or with the probabilities. The gap by probabilities is that of the same "
        "prediction of sex (of the model trained with the true sex: of all three, in this order).",
    )

    def same_eta():
        for eta in SHOWN_ETAS:
            for trained in (TRUTH, *PROXIES):
                here = frame[(frame.trained == trained) & np.isclose(frame.eta, eta)]
                measured = PROXIES if trained == TRUTH else [trained]
                seen = "; ".join(mean_and_error(here[f"soft {name}"]) for name in measured)
                yield [f"{eta:g}", trained, mean_and_error(here.auc), mean_and_error(here.own), seen]

    print_table(["η", "trained with", "AUC", "true gap", "gap by probabilities"], same_eta())
    last = {name: frame[(frame.trained == name) & (frame.eta == frame.eta.max())] for name in PROXIES}
    say(
        f"At η = {frame.eta.max():g}, gap by probabilities − true gap of the model trained with them: "
        + "; ".join(f"{name} {paired(each[f'soft {name}'], each.own)}" for name, each in last.items())
        + "."
    )

    print_heading("Sex as a probability: AUC at the same true gap")
    print_table(
        ["trained with", *(f"true gap {target:.2f}" for target in TARGETS), "lowest true gap"],
        (
            [
                trained,
                *(mean_and_error(at(frame, trained, target, "auc")) for target in TARGETS),
                lowest(frame, trained, "own"),
            ]
            for trained in (TRUTH, *PROXIES)
        ),
    )
    truth = at(frame, TRUTH, 0.10, "auc")
    say(
        "At a true gap of .10, AUC beside training with the true sex: "
        + "; ".join(f"{name} {paired(at(frame, name, 0.10, 'auc'), truth)}" for name in PROXIES)
        + "."
    )


# ----------------------------------------------------------------

QUESTIONS = {
    "sex-and-race": (sex_and_race, print_sex_and_race),
    "age": (age, print_age),
    "probabilities": (probabilities, print_probabilities),
}


def start_process():
    threadpool_limits(1)
    warnings.simplefilter("ignore")  # strong ends of the paths collapse, as they should


def main() -> None:
    parser = option_parser(__doc__, "2 splits, every third eta")
    parser.add_argument("--only", choices=QUESTIONS)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    n, thin = (2, 3) if args.quick else (SPLITS, 1)
    etas = (0.0, *ETAS[::thin])
    with (
        results_file(parser, args),
        ProcessPoolExecutor(args.processes, initializer=start_process) as pool,
    ):
        asked = [args.only] if args.only else QUESTIONS
        jobs = {name: [pool.submit(QUESTIONS[name][0], seed, etas) for seed in range(n)] for name in asked}
        for name, splits in jobs.items():
            frames = [pd.DataFrame(job.result()).assign(split=seed) for seed, job in enumerate(splits)]
            QUESTIONS[name][1](pd.concat(frames))


if __name__ == "__main__":
    main()
