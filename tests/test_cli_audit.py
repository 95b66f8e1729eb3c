"""`evenrisk audit`, as an auditor runs it: the gate as a process of its own, mistakes one by one."""

import errno
import gzip
import inspect
import io
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from evenrisk.cli import main
from evenrisk.datasets import load_compas
from evenrisk.report import audit

# click before 8.2 mixes the two streams unless told not to
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
RUNNER = CliRunner(**APART)


@pytest.fixture(scope="module")
def compas():
    return load_compas().frame


@pytest.fixture(scope="module")
def folder(compas, tmp_path_factory):
    """COMPAS as files."""
    path = tmp_path_factory.mktemp("audit")
    compas.to_csv(path / "compas.csv", index=False)
    compas.to_csv(path / "compas.csv.gz", index=False)
    compas.to_parquet(path / "compas.parquet")
    return path


def run(*arguments, stdin=None):
    """Run the command in this process."""
    done = RUNNER.invoke(main, ["audit", *map(str, arguments)], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def process(*arguments, stdin=None):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "evenrisk.cli", "audit", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


DECILES = ("--score", "decile_score", "--group", "race")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (
            ["--max-gap", "0.05"],
            1,
            "FAIL  decile_score, demographic parity: max gap 0.245 exceeds 0.05. A limit",
        ),
        (
            ["--max-gap", "0.25"],
            0,
            "PASS  decile_score, demographic parity: max gap 0.245 is within 0.25. Whether the true gap",
        ),
        (
            ["--max-gap", "0.25", "--strict"],
            1,
            "FAIL  decile_score, demographic parity: max gap 0.245 is not certified to be within 0.25. Whe",
        ),
        (
            ["--max-gap", "0.35", "--strict"],
            0,
            "The gap is certified to be at most 35 points at every cut-off",
        ),
        (["--max-gap", "1.5"], 2, "--max-gap must be a number above 0 and at most 1, got 1.5"),
        (["--strict"], 2, "--strict needs --max-gap"),
    ],
)
def test_the_gate(folder, options, status, words):
    done = process(folder / "compas.csv", *DECILES, *options)
    assert done.returncode == status, done.stderr
    assert words in (done.stdout + done.stderr).decode()


def test_the_gate_looks_at_every_score_under_every_rule_named(folder, tmp_path):
    frame = pd.read_csv(folder / "compas.csv")
    rng = np.random.default_rng(0)
    frame["dice"] = rng.random(len(frame))
    frame.to_csv(tmp_path / "two.csv", index=False)
    options = ("--group", "race", "--label", "two_year_recid", "--max-gap", "0.23")

    def judged(*more):
        done = run(tmp_path / "two.csv", *options, *more)
        return done.exit_code, re.findall("(PASS|FAIL)  ([a-z_]+), ([a-z ]+):", done.stdout)

    # the gap is .245 under demographic parity, .228 under equalized odds
    assert judged("--score", "dice") == (0, [("PASS", "dice", "demographic parity")])
    assert judged("--score", "dice", "--score", "decile_score") == (
        1,
        [("PASS", "dice", "demographic parity"), ("FAIL", "decile_score", "demographic parity")],
    )
    assert judged("--score", "decile_score", "--parity", "equalized_odds") == (
        0,
        [("PASS", "decile_score", "equalized odds")],
    )
    code, lines = judged(
        "--score", "decile_score", "--parity", "equalized_odds", "--parity", "demographic_parity"
    )
    assert code == 1
    assert [line[0] for line in lines] == ["PASS", "FAIL"]


def test_a_gap_equal_to_the_limit_keeps_it(tmp_path):
    """0.9 − 0.6 is a little more than 0.3 in binary."""
    scores = np.repeat([0, 1, 0, 1], [10, 90, 40, 60])
    frame = pd.DataFrame({"s": scores, "g": np.repeat(["a", "b"], 100)})
    frame.to_csv(tmp_path / "equal.csv", index=False)
    assert run(tmp_path / "equal.csv", "--score", "s", "--group", "g", "--max-gap", 0.3).exit_code == 0
    assert run(tmp_path / "equal.csv", "--score", "s", "--group", "g", "--max-gap", 0.2999).exit_code == 1


