"""The command line, as a user runs it: in a process of its own."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from evenrisk import __version__, cli, paper
from evenrisk.paper.output import FILES
from evenrisk.paper.runner import load
from optional import need
from tiny_reproduce import TINY as tiny_protocol

HERE = Path(__file__).parent
TINY = [sys.executable, str(HERE / "tiny_reproduce.py")]
FIGURES = ("parity_curves", "risk_distributions", "tradeoff")


def run(*arguments, command=(sys.executable, "-m", "evenrisk.cli"), **environment):
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment
    )


def contents(folder):
    """Every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The same run twice: in one process, and in two."""
    need("cvxpy")
    need("dccp")
    need("lightgbm")
    folder = tmp_path_factory.mktemp("reproduce")
    done = [
        run("reproduce", "--splits", "3", "--out", str(folder / jobs), "--jobs", jobs, command=TINY)
        for jobs in ("1", "2")
    ]
    return done, folder


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0
    assert "fair at every threshold" in done.stdout
    assert "reproduce" in done.stdout
    assert run("--version").stdout.split()[-1] == __version__
    text = run("reproduce", "--help").stdout
    assert all(option in text for option in ("--splits", "--seed", "--out", "--quick", "--jobs"))


def test_reproduce_prints_tables_and_is_quiet_otherwise(results):
    (done, _), _ = results
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line and "building the font cache" not in line]
    assert lines == []  # no bar and no warning in a pipe
    for words in (
        "Table 1. Demographic parity",
        "Table 2. Equalized odds",
        "Baseline",
        "Zafar-DP",
        "Zafar-EO",
        "LR-HA",
        "by chance",
        "Does the claim hold?",
    ):
        assert words in done.stdout


def test_the_number_of_processes_changes_no_byte(results):
    done, folder = results
    assert [each.returncode for each in done] == [0, 0]
    one, two = contents(folder / "1"), contents(folder / "2")
    names = {"results.json", "tables.md", "tables.csv", "index.html"}
    names |= {f"{name}.{suffix}" for name in FIGURES for suffix in ("png", "svg", "csv")}
    names |= {"headline.png", "headline.svg"}
    names |= {f"{kind}/split_{i:03d}.npz" for kind in ("splits", "scores") for i in range(3)}
    assert set(one) == set(two) == names
    assert set(FILES) == {name for name in names if "/" not in name}
    for name in names:
        assert one[name] == two[name], name
    assert done[0].stdout.replace(str(folder / "1"), "") == done[1].stdout.replace(str(folder / "2"), "")


def test_tables_recomputed_from_the_saved_scores_equal_the_printed_ones(results):
    (done, _), folder = results
    script = HERE.parent / "scripts" / "recompute_tables.py"
    again = run(str(folder / "1"), command=(sys.executable, str(script)))
    assert again.returncode == 0, again.stdout
    row = next(line for line in again.stdout.splitlines() if line.startswith("LR-HA"))
    printed = next(line for line in done.stdout.splitlines() if line.strip().startswith("LR-HA"))
    for number in row.split()[1:]:
        assert number in printed

    # and the comparison can fail
    stored = json.loads((folder / "1" / "results.json").read_text())
    stored["tables"]["equalized_odds"][1]["rank_gap"]["sd"] += 1e-6
    spoilt = folder / "spoilt"
    spoilt.mkdir()
    (spoilt / "scores").symlink_to(folder / "1" / "scores")
    (spoilt / "results.json").write_text(json.dumps(stored))
    assert run(str(spoilt), command=(sys.executable, str(script))).returncode == 1


def test_figures_come_with_the_arrays_behind_them(results):
    _, folder = results
    rows = json.loads((folder / "1" / "results.json").read_text())["tables"]["demographic_parity"]
    baseline = next(row for row in rows if row["method"] == "Baseline")
    read = {"delimiter": ",", "names": True, "dtype": None, "encoding": "utf-8"}
    curves = np.genfromtxt(folder / "1" / "parity_curves.csv", **read)
    here = (curves["parity"] == "demographic_parity") & (curves["method"] == "Baseline")
    at_half = curves[here & (curves["threshold"] == 0.5)]
    assert at_half["gap_mean"][0] == pytest.approx(baseline["gap"]["mean"], rel=1e-12)
    path = np.genfromtxt(folder / "1" / "tradeoff.csv", **read)
    start = path[
        (path["parity"] == "demographic_parity") & (path["method"] == "LR-HA") & (path["eta_or_c"] == 0)
    ]
    assert start["accuracy_mean"][0] == pytest.approx(baseline["accuracy"]["mean"], rel=1e-12)
    bins = np.genfromtxt(folder / "1" / "risk_distributions.csv", **read)
    one = bins[(bins["parity"] == "DP") & (bins["method"] == "LR-HA") & (bins["level"] == "strong")]
    one = one[one["group"] == "Caucasian"]
    assert ((one["bin_right"] - one["bin_left"]) * one["density"]).sum() == pytest.approx(1)


def test_reproduce_measures_what_compas_is_known_for(results):
    _, folder = results
    summary = json.loads((folder / "1" / "results.json").read_text())
    rows = {row["method"]: row for row in summary["tables"]["demographic_parity"]}
    assert 0.64 < rows["Baseline"]["accuracy"]["mean"] < 0.70
    assert 0.23 < rows["Baseline"]["max_gap"]["mean"] < 0.32
    assert rows["Zafar-DP"]["gap"]["mean"] < 0.5 * rows["Baseline"]["gap"]["mean"]
    assert 0.03 < summary["noise_floor"]["demographic_parity"]["max_gap"]["mean"] < 0.06


def start(out, *arguments):
    command = [*TINY, "reproduce", "--splits", "3", "--out", str(out), *arguments]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs are deaf to it
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heard,
    )


def wait_for(path, process):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(session):
    """Processes of a session that are still running."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(path.parent.name)
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize(("how", "jobs"), [(signal.SIGINT, "1"), (signal.SIGINT, "2"), (signal.SIGKILL, "2")])
def test_an_interrupted_run_goes_on_where_it_stopped(results, tmp_path, how, jobs):
    _, folder = results
    out = tmp_path / "out"
    process = start(out, "--jobs", jobs)
    wait_for(out / "splits" / "split_000.npz", process)
    os.kill(process.pid, how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL), err
    if how == signal.SIGINT:
        assert "Finished splits are kept" in err
        assert "Traceback" not in err
    assert not (out / "results.json").exists()
    deadline = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(process.pid)  # workers do not outlive the command

    kept = {path: path.stat().st_mtime_ns for path in (out / "splits").glob("split_*.npz")}
    assert kept
    again = partial(run, command=TINY, EVENRISK_FIGURES="none")
    done = again("reproduce", "--splits", "3", "--out", str(out), "--jobs", jobs)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    # figures are drawn from what is compared here; two runs of them are compared above
    expected = {
        name: file
        for name, file in contents(folder / "1").items()
        if not name.startswith((*FIGURES, "headline"))
    }
    assert contents(out) == expected  # nothing is left over either


