"""The page of a study in a browser, whose errors and requests are asserted after each test."""
import pytest

from browser import Browser, find_browser
from report_page import make_study, report


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    results = make_study(folder)
    return results, report(folder / "report.html", results)


@pytest.fixture(scope="module")
def browser():
    with Browser(find_browser()) as opened:
        yield opened


@pytest.fixture
def page(browser, study):
    browser.errors.clear()
    browser.requests.clear()
    browser.open(study[1])
    yield browser
    assert browser.errors == []
    assert all(url.startswith(("file://", "data:")) or url == "about:blank" for url in browser.requests), \
        browser.requests