@pytest.mark.parametrize("name", ["compas.csv", "compas.csv.gz", "compas.parquet", "-", "- gz", "- parquet"])
def test_every_format_gives_the_same_audit(folder, tmp_path, name, compas):
    kind = name.partition(" ")[2]
    stdin = None
    if name.startswith("-"):
        stdin = (folder / f"compas.{'csv.gz' if kind == 'gz' else kind or 'csv'}").read_bytes()
    options = (*DECILES, "--label", "two_year_recid", "--favourable", "low", "--threshold", 4)
    done = run(
        name.partition(" ")[0] if stdin else folder / name,
        *options,
        "--json",
        tmp_path / "a.json",
        stdin=stdin,
    )
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    report = audit(
        compas["two_year_recid"],
        compas["decile_score"],
        sensitive_features=compas[["race"]],
        favourable="low",
        threshold=4,
    )
    assert json.loads((tmp_path / "a.json").read_text()) == report.summary
    for paragraph in report.summary["verdict"]:
        assert paragraph in done.stdout
    assert "0.245 [0.21" in done.stdout
    assert "1,829 of 3,175" in done.stdout


def test_the_page_is_the_report_s_and_a_pipe_gets_plain_text(folder, tmp_path, compas):
    done = process(folder / "compas.csv", *DECILES, "--html", tmp_path / "a.html")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
    report = audit(None, compas["decile_score"], sensitive_features=compas["race"])
    assert (tmp_path / "a.html").read_text() == report.to_html()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html"]


def test_several_groups_are_crossed_and_weights_count(compas, tmp_path):
    frame = compas.assign(w=np.where(compas["sex"] == "Male", 2, 1))
    frame.to_csv(tmp_path / "w.csv", index=False)
    options = (*DECILES, "--group", "sex", "--weight", "w", "--json", tmp_path / "w.json")
    assert run(tmp_path / "w.csv", *options).exit_code == 0
    summary = json.loads((tmp_path / "w.json").read_text())
    assert summary["groups"][0] == "African-American × Female"
    assert summary["settings"]["weighted"] is True


def test_percentages_and_raw_scores(compas, tmp_path):
    pd.DataFrame(
        {
            "percent": 10.0 * compas["decile_score"],
            "raw": compas["decile_score"] - 7.5,
            "race": compas["race"],
        }
    ).to_csv(tmp_path / "scales.csv", index=False)
    done = run(tmp_path / "scales.csv", "--score", "percent", "--score", "raw", "--group", "race")
    assert done.exit_code == 0
    assert done.stdout.count("0.245 [") == 2


def test_the_positive_outcome(compas, tmp_path):
    compas.assign(late=compas["two_year_recid"].map({0: "in time", 1: "late"})).to_csv(tmp_path / "l.csv")
    options = (*DECILES, "--label", "late")
    for positive, auc in ((None, 0.711), ("late", 0.711), ("in time", 0.289)):
        more = () if positive is None else ("--positive", positive)
        done = run(tmp_path / "l.csv", *options, *more, "--json", tmp_path / "l.json")
        assert done.exit_code == 0, done.output
        summary = json.loads((tmp_path / "l.json").read_text())
        assert summary["label"]["positive"] == (positive or "late")
        assert summary["scores"][0]["auc"]["overall"]["value"] == pytest.approx(auc, abs=1e-3)


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


ROWS = "".join(f"{i % 97 / 97},{'fm'[i % 2]},{'zé'[i % 2]},{i // 3 % 2}\n" for i in range(200))
GOOD = "score,sex,name,late\n" + ROWS


