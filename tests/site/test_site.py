"""The site: built without a warning, then opened page by page in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from ..conftest import AXE, CHROMIUM
from ..report.browser import DESKTOP, PHONE, Browser

pytest.importorskip("sphinx", reason="the site needs `pip install --group docs`")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name in ("id", "name") and value is not None:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs the tutorials too, unless they have run since they were changed."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs"]
    done = subprocess.run(
        [*command, "-d", str(folder / "trees"), ".", str(folder / "html")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> list[Path]:
    found = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.relative_to(site).parts]
    assert len(found) > 80
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


def test_links_and_anchors_exist(site: Path, pages: list[Path]) -> None:
    parsed = {path: Page(path) for path in pages}
    broken = []
    for path, page in parsed.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.is_file() and target.is_relative_to(site)
            if there and parts.fragment and target in parsed:
                there = unquote(parts.fragment) in parsed[target].anchors
            if not there:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_all_pages_are_reached_from_home(site: Path, pages: list[Path]) -> None:
    parsed = {path: Page(path) for path in pages}
    reached, waiting = set(), [site / "docs" / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in parsed:
            continue
        reached.add(path)
        for link in parsed[path].links:
            parts = urlsplit(link)
            if not parts.scheme and parts.path:
                waiting.append((path.parent / unquote(parts.path)).resolve())
    # Those of Sphinx, and what leads to the home page.
    others = {"genindex.html", "search.html", "index.html", "py-modindex.html"}
    missing = {str(p.relative_to(site)) for p in pages if p not in reached} - others
    assert missing == set()


@needs_browser
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_page_in_a_browser(
    site: Path, pages: list[Path], browser: Browser, size: tuple[int, int], mode: str
) -> None:
    wrong = []
    # Pages for people to read; sources of code are checked for what they ask for only.
    for path in pages:
        if path == site / "index.html":
            continue
        browser.open(path, size)
        browser.evaluate(f"document.documentElement.dataset.theme = '{mode}'; 0")
        # Colours change gradually; axe-core would find those in between.
        browser.evaluate("Promise.all(document.getAnimations().map(a => a.finished)).then(() => 0)")
        name = path.relative_to(site)
        wrong += [f"{name}: {text[:300]}" for text in browser.errors]
        wrong += [f"{name} asks for {url}" for url in browser.requests if _is_outside(url)]
        if name.parts[0] == "_modules":
            continue
        wide = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wide > 0:
            wrong.append(f"{name} is {wide} pixels too wide")
        if AXE.exists():
            wrong += [f"{name}: {problem}" for problem in browser.axe(serious=True)]
    assert wrong == []


def _is_outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


@needs_browser
def test_home_is_one_step_from_the_folder(site: Path, browser: Browser) -> None:
    browser.open(site / "index.html")
    browser.wait_for("document.title.includes('privem') && location.pathname.includes('/docs/')")


@needs_browser
def test_search_works_without_a_server(site: Path, browser: Browser) -> None:
    browser.open(site / "search.html", query="?q=ledger")
    browser.wait_for("document.querySelectorAll('#search-results li a').length > 3")
    found = browser.evaluate(
        "[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
    )
    assert any("ledger.html" in link for link in found)
    assert browser.errors == []