def test_splits_of_other_settings_or_half_written_ones_are_fitted_again(results, tmp_path):
    _, folder = results
    out = tmp_path / "out"
    (out / "splits").mkdir(parents=True)
    (out / "scores").mkdir()
    whole = (folder / "1" / "splits" / "split_001.npz").read_bytes()
    (out / "splits" / "split_000.npz").write_bytes(whole[: len(whole) // 2])
    (out / "splits" / "split_001.npz").write_bytes(whole)
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : len(whole) // 2 + 200] = b"x" * 200
    (out / "splits" / "split_002.npz").write_bytes(damaged)
    assert load(out, tiny_protocol(), 1) is not None
    assert [load(out, tiny_protocol(), split) for split in (0, 2)] == [None, None]
    scores = (folder / "1" / "scores" / "split_001.npz").read_bytes()
    (out / "scores" / "split_007.npz").write_bytes(scores)  # of an earlier run
    done = run(
        "reproduce", "--splits", "2", "--seed", "5", "--out", str(out), command=TINY, EVENRISK_FIGURES="none"
    )
    assert done.returncode == 0, done.stderr
    settings = json.loads((out / "results.json").read_text())["settings"]
    assert (settings["seed"], settings["splits"]) == (5, 2)
    with (
        np.load(out / "splits" / "split_001.npz") as fresh,
        np.load(folder / "1" / "splits" / "split_001.npz") as old,
    ):
        assert not np.array_equal(fresh["rows"], old["rows"])
    assert sorted(path.name for path in (out / "scores").iterdir()) == ["split_000.npz", "split_001.npz"]


def test_an_unwritable_folder_is_refused_before_the_work(monkeypatch, tmp_path):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cli._reproduce, "check_writable", refuse)  # root may write anywhere
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert f"--out must be a folder that can be written, got {tmp_path}: Permission denied" in done.output
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(cli._reproduce, "find_spec", lambda name: None if name == "dccp" else name)
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "need dccp: pip install dccp, or pip install '.[all]' in a clone of evenrisk" in done.output


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


SUMMARY = b'{"tables": {}, "noise_floor": {}, "claims": {}, "settings": {}}'
OURS = {"splits/split_000.npz": npz(settings="{}"), "scores/split_000.npz": npz(rows=[1])}
FOREIGN = [
    ({"index.html": b"my page"}, ["index.html"]),
    ({"tables.md": b"my tables", "notes.txt": b"mine"}, ["tables.md"]),
    ({"headline.svg": b"", "results.json": b"[1, 2]"}, ["headline.svg", "results.json"]),
    ({"results.json": b'{"tables": 1}'}, ["results.json"]),
    ({"splits": b"my file"}, ["splits"]),
    ({"scores": b"my file", **dict([*OURS.items()][:1])}, ["scores"]),
    ({"splits/split_000.npz": b"of somebody"}, ["splits/split_000.npz"]),
    ({"splits/split_001.npz": npz(x=[1])}, ["splits/split_001.npz"]),
    ({**OURS, "scores/split_017.npz": npz(x=[1])}, ["scores/split_017.npz"]),
    ({**OURS, "scores/split_001.npz/a": b"in a folder"}, ["scores/split_001.npz"]),
    ({**OURS, "tables.csv/a": b"in a folder"}, ["tables.csv"]),
    # and what is none
    ({}, []),
    ({"notes.txt": b"mine", "splits/split_000.csv": b"mine", "scores/split_x.npz": b"mine"}, []),
    ({"index.html": b"", "tables.md": b"", **OURS}, []),
    ({"index.html": b"", "results.json": SUMMARY}, []),
    ({"splits/split_000.npz": b"", "splits/split_001.npz": npz(settings="{}")[:50]}, []),  # half written
]


def test_a_folder_name_reaches_no_terminal_raw(monkeypatch, tmp_path):
    monkeypatch.setattr(cli._reproduce, "find_spec", lambda name: name)
    red, shown = tmp_path / "\x1b[31mred", f"{tmp_path}/\\x1b[31mred"
    red.touch()
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(red / "a")])
    assert done.exit_code == 2
    assert f"--out must be a folder that can be written, got {shown}/a: " in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize(("files", "foreign"), FOREIGN)