def broken(tmp_path, kind):
    """A file with one fault, and what to ask of it."""
    path = tmp_path / "in.csv"
    options = ["--score", "score", "--group", "sex"]
    if kind == "missing file":
        return tmp_path / "nowhere.csv", options
    if kind == "missing column":
        return write(path, GOOD), ["--score", "scroe", "--group", "sex"]
    if kind == "missing group column":
        return write(path, GOOD), ["--score", "score", "--group", "sexe"]
    if kind == "NaN":
        return write(path, GOOD + "nan,f,z,1\n"), options
    if kind == "empty score":
        return write(path, GOOD + ",f,z,1\n"), options
    if kind == "text":
        return write(path, GOOD + "high,f,z,1\n"), options
    if kind == "label not binary":
        return write(path, GOOD + "0.5,f,z,2\n"), [*options, "--label", "late"]
    if kind == "unknown positive":
        return write(path, GOOD), [*options, "--label", "late", "--positive", "yes"]
    if kind == "single group":
        return write(path, GOOD.replace(",m,", ",f,")), options
    if kind == "empty file":
        return write(path, ""), options
    if kind == "header only":
        return write(path, "score,sex\n"), options
    if kind == "wrong encoding":
        return write(path, GOOD, "latin-1"), [*options, "--group", "name"]
    if kind == "broken Parquet":
        target = io.BytesIO()
        pd.DataFrame({"score": [0.1, 0.2], "sex": ["f", "m"]}).to_parquet(target)
        path.write_bytes(target.getvalue()[:-20])
        return path, options
    if kind == "broken gzip":
        path.write_bytes(gzip.compress(GOOD.encode())[:-30])
        return path, options
    if kind == "positive without label":
        return write(path, GOOD), [*options, "--positive", "1"]
    if kind == "parity without label":
        return write(path, GOOD), [*options, "--parity", "equalized_odds"]
    if kind == "threshold":
        return write(path, GOOD), [*options, "--threshold", "nan"]
    if kind == "level":
        return write(path, GOOD), [*options, "--level", "95"]
    raise KeyError(kind)


