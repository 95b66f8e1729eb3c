"""The showcase: an audit of the score that COMPAS itself gave, as `evenrisk audit` writes it.

Run as a script it makes README's picture of that page, with a real browser: python docs/audit_page.py
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from evenrisk.cli import main
from evenrisk.datasets import load_compas

PICTURE = Path(__file__).parent / "images" / "audit.png"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def write(path: Path) -> None:
    """Run the command on the shipped data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        scores = Path(folder) / "compas.csv"
        load_compas().frame.to_csv(scores, index=False)
        options = "--score decile_score --group race --label two_year_recid --favourable low --threshold 4"
        with redirect_stdout(StringIO()):
            main(["audit", str(scores), *options.split(), "--html", str(path)], standalone_mode=False)


def picture(page: Path, path: Path) -> None:
    """Photograph the top of the page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
        shown = browser.new_page(viewport={"width": 1120, "height": 1240}, color_scheme="light")
        shown.goto(page.as_uri())
        plot = shown.locator("figure").nth(1).bounding_box()
        clip = {"x": 0, "y": 0, "width": 1120, "height": plot["y"] + plot["height"]}
        shown.screenshot(path=path, clip=clip, full_page=True)
        browser.close()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        made = Path(folder) / "compas_audit.html"
        write(made)
        picture(made, PICTURE)
    print(f"written: {PICTURE}", file=sys.stderr)
