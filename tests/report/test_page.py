"""Pages of models with names that attack them, of large ones, of ledgers; and their words."""

import re
import sqlite3
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

import privem
from privem import Budget, Ledger, LedgerError
from privem.core import Spent
from privem.meter import ReleaseRecord, Statement
from privem.report import Comparison, Report
from privem.report.apart import told_apart
from privem.report.costs import lines
from privem.report.html import clean, table, tag
from privem.report.shapes import Shapes, pairs_to_show
from privem.report.svg import scatter

from .pages import Page, check

HOSTILE = [
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "' onload='window.pwned=1",
    "</title></style><svg onload=window.pwned=1>",
    "&amp;&lt;b&gt;",
    "שם בעברית",
    "left\u202eright\u2066\x00\x1b[31m",
    "x" * 5000,
]


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def hostile(rng):
    """Models with columns, categories and a data set that nobody should trust."""
    n = 600
    X = pl.DataFrame({name: rng.normal(size=n) for name in HOSTILE})
    words = pl.DataFrame({name: rng.choice(HOSTILE, n) for name in HOSTILE[:3]})
    bounds = dict.fromkeys(HOSTILE, (-5, 5))
    return {
        HOSTILE[0]: privem.GaussianMixture(2, bounds=bounds, random_state=0).fit(X),
        HOSTILE[1]: privem.CategoricalMixture(
            2, categories=dict.fromkeys(HOSTILE[:3], HOSTILE), random_state=0
        ).fit(words),
        "target": privem.RegressionMixture(2, bounds=5.0, target_bounds=5.0, random_state=0).fit(
            X, y=HOSTILE[3]
        ),
    }


def test_names_are_text_wherever_they_stand(hostile):
    for name, model in hostile.items():
        page = check(Report(model, source=name, digest=name).html)
        assert HOSTILE[0] in page.text
        assert not re.search("[\u202e\u2066\x00\x1b]", page.text)
        check(Comparison({name: model, name + "'": model}).html)
        tags = {tag for tag, _ in Page(model._repr_html_()).tags}
        assert not {"script", "img"} & tags


