"""A page of invented results, and a browser that shows it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page import chromium, results_of_demo
from thinwire.publish.page.page import write


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a suite without comparisons and claims."""
    results = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        results_of_demo.publish(results, patch)
    return results


@pytest.fixture(scope="session")
def results(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with every table, and the page."""
    folder = tmp_path_factory.mktemp("page") / "results"
    shutil.copytree(plain, folder)
    results_of_demo.compare(folder)
    results_of_demo.claim(folder)
    results_of_demo.time_without_data(folder)
    write(folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    if (reason := chromium.why_not()) is not None:
        if os.environ.get("THINWIRE_REQUIRE_CHROMIUM"):
            pytest.fail(f"the tests of the page are required, and {reason}")
        pytest.skip(reason)
    started = chromium.Chromium(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture
def page(browser: chromium.Chromium, results: Path) -> chromium.Chromium:
    """The page of all results in the browser, on a cell that was simulated, with its charts."""
    browser.requests.clear()
    browser.errors.clear()
    browser.size(1200)
    browser.open((results / "index.html").as_uri())
    browser.wait("document.querySelectorAll('.chart[role=img]').length === 4")
    return browser
