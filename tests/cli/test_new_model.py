"""A new model is one folder: it appears at the command line with no change there."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import privem.models
from privem.cli import app
from privem.declaration import declarations

DECLARATION = """
from privem.declaration import Declaration

MODELS = (
    Declaration(
        "Toy", "models.toy.estimator", "toy", "a model for this test", count="n_components",
        options=("speed", "flavour"),
    ),
)
"""
ESTIMATOR = '''
from privem import GaussianMixture


class Toy(GaussianMixture):
    """A Gaussian mixture with two parameters that do nothing.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    speed : float, default=2.5
        How fast toys run. Nobody has
        measured it.
    flavour : {"sweet", "sour"}, default="sweet"
        What they taste of.
    max_iter : int, default=77
        Maximum number of iterations.
    epsilon, bounds, random_state, n_jobs : see :class:`privem.GaussianMixture`

    Attributes
    ----------
    means_ : ndarray
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        speed: float = 2.5,
        flavour: str = "sweet",
        max_iter: int = 77,
        epsilon: float | None = 1.0,
        bounds=None,
        random_state=None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            n_components, max_iter=max_iter, epsilon=epsilon, bounds=bounds, n_jobs=n_jobs
        )
        self.speed, self.flavour, self.random_state = speed, flavour, random_state
'''


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    folder = tmp_path / "models" / "toy"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "declaration.py").write_text(DECLARATION)
    (folder / "estimator.py").write_text(ESTIMATOR)
    monkeypatch.setattr(
        privem.models, "__path__", [*privem.models.__path__, str(tmp_path / "models")]
    )
    declarations.cache_clear()
    yield
    declarations.cache_clear()
    for name in [name for name in sys.modules if name.startswith("privem.models.toy")]:
        del sys.modules[name]


@pytest.fixture
def data(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", header="a,b", comments="")
    return tmp_path / "x.csv"


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    return result.output


def test_help_lists_it(tmp_path):
    for command in (("fit",), ("federate", "run")):
        text = " ".join(run(*command, "--help").split())
        assert "toy a model for this test" in text
        assert "--speed FLOAT How fast toys run. Only toy. Default: 2.5." in text
        assert "--flavour [sweet|sour] What they taste of. Only toy. Default: sweet." in text
        assert "77 (toy)" in text


def test_help_about_it_alone(tmp_path):
    text = " ".join(run("fit", "--model", "toy", "--help").split())
    assert "--speed FLOAT How fast toys run. Default: 2.5." in text
    assert "Default: 77." in text
    assert "--covariance" not in text
    assert "--target" not in text
    text = " ".join(run("fit", "--model", "gmm", "--help").split())
    assert "--covariance" in text
    assert "--speed" not in text
    assert "Default: 100." in text


def test_it_is_fitted_drawn_from_scored_and_audited(data, tmp_path):
    model = tmp_path / "m.json"
    fit = ["fit", data, "-m", "toy", "-k", 1, "-o", model, "--speed", 3, "--flavour", "sour"]
    text = run(*fit, "--bound", "a=-5:5", "--bound", "b=-5:5")
    assert "(1, 1e-06)-differentially private" in " ".join(text.split())
    assert f"Toy, of {data}" in text
    loaded = privem.load(model)
    assert (type(loaded).__name__, loaded.speed, loaded.flavour) == ("Toy", 3.0, "sour")
    summary = json.loads(run(*fit, "--exact", "--json"))
    assert summary["model"] == "toy"
    assert summary["mean_log_likelihood"] == pytest.approx(privem.load(model).lower_bound_)
    np.testing.assert_array_equal(summary["parameters"]["means"], privem.load(model).means_)
    assert run("sample", model, "-n", 3).startswith("a,b\n")
    assert json.loads(run("score", model, data, "--json"))["rows"] == 300


@pytest.mark.parametrize(
    ("model", "option", "words"),
    [
        ("toy", ["--target", "b"], "--target is for missing-regression"),
        ("toy", ["--prior", "map"], "--prior is for gmm, not for --model toy"),
        ("gmm", ["--speed", 3], "--speed is for toy, not for --model gmm"),
        ("toy", ["--flavour", "bitter"], "'bitter' is not one of 'sweet', 'sour'"),
        ("toys", [], "'toys' is not one of"),
    ],
)
def test_what_it_takes_and_does_not(data, tmp_path, model, option, words):
    text = run("fit", data, "-m", model, "-k", 1, "-o", tmp_path / "m.json", *option, code=2)
    assert words in " ".join(text.split())
