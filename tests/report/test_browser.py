"""Pages in a real browser, on a phone and on a desk: nothing fetched, nothing cut off, readable.

Chromium comes from Debian (``apt-get install chromium``), axe-core from npm (``make test`` fetches
it into .venv); without them these tests are skipped, and a line says so.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import privem
from privem.report import Comparison, Report

from ..conftest import AXE, CHROMIUM
from ..examples import every_model, federate, fit, fitted, private
from .browser import DESKTOP, PHONE, Browser
from .test_page import HOSTILE, hostile, rng  # noqa: F401

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    made = Browser()
    yield made
    made.close()


def inspect(browser: Browser, path: Path, axe: bool = True) -> None:
    """What holds of every page at every width."""
    for size in (PHONE, DESKTOP):
        browser.open(path, size)
        width = browser.evaluate("document.documentElement.scrollWidth")
        assert width == size[0], f"{width} wide in a window of {size[0]}"
        assert browser.complaints == []
        assert browser.requests == [path.resolve().as_uri()]
        assert browser.evaluate("typeof window.pwned") == "undefined"
        assert browser.evaluate("document.scripts.length") == 0
        # Pictures are drawn, and no words stick out of them.
        assert browser.evaluate(OUTSIDE) == []
    if axe and AXE.exists():
        assert browser.axe() == []


# Words of a picture, where their box is not within the picture's.
OUTSIDE = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const outer = svg.getBoundingClientRect();
  if (!outer.width) return [];
  return [...svg.querySelectorAll("text:not(.number)")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < outer.left - 2 || box.right > outer.right + 2;
  }).map(text => text.textContent.slice(0, 60));
})"""


@every_model
def test_pages_of_every_model(declared, browser, tmp_path):
    model, _ = fitted(declared, True)
    Report(model, source="model.json", digest="0" * 64).save(tmp_path / "page.html")
    inspect(browser, tmp_path / "page.html")


@pytest.mark.parametrize("name", ["GaussianMixture", "TableMixture"])
def test_comparisons(name, browser, tmp_path):
    declared = privem.declaration.declared(name)
    models = {"private": fitted(declared, True)[0], "exact": fitted(declared, False)[0]}
    Comparison(models).save(tmp_path / "both.html")
    inspect(browser, tmp_path / "both.html")
    # What matters most is seen on a phone without scrolling sideways.
    browser.open(tmp_path / "both.html", PHONE)
    table = "document.querySelector('.words .scroll')"
    assert browser.evaluate(f"{table}.scrollWidth") <= browser.evaluate(f"{table}.clientWidth")
    Report(models["exact"]).save(tmp_path / "exact.html")
    inspect(browser, tmp_path / "exact.html", axe=False)


def test_hostile_names(hostile, browser, tmp_path):  # noqa: F811
    for name, model in hostile.items():
        Report(model, source=name, digest=name).save(tmp_path / "page.html")
        inspect(browser, tmp_path / "page.html")
        text = browser.evaluate("document.body.textContent")
        assert HOSTILE[0] in text
        assert HOSTILE[3] in text or HOSTILE[1] in text
    Comparison(dict(list(hostile.items())[:2])).save(tmp_path / "both.html")
    inspect(browser, tmp_path / "both.html")


def test_large_models_and_a_federation(browser, tmp_path, rng):  # noqa: F811
    X = pl.DataFrame({f"a column with a long name, {j}": rng.normal(size=300) for j in range(100)})
    wide = privem.KMeans(50, epsilon=8.0, bounds=4.0).fit(X)
    declared = next(each for each in privem.declaration.declarations() if each.density)
    for model in (wide, fit(private(declared), federate(declared))):
        Report(model).save(tmp_path / "page.html")
        # Whatever holds of small tables, axe-core would take long to find in large ones.
        inspect(browser, tmp_path / "page.html", axe=False)
        # What is folded opens, and does not break the page.
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.evaluate("document.documentElement.scrollWidth") == DESKTOP[0]


def test_a_notebook_shows_it_in_its_own_page(browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = privem.GaussianMixture(2, bounds=4.0).fit(X)
    text = f"<!doctype html><html lang='en'><title>a</title><body>{model._repr_html_()}"
    (tmp_path / "cell.html").write_text(f"{text}{Report(model)._repr_html_()}", "utf-8")
    browser.open(tmp_path / "cell.html", DESKTOP)
    assert browser.complaints == []
    assert browser.evaluate("document.querySelectorAll('svg[role=img]').length") == 1
    assert browser.evaluate("document.querySelector('iframe').clientHeight") > 400


def test_the_checks_find_what_is_wrong(browser, tmp_path):
    """A page with everything that must not be there."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><html><title>a</title><h1>a</h1><h4>b</h4><img src='http://a.invalid/b'>"
        "<p style='color:#eee;background:#fff;width:2000px'>faint</p>"
        "<svg role='img' width=20><text x=90>out</text></svg><script>console.log(1)</script>",
        "utf-8",
    )
    browser.open(path, PHONE)
    assert browser.evaluate("document.documentElement.scrollWidth") > PHONE[0]
    assert browser.complaints
    assert len(browser.requests) == 2
    assert browser.evaluate(OUTSIDE) == ["out"]
    if AXE.exists():
        found = " ".join(browser.axe())
        assert all(rule in found for rule in ("color-contrast", "heading-order", "image-alt"))


def test_it_prints_on_paper(browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 6))
    Report(privem.GaussianMixture(2, bounds=4.0).fit(X)).save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", DESKTOP)
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    # On paper everything fits the width, which is what a scroller would cut off.
    browser.ask("Emulation.setEmulatedMedia", media="print")
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=670,
        height=990,
        mobile=False,
        deviceScaleFactor=1,
    )
    assert browser.evaluate("document.documentElement.scrollWidth") <= 680
    browser.ask("Emulation.setEmulatedMedia", media="")
