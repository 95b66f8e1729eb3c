"""Settings every test shares."""

import os

# scikit-learn's checks skip their array API part unless this is set before SciPy is imported
os.environ["SCIPY_ARRAY_API"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from hypothesis import settings

from evenrisk.datasets import load_adult, load_compas

settings.register_profile("evenrisk", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("evenrisk")


def standardised(X):
    """Zero mean, unit variance; a constant column stays."""
    X = np.asarray(X, dtype=float)
    sd = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(sd > 0, sd, 1)


@pytest.fixture(scope="session")
def compas():
    """COMPAS, standardised: X, y, race."""
    X, y, race = load_compas()
    return standardised(X), y.to_numpy(), race.to_numpy()


@pytest.fixture(scope="session")
def adult():
    """Adult, one-hot and standardised: X, y, sex."""
    X, y, sex = load_adult(one_hot=True)
    return standardised(X), y.to_numpy(), sex.to_numpy()


@pytest.fixture(scope="session")
def browser():
    """A browser; started where a test needs one."""
    from audit_pages import FLAGS, chromium
    from optional import need

    playwright = need("playwright.sync_api")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open pages; in the end nothing may have gone wrong on any of them."""
    contexts, wrong = [], []

    def open_page(html, **options):
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda sent: sent.url == path.as_uri() or wrong.append(sent.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong
