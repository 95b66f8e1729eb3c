"""The benchmarks as a folder: scripts are listed and have results, links lead somewhere, files are kept."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))
PAGES = sorted([*BENCHMARKS.glob("*.md"), *(BENCHMARKS / "results").glob("*.md")])


@pytest.fixture
def report():
    spec = importlib.util.spec_from_file_location("_report", BENCHMARKS / "_report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(report, tmp_path, monkeypatch):
    """Run a script that prints one table, with its results file in a temporary folder."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)

    def run(*arguments, fail=False):
        monkeypatch.setattr(sys, "argv", ["benchmarks/answer.py", *arguments])
        parser = report.option_parser("What the answer is.\n\nMore about it.", "fewer rows")
        parser.add_argument("--jobs", type=int, default=1)
        with report.results_file(parser, parser.parse_args()):
            report.print_table(["question", "answer"], [["all", 42]])
            if fail:
                raise RuntimeError
        return tmp_path / "answer.md"

    return run


def test_scripts_are_listed_and_have_results():
    assert len(SCRIPTS) > 10
    for page in ("README.md", "RESULTS.md"):
        named = re.findall(r"\| `(\w+)\.py` \|", (BENCHMARKS / page).read_text(encoding="utf-8"))
        assert sorted(set(named)) == SCRIPTS
    assert sorted(path.stem for path in (BENCHMARKS / "results").glob("*.md")) == SCRIPTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        text = (page.parent / path).read_text(encoding="utf-8")
        headings = [
            line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line[:1] == "#"
        ]
        assert not anchor or anchor in headings, target


def test_a_run_in_full_writes_its_results(run, capsys):
    written = run("--jobs", "2").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    assert written.startswith("# What the answer is\n\n`")
    assert "python benchmarks/answer.py --jobs 2`, " in written
    assert written.endswith("\n| question | answer |\n|---|---|\n| all | 42 |\n")


def test_what_is_written_by_hand_is_kept(run):
    file = run()
    by_hand = "\n## Reading\n\nIt is 42.\n"
    file.write_text(file.read_text(encoding="utf-8").replace("42", "41") + by_hand, encoding="utf-8")
    assert run().read_text(encoding="utf-8").endswith("| all | 42 |\n" + by_hand)
    assert [path.name for path in file.parent.iterdir()] == ["answer.md"]


def test_a_quick_run_writes_only_where_asked(run, tmp_path):
    assert not run("--quick").exists()
    other = tmp_path / "new folder" / "other.md"
    assert not run("--quick", "--out", str(other)).exists()
    assert "| all | 42 |" in other.read_text(encoding="utf-8")


def test_a_run_that_fails_leaves_the_file_alone(run):
    before = run().read_text(encoding="utf-8")
    with pytest.raises(RuntimeError):
        run(fail=True)
    assert run("--quick").read_text(encoding="utf-8") == before
