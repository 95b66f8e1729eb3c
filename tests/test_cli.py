"""The command line, as a user runs it: in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from evenrisk import __version__, cli


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "evenrisk.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    done = [run("reproduce", "--splits", "2", "--out", str(folder / name)) for name in ("one", "two")]
    return done, folder


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0
    assert "fair at every threshold" in done.stdout
    assert "reproduce" in done.stdout
    assert run("--version").stdout.split()[-1] == __version__


def test_reproduce_prints_tables_and_is_quiet_otherwise(results):
    (done, _), _ = results
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line and "building the font cache" not in line]
    assert lines == []  # no bar and no warning in a pipe
    for word in (
        "Demographic parity",
        "Equalized odds",
        "Baseline",
        "LR-HA",
        "LR-GA",
        "LR-gap",
        "Chance alone",
    ):
        assert word in done.stdout


def test_reproduce_writes_the_same_bytes_every_time(results):
    _, folder = results
    names = sorted(path.name for path in (folder / "one").iterdir())
    assert names == [
        "parity_curves.csv",
        "parity_curves.png",
        "parity_curves.svg",
        "results.json",
        "tables.csv",
        "tables.md",
    ]
    for name in names:
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes(), name


def test_reproduce_measures_what_compas_is_known_for(results):
    _, folder = results
    summary = json.loads((folder / "one" / "results.json").read_text())
    rows = {row["method"]: row for row in summary["tables"]["demographic_parity"]}
    assert 0.64 < rows["Baseline"]["accuracy"]["mean"] < 0.70
    assert 0.23 < rows["Baseline"]["max_gap"]["mean"] < 0.32
    assert rows["LR-gap"]["max_gap"]["mean"] < 0.6 * rows["Baseline"]["max_gap"]["mean"]
    assert 0.03 < summary["noise_floor"]["demographic_parity"]["max_gap"]["mean"] < 0.06
    table = (folder / "one" / "tables.md").read_text()
    assert f"{rows['Baseline']['accuracy']['mean']:.3f}" in table
    curves = np.genfromtxt(
        folder / "one" / "parity_curves.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    at_half = curves[
        (curves["parity"] == "demographic_parity")
        & (curves["method"] == "Baseline")
        & (curves["threshold"] == 0.5)
    ]
    assert at_half["gap_mean"][0] == pytest.approx(rows["Baseline"]["gap"]["mean"], rel=1e-12)


def test_an_unwritable_folder_is_refused_before_the_work(monkeypatch, tmp_path):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(cli, "TemporaryFile", refuse)  # root may write anywhere
    done = CliRunner().invoke(cli.main, ["reproduce", "--splits", "1", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert f"--out must be a folder that can be written, got {tmp_path}: Permission denied" in done.output
    assert not list(tmp_path.iterdir())


def test_bad_usage_is_exit_2_and_says_why(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("kept")
    done = run("reproduce", "--splits", "1", "--out", str(blocked / "below"))
    assert done.returncode == 2
    assert "--out must be a folder that can be written" in done.stderr
    assert blocked.read_text() == "kept"
    assert run("reproduce", "--splits", "0").returncode == 2
    assert run("nonsense").returncode == 2