def test_a_name_is_cleaned_and_text_is_escaped():
    assert clean("\ud800 a\u2028b") == "\ufffd a\ufffdb"
    assert len(clean("x" * 500)) == 80
    # What follows a name from right to left keeps its order.
    assert clean("\u05d0\u05d1 \u05d2 [-5]") == "\u05d0\u05d1 \u05d2 \u200e[-5]"
    assert (
        tag("p", "<b>", tag("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    )


@pytest.mark.parametrize(("rows", "columns"), [(50, 6), (3, 100), (50, 100), (2000, 300), (0, 0)])
def test_large_tables_are_folded_and_lose_nothing_unsaid(rows, columns):
    cells = [[f"r{i}c{j}" for j in range(columns)] for i in range(rows)]
    names = [f"c{j}" for j in range(columns)]
    made = table("Numbers", names, [(f"r{i}", line) for i, line in enumerate(cells)])
    page = Page(made)
    open_part, _, folded = made.partition("<details>")
    assert open_part.count("<tr>") <= 25
    assert open_part.count("<td>") <= 24 * 8 + 1
    shown = set(re.findall(r"r\d+c\d+", page.text))
    left = re.search(r"another ([\d,]+) are in the model file", page.text)
    missing = 0 if left is None else int(left[1].replace(",", "")) * columns
    assert len(shown) + missing == rows * columns
    assert missing == 0 or rows * columns > 20_000
    if rows > 24:
        assert f"{rows - 12 - missing // max(columns, 1):,} more rows" in page.text
    if columns > 8:
        assert f"{columns - 8} more columns" in page.text
    assert bool(folded) == (rows > 24 or columns > 8)


def test_many_columns_and_components(rng):
    X = rng.normal(size=(300, 100))
    with pytest.warns(ConvergenceWarning):
        model = privem.GaussianMixture(50, covariance_type="diag", epsilon=None, max_iter=1).fit(X)
    page = check(Report(model).html)
    assert "88 more columns" in page.text
    assert "12 heaviest of 50" in page.text
    short = model._repr_html_()
    assert len(short) < 100_000
    assert "(the first 8 of 101 rows)" in short


def statement(*releases, delta=1e-6):
    return Statement(1.0, delta, 0.9, "record", "add-remove", "auto", releases)


def spent(kind="gaussian", scale=8.0, **more):
    return Spent("sums", kind, 1, 1.0, 0.0, 2.0**-24, int(scale * 2**24), **more)


def test_parts_of_the_budget_add_up():
    made = statement(
        ReleaseRecord("count", (spent(scale=16.0),)),
        *(ReleaseRecord(f"EM {i}", (spent(),)) for i in (1, 2, 3)),
        ReleaseRecord("EM", (spent("laplace"),)),
    )
    count, steps = lines(made)
    assert (count.releases, steps.releases) == (1, 4)
    assert count.share + steps.share == pytest.approx(1.0)
    # Half the noise is four times the cost.
    assert count.share == pytest.approx(1 / 17, rel=1e-6)
    only = statement(*(ReleaseRecord("a", (spent("laplace", 4.0),)),) * 1, delta=0.0)
    assert lines(only)[0].share == 1.0
    two = statement(
        ReleaseRecord("a", (spent("laplace", 4.0),)), ReleaseRecord("b", (spent("laplace", 8.0),))
    )
    assert lines(two)[0].share == pytest.approx(2 / 3, rel=1e-6)


def test_nobody_pays_for_two_cells_of_a_partition():
    made = statement(
        ReleaseRecord("count", (spent(),)),
        *(ReleaseRecord(f"EM {i}", (spent(cell=i),)) for i in range(5)),
    )
    count, steps = lines(made)
    assert count.share == steps.share == pytest.approx(0.5)


class Mixture:
    """Components whose errors are known."""

    _parts, _effects = "components", ()
    _apart = ("means_",)
    privacy_ = object()

    def __init__(self, means, weights, alike=()):
        self.means_, self.weights_ = np.array(means), np.array(weights)
        self._pairs = list(alike)

    def _alike(self):
        return self._pairs


def said(model, **errors):
    return Page(told_apart(model, errors)).text


def test_words_say_what_noise_hides():
    weights = {"weights_": np.full(3, 0.1)}
    clear = said(Mixture([[0.0], [1.0], [2.0]], [0.3, 0.3, 0.4]), **weights)
    assert "All 3 components can be told apart" in clear
    assert "nothing but noise" not in clear
    dim = said(Mixture([[0.0]] * 3, [0.5, 0.45, 0.05], [(0, 2)]), **weights)
    assert "cannot be told apart, because they differ by no more than noise: 0 and 2." in dim
    assert "below two standard errors: 2 (0.05 ± 0.10)" in dim
    one = Mixture([[0.0]] * 3, [1 / 3] * 3)
    one.structure_ = "single"
    assert "all 3 components are the same one" in said(one, **weights)
    many = Mixture([[0.0]] * 30, [1 / 30] * 30, [(0, k) for k in range(1, 30)])
    assert "and 17 more" in said(many, weights_=np.full(30, 1e-3))


def test_words_name_coefficients_that_may_be_zero():
    model = Mixture([[0.0]], [1.0])
    model._effects, model._apart, model.coef_ = ("coef_",), (), np.array([3.0, 0.1])
    model._names = lambda prefix: ["age", "<b>"]
    text = said(model, coef_=np.array([0.5, 0.5]))
    assert "1 of 2 coefficients cannot be told from zero" in text
    assert "<b>: 0.10 ± 0.50" in text
    assert "All 2 coefficients" in said(model, coef_=np.array([0.01, 0.01]))


def test_a_real_fit_tells_apart_what_differs(rng):
    far = np.concatenate([rng.normal(0, 1, (3000, 2)), rng.normal(9, 1, (3000, 2))])
    model = privem.GaussianMixture(2, epsilon=4.0, bounds=(-5, 15), random_state=0).fit(far)
    assert model._alike() == []
    assert "All 2 components can be told apart" in Report(model).html
    # The same two with errors as large as their distance.
    model._uncertainty = {
        name: np.full(np.shape(getattr(model, name)), 100.0) for name in ("means_", "covariances_")
    }
    model._near = lambda: np.ones((2, 2), dtype=bool)
    assert model._alike() == [(0, 1)]


def test_columns_that_show_most():
    centres = np.array([[0.0, 0.0, 5.0, 1.0], [0.0, 9.0, -5.0, 1.0]])
    shapes = Shapes.of_mixture(np.full(2, 0.5), centres, np.ones((2, 4)))
    assert pairs_to_show(list("abcd"), shapes, {}, columns=2) == [(1, 2)]
    x = np.linspace(0, 1, 50)
    drawn = {"a": x, "b": x[::-1], "d": np.sin(40 * x)}
    assert pairs_to_show(list("abcd"), None, drawn)[0] == (0, 1)
    assert pairs_to_show(list("abcd"), None, {}) == []


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "b.db", "cohort <i>", Budget(epsilon=3, delta=1e-6)) as made:
        yield made


def test_the_ledger_is_shown(ledger, rng, tmp_path):
    model = privem.KMeans(2, bounds=4.0, ledger=ledger).fit(rng.normal(size=(400, 2)))
    alone = check(Report(model).html).text
    assert "cohort <i>" in alone
    assert "was not given to this page" in alone
    assert alone.rstrip().endswith("from the model alone.")
    text = check(Report(model, ledger=ledger).html).text
    assert "The ledger verifies, and has the entry of this model." in text
    assert text.rstrip().endswith("from the model and the ledger alone.")
    assert "epsilon 3 at delta 1e-06 per record (add-remove)" in text
    assert f"epsilon {ledger.remaining:.4g} at delta 1e-06" in text
    assert ledger.who not in text
    # A ledger of another data set is not shown as this one's.
    with (
        Ledger(tmp_path / "c.db", "others", Budget(epsilon=3, delta=1e-6)) as other,
        pytest.raises(LedgerError, match="this one is of 'others'"),
    ):
        Report(model, ledger=other)
    assert "charged to no ledger" in Report(_like(model, ledger=None)).html


def test_a_ledger_that_cannot_be_read_is_said_to_be_so(ledger, rng):
    model = privem.KMeans(2, bounds=4.0, ledger=ledger).fit(rng.normal(size=(400, 2)))
    with sqlite3.connect(ledger.where) as database:
        database.execute("UPDATE privem_entries SET body = '<script>' WHERE sequence = 2")
    text = check(Report(model, ledger=ledger).html).text
    assert "does not verify: entry 2: it cannot be read" in text
    assert "one more fit may have" not in text


def _like(model, **changes):
    """A model with another statement."""
    other = object.__new__(type(model))
    vars(other).update(vars(model) | {"privacy_": replace(model.privacy_, **changes)})
    return other


def test_numbers_at_the_edge_of_a_picture_are_whole():
    """Digits are at most 7.2 wide there, and the picture is 300."""
    for most in (1.0, 300.0, 30_000.0):
        drawn = str(scatter(("a", "b"), (0, 1), ((0.0, most), (0.0, most)), None, None))
        middles = re.findall(r'text-anchor="middle">\u2068([^<]*)\u2069', drawn)
        places = re.findall(r'x="([\d.]+)"[^>]*text-anchor="middle"', drawn)
        assert len(middles) == len(places) > 2
        for said, x in zip(middles, places, strict=True):
            assert float(x) + 7.2 * len(said) / 2 <= 300.1, (said, x)


def test_models_that_are_not_comparable_say_so(rng):
    X = rng.normal(size=(400, 2))
    one = privem.KMeans(2, bounds=4.0).fit(X)
    other = _like(one, unit="person")
    text = check(Comparison({"one": one, "other": other}).html).text
    assert "about different changes of the data" in text
    text = check(Comparison({"one": one, "other": privem.KMeans(3, bounds=4.0).fit(X)}).html).text
    assert "different numbers of clusters" in text
    fa = privem.FactorAnalysis(1, bounds=4.0).fit(X)
    assert "different kinds" in check(Comparison({"one": one, "other": fa}).html).text


def test_a_weak_promise_is_called_weak(rng):
    model = privem.KMeans(2, bounds=4.0).fit(rng.normal(size=(400, 2)))
    assert "weak promise" not in Report(model).html
    weak = Report(_like(model, epsilon=8.0)).html
    assert "weak promise" in weak
    assert "at most 2,981, give or take a probability of one in 1,000,000" in weak
    assert "give or take" not in Report(_like(model, delta=0.0)).html


def test_old_files_without_standard_errors_have_a_page(rng, tmp_path):
    model = privem.KMeans(2, bounds=4.0).fit(rng.normal(size=(400, 2)))
    model.uncertainty()
    del model._uncertainty
    assert "saved before standard errors were" in check(Report(model).html).text
    Report(model).save(tmp_path / "page.html")
    assert check((tmp_path / "page.html").read_text("utf-8"))


def test_a_page_in_a_notebook_is_framed_and_cannot_act(rng):
    model = privem.KMeans(2, bounds=4.0).fit(rng.normal(size=(400, 2)))
    shown = Report(model)._repr_html_()
    (frame,) = Page(shown).tags
    assert frame[0] == "iframe"
    assert frame[1]["sandbox"] == ""
    assert frame[1]["srcdoc"] == Report(model).html
