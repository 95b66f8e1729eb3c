"""`evenrisk audit`, as an auditor runs it: the gate as a process of its own, mistakes one by one."""

import errno
import gzip
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from evenrisk.cli import main
from evenrisk.datasets import load_compas
from evenrisk.exceptions import SmallCellWarning
from evenrisk.report import audit
from full_disk import full_disk

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
    done = run(folder / "compas.csv", *DECILES, *options)
    assert done.exit_code == status, done.stderr
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--max-gap", "0.05"], 1, b"FAIL  decile_score, demographic parity: max gap 0.245 exceeds 0.05"),
        (["--max-gap", "0.25"], 0, b"PASS  decile_score, demographic parity: max gap 0.245 is within 0.25"),
        (["--max-gap", "1.5"], 2, b"--max-gap must be a number above 0 and at most 1, got 1.5"),
    ],
)
def test_the_gate_as_a_process(folder, options, status, words):
    done = process(folder / "compas.csv", *DECILES, *options)
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr


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
        said = (
            "--label has the labels 'in time', 'late': 'late', the last in alphabetical order, is taken as "
        )
        assert (f"Warning: {said}" in done.stderr) == any(said in each for each in summary["warnings"])
        assert (said in done.stderr) == (positive is None)


@pytest.mark.parametrize(
    ("values", "guessed"),
    [("01", False), (("1.0", "10"), False), (("False", "True"), False), (("yes", "No"), "'No', 'yes'")],
)
def test_a_positive_outcome_is_guessed_among_words_alone(tmp_path, values, guessed):
    rows = "".join(f"{i % 97 / 97},{'fm'[i % 2]},{values[i // 3 % 2]}\n" for i in range(200))
    path = write(tmp_path / "in.csv", "score,sex,late\n" + rows)
    done = run(path, "--score", "score", "--group", "sex", "--label", "late")
    assert done.exit_code == 0
    assert ("Pass --positive to say which one it is." in done.stderr) == bool(guessed)
    assert not guessed or f"--label has the labels {guessed}: 'yes', the last" in done.stderr


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


@pytest.fixture(scope="module")
def small_report():
    score = np.arange(200) % 97 / 97
    with pytest.warns(SmallCellWarning):
        return audit(
            None,
            score,
            sensitive_features=["f"] * 100 + ["m"] * 80 + ["x"] * 20,
            max_gap=[0.0001, 1],
            n_resamples=100,
        )


@pytest.fixture
def made(small_report, tmp_path_factory, monkeypatch):
    """Arguments of an audit that takes no time, and prints a warning and a verdict."""
    monkeypatch.setattr("evenrisk.report.audit", lambda *data, **options: small_report)
    data = write(tmp_path_factory.mktemp("made") / "in.csv", GOOD)
    return str(data), "--score", "score", "--group", "sex"


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def ended(*arguments):
    """The exit status of the program's own entry point."""
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments)], prog_name="evenrisk")
    return caught.value.code


class Panic(BaseException):
    """As a library in Rust raises it."""


ERRORS = [
    (RuntimeError("unforeseen"), 3),
    (RecursionError("too deep"), 3),
    (MemoryError(), 3),
    (ZeroDivisionError(), 3),
    (KeyError("unforeseen"), 3),
    (AssertionError(), 3),
    (NotImplementedError(), 3),
    (ImportError("a broken installation"), 3),
    (EOFError(), 3),
    (RuntimeWarning("as an error"), 3),
    (GeneratorExit(), 3),
    (Panic(), 3),
    (SystemExit(1), 3),
    (SystemExit("unforeseen"), 3),
    (click.Abort(), 3),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "page.html"), 3),
    (OSError(errno.EIO, "Input/output error"), 2),
    (click.ClickException("with the status that click gives it"), 2),
    (click.FileError("x"), 2),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "status"), ERRORS)
def test_no_error_ends_with_the_status_of_the_gate(made, monkeypatch, capsys, error, status):
    monkeypatch.setattr("evenrisk.cli._audit._print_audit", raising(error))
    assert ended("audit", *made, "--max-gap", "0.0001") == status
    said = capsys.readouterr().err
    assert ("Traceback" in said) == (status == 3)
    assert bool(said.strip()) == (status < 100)


@pytest.mark.parametrize("where", ["evenrisk._score_file.read_table", "evenrisk.report.audit"])
def test_a_file_that_cannot_be_read_to_its_end_is_bad_input(made, monkeypatch, capsys, where):
    monkeypatch.setattr(where, raising(OSError(errno.EIO, "Input/output error")))
    assert ended("audit", *made, "--max-gap", "0.0001") == 2
    assert "in.csv: must be a file that can be read, got: Input/output error" in capsys.readouterr().err