def test_no_file_of_others_is_written_over(monkeypatch, tmp_path, files, foreign):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    ran = []
    monkeypatch.setattr(cli._reproduce, "find_spec", lambda name: name)
    monkeypatch.setattr(paper, "run", lambda *arguments, **options: ran.append(arguments))
    before = contents(tmp_path)
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert contents(tmp_path) == before
    assert bool(ran) == (not foreign)
    if foreign:
        assert done.exit_code == 2
        assert f"earlier run, got {tmp_path}: no run has made {', '.join(foreign)}\n" in done.output


@pytest.mark.parametrize("when", ["run", "write_results"])
def test_a_full_disk_is_reported_and_what_is_finished_stays(monkeypatch, tmp_path, when):
    monkeypatch.setattr(cli._reproduce, "find_spec", lambda name: name)
    for name in ("run", "load_all", "Experiment", "summarise", "write_results", "print_tables"):
        monkeypatch.setattr(paper, name, lambda *arguments, **options: None)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(paper, when, full)
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert f"could not go on in {tmp_path}: No space left on device." in done.output
    assert f"Finished splits are kept in {tmp_path}/splits; run it again to go on" in done.output
    assert "Traceback" not in done.output


def test_a_closed_pipe_loses_no_results(monkeypatch, tmp_path):
    """All files are written before anything is printed."""
    monkeypatch.setattr(cli._reproduce, "find_spec", lambda name: name)
    for name in ("run", "load_all", "Experiment", "summarise"):
        monkeypatch.setattr(paper, name, lambda *arguments, **options: None)
    monkeypatch.setattr(paper, "write_results", lambda experiment, summary, out: (out / "x").touch())

    def closed(*arguments):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(paper, "print_tables", closed)
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert done.exit_code == 141
    assert done.output.strip() == ""  # rich 13.0 ends its bar with a line, also where there is none
    assert (tmp_path / "x").exists()


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")
def test_a_killed_worker_is_reported_and_nothing_is_lost(tmp_path):
    need("cvxpy")
    need("dccp")
    need("lightgbm")
    process = start(tmp_path, "--jobs", "2")
    wait_for(tmp_path / "splits" / "split_000.npz", process)
    workers = [pid for pid in alive(process.pid) if is_worker(pid)]
    os.kill(int(workers[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "a worker process was killed" in err
    assert "run it again to go on, with fewer --jobs" in err
    assert "Traceback" not in err
    assert (tmp_path / "splits" / "split_000.npz").exists()


def is_worker(pid):
    return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_bad_usage_is_exit_2_and_says_why(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("kept")
    done = run("reproduce", "--splits", "1", "--out", str(blocked / "below"))
    assert done.returncode == 2
    assert "--out must be a folder that can be written" in done.stderr
    assert blocked.read_text() == "kept"
    assert run("reproduce", "--splits", "0").returncode == 2
    assert run("reproduce", "--jobs", "0").returncode == 2
    both = run("reproduce", "--quick", "--splits", "7", "--out", str(tmp_path / "out"))
    assert both.returncode == 2
    assert "--quick is 3 splits" in both.stderr
    assert run("nonsense").returncode == 2