BROKEN = {
    "missing file": "nowhere.csv: .*",
    "missing column": "score column 'scroe' must be in the file; did you mean 'score'",
    "missing group column": "group column 'sexe' must be in the file; did you mean 'sex'",
    "NaN": "score column 'score' must .*data row 201",
    "empty score": "score column 'score' must .*data row 201",
    "text": "score column 'score' must be finite numbers, got 'high' in data row 201",
    "label not binary": "label column 'late' must .*3.*--positive",
    "unknown positive": "positive must be a value of label column 'late', got 'yes'",
    "single group": r"--group must have 2 or more groups, got 1 \('f'\)",
    "empty file": "in.csv: .*empty",
    "header only": "at least 1 row",
    "wrong encoding": "UTF-8",
    "broken Parquet": "Parquet",
    "broken gzip": "gzip",
    "positive without label": "--positive needs --label",
    "parity without label": "--label is required under equalized_odds",
    "level": "--level must be a number above 0 and below 1, got 95",
    "threshold": "--threshold must be a finite number, got nan",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_bad_input_ends_with_status_2_and_writes_nothing(tmp_path, kind):
    path, options = broken(tmp_path, kind)
    page = tmp_path / "page.html"
    page.write_text("the old one")
    done = run(path, *options, "--html", page, "--json", tmp_path / "new.json")
    assert done.exit_code == 2
    assert re.search(BROKEN[kind], done.stderr, re.DOTALL), done.stderr
    assert "Traceback" not in done.output
    assert page.read_text() == "the old one"
    assert {each.name for each in tmp_path.iterdir()} <= {"in.csv", "page.html"}


def test_bad_input_as_a_process(tmp_path):
    done = process(tmp_path / "nowhere.csv", *DECILES)
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: ")
    assert process().returncode == 2


@pytest.mark.parametrize("parity", [(), ("--parity", "equalized_odds")])
@pytest.mark.parametrize(("limit", "status"), [(0.9, 0), (0.001, 1)])
def test_one_person_spoils_nothing(tmp_path, parity, limit, status):
    """The group is named, the gate judges the others, and nobody's rate of 0 or 1 is the gap."""
    options = ("--score", "score", "--group", "sex", "--label", "late", *parity, "--max-gap", limit)
    done = run(write(tmp_path / "in.csv", GOOD + "0.999,x,z,1\n"), *options)
    plain = run(write(tmp_path / "plain.csv", GOOD), *options)
    assert (done.exit_code, plain.exit_code) == (status, status)
    assert "Warning: Left out of equalized odds" in done.stderr
    assert "group 'x', 1 row (0 among people with late = 0)." in done.stderr
    assert "Left out: group x, 1 row" in done.stdout
    assert "x (left out)" in done.stdout
    last = [each.stdout.splitlines()[-1] for each in (done, plain)]
    assert last[0] == last[1]
    assert last[0].startswith("PASS  score, " if status == 0 else "FAIL  score, ")


def test_a_rule_asked_for_that_has_nobody_to_compare_is_bad_input(tmp_path):
    frame = pd.read_csv(io.StringIO(GOOD))
    frame.loc[frame["sex"] == "f", "late"] = 0
    frame.to_csv(tmp_path / "in.csv", index=False)
    options = ("--score", "score", "--group", "sex", "--label", "late", "--max-gap", 0.9)
    done = run(tmp_path / "in.csv", *options, "--parity", "equalized_odds")
    assert done.exit_code == 2
    assert "--group must have 2 or more groups of at least 2 rows of each outcome under" in done.stderr
    assert "group 'f', 100 rows (0 among people with late = 1)" in done.stderr
    shown = run(tmp_path / "in.csv", *options)
    assert shown.exit_code == 0
    assert "Equalized odds could not be measured" in shown.stderr
    assert "group 'f', 100 rows (0 among people with late = 1)" in shown.stderr


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_output_folder_missing_or_closed(folder, tmp_path, monkeypatch, option):
    done = run(folder / "compas.csv", *DECILES, option, tmp_path / "no" / "a.out")
    assert done.exit_code == 2
    assert f"{option} must be in a folder that can be written" in done.stderr

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("evenrisk.cli._audit.TemporaryFile", refuse)  # root may write anywhere
    done = run(folder / "compas.csv", *DECILES, option, tmp_path / "a.out")
    assert done.exit_code == 2
    assert "Permission denied" in done.stderr
    done = run(folder / "compas.csv", *DECILES, option, tmp_path)
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(folder, tmp_path, monkeypatch):
    (tmp_path / "a.html").write_text("the old one")

    def full(self, text, encoding=None):
        self.write_bytes(text[:100].encode())
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    done = run(folder / "compas.csv", *DECILES, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json")
    assert done.exit_code == 2
    assert "No space left on device. Nothing was written" in done.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.html", b"the old one")]


def test_outputs_must_differ_from_each_other_and_from_the_input(folder, tmp_path):
    data = write(tmp_path / "in.csv", GOOD)
    options = ("--score", "score", "--group", "sex")
    done = run(data, *options, "--json", data)
    assert done.exit_code == 2
    assert "--json must not be the file that is read" in done.stderr
    assert data.read_text() == GOOD
    done = run(data, *options, "--json", tmp_path / "a", "--html", tmp_path / "a")
    assert done.exit_code == 2
    assert "--html and --json must differ" in done.stderr


def test_a_rule_named_twice_counts_once(tmp_path):
    data = write(tmp_path / "in.csv", GOOD)
    rule = ("--parity", "demographic_parity")
    done = run(data, "--score", "score", "--group", "sex", *rule, *rule, "--max-gap", 1)
    assert done.stdout.count("PASS") == 1


def test_a_terminal_that_lacks_letters_gets_question_marks(tmp_path, monkeypatch):
    data = write(tmp_path / "in.csv", GOOD)
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")  # it has no dash
    done = process(data, "--score", "score", "--group", "sex", "--group", "name", "--max-gap", 1)
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout


def test_names_are_text_on_the_terminal_and_on_the_page(tmp_path):
    path = write(tmp_path / "in.csv", GOOD.replace(",f,", ",<script>alert(1)</script>,"))
    done = run(path, "--score", "score", "--group", "sex", "--html", tmp_path / "a.html")
    assert done.exit_code == 0
    assert "<script>alert(1)</script>" in done.stdout
    assert "<script>alert(1)</script>" not in (tmp_path / "a.html").read_text()