def full(tmp_path):
    return open("/dev/full", "w")


def closed_pipe(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def closed(tmp_path):
    stream = open(tmp_path / "stream", "w")  # noqa: SIM115
    stream.close()
    return stream


def missing(tmp_path):
    return None


GATE = ("--max-gap", "0.0001")
STREAMS = [
    ("stdout", full, GATE, 2),
    ("stdout", closed_pipe, GATE, 141),
    ("stdout", closed, GATE, 3),
    ("stdout", missing, GATE, 1),  # the verdict, to nobody
    ("stdout", full, ("--help",), 2),
    ("stdout", closed_pipe, ("--help",), 141),
    ("stderr", full, GATE, 2),  # there is a warning to print
    ("stderr", closed_pipe, GATE, 141),
    ("stderr", missing, GATE, 1),
    ("stderr", full, ("--nonsense",), 2),
    ("stderr", closed_pipe, ("--nonsense",), 2),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize(("stream", "kind", "options", "status"), STREAMS)
def test_a_stream_that_takes_nothing_is_no_verdict(
    made, tmp_path, monkeypatch, stream, kind, options, status
):
    broken = kind(tmp_path)
    monkeypatch.setattr(sys, stream, broken)
    assert ended("audit", *made, *options) == status
    if broken is not None and kind is not closed:
        broken.close()  # what was left in it has been dropped


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_what_is_held_back_is_written_before_the_end(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("evenrisk.cli._audit._print_audit", lambda summary: print("held back"))
    with full(tmp_path) as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert ended("audit", *made) == 2
    assert "could not print: No space left on device" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_as_a_process_a_full_output_and_a_closed_pipe_are_no_verdict(tmp_path):
    """The interpreter flushes its streams once more, and must find nothing to complain of."""
    command = [sys.executable, "-m", "evenrisk.cli", "--help"]
    for kind, status, words in (
        (full, 2, b"Error: could not print: No space left on device\n"),
        (closed_pipe, 141, b""),
    ):
        with kind(tmp_path) as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr) == (status, words)


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_an_interrupted_process_ends_with_130(tmp_path):
    command = [sys.executable, "-m", "evenrisk.cli", "audit", "-", "--score", "score", "--group", "sex"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs are deaf to it
    with subprocess.Popen(
        [*command, "--max-gap", "0.001", "--json", tmp_path / "a.json"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heard,
    ) as child:
        child.stdin.write(GOOD.encode() * 400)  # more than a pipe holds: it has begun to read
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert said.strip() == b""
    assert list(tmp_path.iterdir()) == []


def test_a_group_of_one_row_is_a_warning_that_names_it(tmp_path):
    path = write(tmp_path / "in.csv", GOOD + "0.5,x,z,1\n")
    done = run(path, "--score", "score", "--group", "sex")
    assert done.exit_code == 0
    assert "Warning: Left out of demographic parity" in done.stderr
    assert "group 'x', 1 row." in done.stderr
    assert "x 1" in done.stdout


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
    assert last[0] == f"{last[1]} Left out: 1 group (1 of 201 rows)."
    assert last[0].startswith("PASS  score, " if status == 0 else "FAIL  score, ")


def test_the_gate_says_how_many_it_did_not_judge_and_names_a_few(tmp_path):
    alone = "".join(f"0.5,only {i:03},z,1\n" for i in range(100))
    options = ("--score", "score", "--group", "sex", "--label", "late", "--max-gap", 0.9)
    done = run(write(tmp_path / "in.csv", GOOD + alone), *options)
    assert done.exit_code == 0
    last = done.stdout.splitlines()[-1]
    assert last.startswith("PASS  score, ")
    assert last.endswith(" Left out: 100 groups (100 of 300 rows).")
    warned = [line for line in done.stderr.splitlines() if "Left out of " in line]
    assert len(warned) == 2
    for line in warned:
        assert "group 'only 003', 1 row" in line
        assert line.endswith("; and 96 more groups.")
        assert len(line) < 400


def test_a_rule_asked_for_that_has_nobody_to_compare_is_bad_input(tmp_path):
    frame = pd.read_csv(io.StringIO(GOOD))
    frame.loc[frame["sex"] == "f", "late"] = 0
    frame.to_csv(tmp_path / "in.csv", index=False)
    options = ("--score", "score", "--group", "sex", "--label", "late", "--max-gap", 0.9)
    done = run(tmp_path / "in.csv", *options, "--parity", "equalized_odds")
    assert done.exit_code == 2
    assert "--group must have 2 or more groups of at least 30 rows of each outcome under" in done.stderr
    assert "group 'f', 100 rows (0 among people with late = 1)" in done.stderr
    shown = run(tmp_path / "in.csv", *options)
    assert shown.exit_code == 0
    assert "Equalized odds could not be measured" in shown.stderr
    assert "group 'f', 100 rows (0 among people with late = 1)" in shown.stderr


def test_names_in_the_data_are_no_names_of_arguments(tmp_path):
    """Messages name the options of the command; a group or a column with the name of an argument stays."""
    options = ("--score", "score", "--group", "sex")
    done = run(write(tmp_path / "one.csv", "score,sex\n0.1,`y_true`\n0.2,`y_true`\n"), *options)
    assert done.exit_code == 2
    assert "--group must have 2 or more groups, got 1 ('`y_true`')" in done.stderr
    few = "score,sex\n0.1,`level`\n0.2,`y_score`\n0.3,`y_score`\n"
    done = run(write(tmp_path / "few.csv", few), *options)
    assert "--group must have 2 or more groups of at least 30 rows under" in done.stderr
    assert "Too few rows: group '`level`', 1 row" in done.stderr
    done = run(tmp_path / "few.csv", "--score", "`parity`", "--group", "sex")
    assert "score column '`parity`' must be in the file" in done.stderr


@pytest.mark.parametrize("option", ["--html", "--json"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no/a.out", "No such file or directory"),
        ("x" * 300, "File name too long"),
        ("file/a.out", "Not a directory"),
        ("", "is a directory"),
        ("closed/a.out", "Permission denied"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    tmp_path, monkeypatch, option, name, words
):
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    whole = os.open

    def refuse(path, *flags, **more):
        if "closed" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return whole(path, *flags, **more)

    monkeypatch.setattr(os, "open", refuse)  # root may write anywhere
    monkeypatch.setattr("evenrisk._score_file.read_table", raising(AssertionError("work")))
    done = run("scores.csv", *DECILES, option, tmp_path / name)
    assert done.exit_code == 2
    assert option in done.stderr
    assert words in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["closed", "file"]


def test_a_file_name_reaches_no_terminal_raw(tmp_path, monkeypatch):
    data = write(tmp_path / "in.csv", GOOD)
    options = ("--score", "score", "--group", "sex")
    red, shown = tmp_path / "\x1b[31mred", f"{tmp_path}/\\x1b[31mred"
    done = run(data, *options, "--html", red)
    assert f"Written: {shown}\n" in done.stdout
    for more in (("--html", red / "a"), ("--html", red, "--json", red)):
        refused = run(data, *options, *more)
        assert refused.exit_code == 2
        assert shown in refused.stderr
        assert "\x1b" not in done.output + refused.output
    refused = run(red, *options, "--html", red)
    assert f"must not be the file that is read, got {shown}" in refused.stderr
    monkeypatch.setattr("evenrisk.cli._audit.write_texts", raising(OSError(errno.ENOSPC, "No space left")))
    refused = run(data, *options, "--html", red)
    assert f"could not write {shown}: No space left" in refused.stderr


def test_a_full_disk(folder, tmp_path):
    (tmp_path / "a.html").write_text("the old one")
    with full_disk(1000):
        done = run(
            folder / "compas.csv", *DECILES, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json"
        )
    assert done.exit_code == 2
    assert "a.json: File too large. Nothing was written" in done.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.html", b"the old one")]


def test_both_outputs_are_put_in_place_or_none_and_the_message_is_true(made, tmp_path, monkeypatch):
    """The second name is refused, and then the first cannot be taken back either."""
    page, numbers = tmp_path / "a.html", tmp_path / "a.json"
    page.write_text("the old one")
    whole = type(page).replace

    def replace(self, target):
        if target == numbers:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(self), None, str(target))
        return whole(self, target)

    monkeypatch.setattr(type(page), "replace", replace)
    done = run(*made, "--html", page, "--json", numbers)
    assert done.exit_code == 2
    assert "a.json: Operation not permitted. Nothing was written" in done.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.html", b"the old one")]

    monkeypatch.setattr("evenrisk._files._Replacement.undo", lambda self: False)
    done = run(*made, "--html", page, "--json", numbers)
    assert done.exit_code == 2
    assert f"could not write {numbers}: Operation not permitted. Written all the same: {page}" in done.stderr
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs /dev/fd")
def test_an_output_may_be_standard_output(made, monkeypatch, capsys):
    """As ``--json /dev/stdout | jq``: the pipe holds the numbers, and what is printed goes elsewhere."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "w") as out, monkeypatch.context() as patch:
        patch.setattr("evenrisk._files.STANDARD", (writer, 2))
        patch.setattr(sys, "stdout", out)
        assert ended("audit", *made, "--json", f"/dev/fd/{writer}", "--max-gap", "1") == 0
        out.close()
        assert json.load(pipe)["rows"] == 200
    assert "PASS  score" in capsys.readouterr().err


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
