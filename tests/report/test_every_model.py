"""Every model has its page, whatever it is: from its file alone, and well formed."""

import re

import numpy as np
import pytest

import privem
from privem.report import Comparison, Report
from privem.report.sections import NO_PROMISE

from ..examples import every_model, fitted
from .pages import Page, check

SECTIONS = [
    "Privacy statement",
    "The model",
    "What can be told apart",
    "Synthetic records",
    "What was released, and its cost",
    "Ledger",
    "How to cite and reproduce",
]


@every_model
@pytest.mark.parametrize("is_private", [False, True], ids=["exact", "private"])
def test_it_has_a_page(declared, is_private, tmp_path):
    model, _ = fitted(declared, is_private)
    text = Report(model).html
    page = check(text)
    titles = [title for tag, title in page.headings if tag == "h2"]
    if is_private:
        assert titles == SECTIONS
        assert str(model.privacy_) in page.text
        assert NO_PROMISE not in page.text
        for record in model.privacy_.releases:
            assert re.sub(r"\s*\d+$", "", record.name) in page.text
    else:
        assert titles == [title for title in SECTIONS if title not in SECTIONS[4:6]]
        assert NO_PROMISE in page.text
        assert "differentially private" not in page.text
    if is_private:
        # The file holds no row and no release, and gives the same page: nothing else is in it.
        model.save(tmp_path / "model.json")
        assert Report(privem.load(tmp_path / "model.json")).html == text


@every_model
def test_its_parameters_are_shown_with_their_errors(declared):
    model, _ = fitted(declared, True)
    text = check(Report(model).html).text
    table = declared.table(model, vars(model))
    assert table.title in text
    assert table.caption.rstrip(":") + " ± standard error of the noise" in text
    assert all(column in text for column in table.columns)


@every_model
def test_it_is_compared_with_itself_and_with_an_exact_fit(declared):
    model, _ = fitted(declared, True)
    other, _ = fitted(declared, False)
    text = check(Comparison({"one": model, "other": other}).html).text
    assert "there is none together" in text
    text = check(Comparison({"one": model, "other": model}).html).text
    assert re.search(r"epsilon \d\.\d+ at delta 2e-06", text)
    assert re.search(r"(?<!\d)0 of \d+ numbers differ", text)


@every_model
def test_a_notebook_shows_the_short_form(declared):
    model, _ = fitted(declared, True)
    short = model._repr_html_()
    page = Page(short)
    assert "(4, 1e-06)-differentially private" in page.text
    assert not {"script", "img", "link"} & {tag for tag, _ in page.tags}
    assert model._repr_mimebundle_()["text/html"] == short
    # Before the fit, scikit-learn's own.
    assert "differentially private" not in declared.estimator()._repr_html_()
    exact, _ = fitted(declared, False)
    assert NO_PROMISE in Page(exact._repr_html_()).text


@every_model
def test_it_is_drawn_or_says_why_not(declared):
    pytest.importorskip("matplotlib")
    model, _ = fitted(declared, True)
    if declared.target or declared.categories:
        with pytest.raises(ValueError, match="two columns of numbers, and this one has none"):
            model.plot(n_samples=500)
        return
    figure = model.plot(n_samples=500)
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 3
    (one,) = model.plot(columns=["x2", 0], n_samples=500).axes
    assert (one.get_xlabel(), one.get_ylabel()) == ("x2", "x0")
    with pytest.raises(ValueError, match="'wealth' is no column of numbers of this model"):
        model.plot(columns=["x0", "wealth"])
    with pytest.raises(ValueError, match="at least two"):
        model.plot(columns=["x0"])
    with pytest.raises(TypeError, match="a list of at least two names, got 'x0'"):
        model.plot(columns="x0")


def test_a_model_that_is_not_fitted_has_no_page():
    with pytest.raises(ValueError, match="not fitted"):
        Report(privem.KMeans(2))
    with pytest.raises(ValueError, match="two models"):
        Comparison({})
    with pytest.raises(TypeError, match=r"about a fitted model, got a str; privem\.load\(path\)"):
        Report("model.json")
    with pytest.raises(TypeError, match=r"takes models by name, .* got a list"):
        Comparison([privem.KMeans(2), privem.KMeans(2)])


def test_the_title_of_a_plot_is_not_cut_off():
    pytest.importorskip("matplotlib")
    model = privem.GaussianMixture(bounds=4.0).fit(np.random.default_rng(0).normal(size=(400, 4)))
    for columns in ([0, 1], [0, 1, 2], None):
        figure = model.plot(columns)
        figure.draw_without_rendering()
        assert "\n" in figure.get_suptitle() or columns != [0, 1]
        assert figure._suptitle.get_window_extent().x1 <= figure.bbox.x1


def test_the_ellipses_of_a_plot_are_those_of_the_model():
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).normal([1.0, -3.0], [2.0, 0.5], size=(4000, 2))
    for kind in ("full", "tied", "diag", "spherical"):
        model = privem.GaussianMixture(covariance_type=kind, epsilon=None).fit(X)
        (axes,) = model.plot(n_samples=100).axes
        inner, outer = (line.get_xydata() for line in axes.get_lines())
        w = np.linalg.inv(_covariance(model, kind))
        for line, deviations in ((inner, 1.0), (outer, 2.0)):
            away = line - model.means_[0]
            lengths = np.einsum("ij,jk,ik->i", away, w, away)
            np.testing.assert_allclose(lengths, deviations**2, rtol=1e-9)


def _covariance(model, kind):
    found = {"full": lambda c: c[0], "tied": lambda c: c, "diag": lambda c: np.diag(c[0])}
    return found.get(kind, lambda c: c[0] * np.eye(2))(model.covariances_)
