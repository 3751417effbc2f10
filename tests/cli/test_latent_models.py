"""Regressions with hidden parts, the symmetric mixture and latent classes at the command line."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app

N = 4021
B = np.array([1.5, -1.0])
# Options of each model on its own table, exact fits apart; and its class.
KINDS = {
    "symmetric": ([], ["--bound", "a=-9:9", "--bound", "b=-9:9"], privem.SymmetricMixture),
    "symmetric-regression": (
        ["--target", "y"],
        ["--bound", "a=-5:5", "--bound", "b=-5:5", "--bound", "y=-9:9"],
        privem.SymmetricRegressionMixture,
    ),
    "missing-regression": (
        ["--target", "y"],
        ["--bound", "a=-5:5", "--bound", "b=-5:5", "--bound", "y=-9:9"],
        privem.MissingCovariateRegression,
    ),
    "regression-mixture": (
        ["--target", "y", "-k", 2],
        ["--bound", "a=-5:5", "--bound", "b=-5:5", "--bound", "y=-9:9"],
        privem.RegressionMixture,
    ),
    "categorical": (
        ["-k", 2, "--category", "pet=cat,dog,none", "--category", "car=no,yes"],
        [],
        privem.CategoricalMixture,
    ),
}
TARGETED = ["symmetric-regression", "missing-regression", "regression-mixture"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def write(path, kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    sign = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    table = pl.DataFrame(x, schema=["a", "b"])
    match kind:
        case "symmetric":
            table = pl.DataFrame(sign[:, None] * B + 0.7 * x, schema=["a", "b"])
        case "symmetric-regression":
            table = table.with_columns(y=sign * (x @ B) + 0.5 * rng.normal(size=N))
        case "missing-regression":
            y = x @ B + 0.5 * rng.normal(size=N)
            x[rng.random(x.shape) < 0.1] = np.nan
            table = pl.DataFrame(x, schema=["a", "b"]).fill_nan(None).with_columns(y=y)
        case "regression-mixture":
            y = np.where(sign > 0, 2 + x @ B, -2 - x @ B) + 0.3 * rng.normal(size=N)
            table = table.with_columns(y=y)
        case "categorical":
            often = np.where(sign[:, None] > 0, [0.8, 0.9], [0.1, 0.2])
            draws = rng.random((N, 2)) < often
            pets = np.where(draws[:, 0], "cat", np.where(rng.random(N) < 0.7, "dog", "none"))
            table = pl.DataFrame({"pet": pets, "car": np.where(draws[:, 1], "yes", "no")})
    table.write_csv(path) if path.suffix == ".csv" else table.write_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_private_fit_by_default(tmp_path, kind, suffix):
    data, model = write(tmp_path / f"x{suffix}", kind), tmp_path / "m.json"
    options, bounds, cls = KINDS[kind]
    fit = ["fit", data, "-m", kind, "-o", model, *options, *bounds]
    text = " ".join(run(*fit).split())
    loaded = privem.load(model)
    assert type(loaded) is cls
    assert (loaded.privacy_.epsilon, loaded.privacy_.delta) == (1.0, 1e-6)
    assert loaded.privacy_.recount() <= 1.0
    assert str(loaded.privacy_) in text
    # Neither the number of rows nor anything exact is shown.
    assert not re.search(r"(?<![\d.])4,?021(?![\d.])", text)
    summary = json.loads(run(*fit, "--json", "--epsilon", 2))
    assert (summary["model"], summary["private"], summary["epsilon"]) == (kind, True, 2.0)
    assert summary["privacy"]["epsilon"] == 2.0
    assert summary["parameters"]
    assert not {"rows", "total_weight", "seconds", "converged"} & set(summary)
    assert not any(key.startswith("mean_log") for key in summary)
    assert json.loads(run("audit", model, "--json"))["passed"] is True


def each(model, name):
    """An attribute as a list of arrays: categories are one per column."""
    value = getattr(model, name)
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("kind", KINDS)
def test_exact_is_what_the_library_gives(tmp_path, kind):
    data, model = write(tmp_path / "x.parquet", kind), tmp_path / "m.json"
    options, _, cls = KINDS[kind]
    fit = ["fit", data, "-m", kind, "-o", model, *options, "--exact", "--seed", 1]
    assert "exact fit: nothing here is private" in run(*fit)
    loaded = privem.load(model)
    assert not hasattr(loaded, "privacy_")
    parameters = {name: getattr(loaded, name) for name in ("random_state", "epsilon")}
    if "-k" in options:
        parameters["n_components"] = 2
    if kind == "categorical":
        parameters["categories"] = [["cat", "dog", "none"], ["no", "yes"]]
    direct = cls(**parameters).fit(data, "y" if "--target" in options else None)
    for name in cls._needed:
        for ours, theirs in zip(each(loaded, name), each(direct, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    summary = json.loads(run(*fit, "--json"))
    assert (summary["rows"], summary["private"]) == (N, False)
    assert summary["mean_log_likelihood"] == pytest.approx(direct.lower_bound_)


def test_private_fits_find_what_is_there(tmp_path):
    """Bounds and targets reach the estimators: at epsilon 20 the answer is close."""

    def parameters(kind):
        options, bounds, _ = KINDS[kind]
        fit = ["fit", write(tmp_path / "x.csv", kind), "-m", kind, "-o", tmp_path / "m.json"]
        text = run(*fit, *options, *bounds, "--epsilon", 20, "--seed", 0, "--json")
        return json.loads(text)["parameters"]

    mean = np.array(parameters("symmetric")["mean"])
    np.testing.assert_allclose(mean * np.sign(mean[0]), B, atol=0.2)
    coef = np.array(parameters("symmetric-regression")["coef"])
    np.testing.assert_allclose(coef * np.sign(coef[0]), B, atol=0.2)
    np.testing.assert_allclose(parameters("missing-regression")["coef"], B, atol=0.2)
    found = parameters("regression-mixture")
    order = np.argsort(found["intercept"])
    np.testing.assert_allclose(np.array(found["intercept"])[order], [-2, 2], atol=0.3)
    np.testing.assert_allclose(np.array(found["coef"])[order], [-B, B], atol=0.3)
    found = parameters("categorical")
    cars = np.sort(np.array(found["category_probs"][1])[:, 1])
    np.testing.assert_allclose(cars, [0.2, 0.9], atol=0.2)
    assert found["categories"] == [["cat", "dog", "none"], ["no", "yes"]]


def test_bounds_of_the_target_are_its_own(tmp_path):
    data, model = write(tmp_path / "x.csv", "regression-mixture"), tmp_path / "m.json"
    fit = ["fit", data, "-m", "regression-mixture", "--target", "y", "-k", 2, "-o", model, "-q"]
    run(*fit, "--bound", "y=-9:9")
    loaded = privem.load(model)
    np.testing.assert_allclose(loaded.target_bounds_, (-9, 9))
    assert loaded.bounds is None
    run(*fit, "--bound", "a=-5:5", "--bound", "b=-6:6")
    loaded = privem.load(model)
    np.testing.assert_allclose(loaded.bounds_, [[-5, -6], [5, 6]])
    assert loaded.target_bounds is None


def test_noise_variance_and_method_are_passed_on(tmp_path):
    data, model = write(tmp_path / "x.csv", "symmetric"), tmp_path / "m.json"
    fit = ["fit", data, "-m", "symmetric", "-o", model, "-q", *KINDS["symmetric"][1]]
    run(*fit, "--noise-variance", 0.49, "--method", "gradient", "--n-iter", 3)
    loaded = privem.load(model)
    assert (loaded.noise_variance_, loaded.method, loaded.n_iter_) == (0.49, "gradient", 3)


def test_sample(tmp_path):
    for kind in ("symmetric", "categorical"):
        data, model = write(tmp_path / "x.parquet", kind), tmp_path / "m.json"
        options, bounds, _ = KINDS[kind]
        run("fit", data, "-m", kind, "-o", model, "-q", *options, *bounds)
        run("sample", model, "-n", 500, "-o", tmp_path / "s.parquet", "--seed", 1)
        drawn = pl.read_parquet(tmp_path / "s.parquet")
        assert (drawn.height, drawn.schema) == (500, pl.read_parquet(data).schema)
        assert run("sample", model, "-n", 3, "--seed", 1).startswith(",".join(drawn.columns))
    assert set(drawn["pet"]) <= {"cat", "dog", "none"}
    failed = run("sample", model, "-n", 3, "-o", tmp_path / "s.npy", code=2)
    assert "use .csv or .parquet" in failed
    data = write(tmp_path / "x.csv", "regression-mixture")
    run("fit", data, "-m", "regression-mixture", "--target", "y", "-k", 2, "-o", model, "-q")
    assert "for given records only" in run("sample", model, "-n", 3, code=2)


@pytest.mark.parametrize("kind", KINDS)
def test_score(tmp_path, kind):
    data, model = write(tmp_path / "x.parquet", kind), tmp_path / "m.json"
    options, _, _ = KINDS[kind]
    run("fit", data, "-m", kind, "-o", model, "-q", *options, "--exact")
    loaded = privem.load(model)
    if kind in TARGETED:
        summary = json.loads(run("score", model, data, "--target", "y", "--json"))
        assert summary["mean_log_density"] == pytest.approx(loaded.score(data, "y"))
        # The model file knows the target; one of an older version does not.
        assert json.loads(run("score", model, data, "--json")) == summary
        del loaded.target_name_in_
        loaded.save(model)
        assert "needs --target" in run("score", model, data, code=2)
        assert "has no column 'wage'" in run("score", model, data, "--target", "wage", code=3)
    else:
        summary = json.loads(run("score", model, data, "--json"))
        assert summary["mean_log_density"] == pytest.approx(loaded.score(data))
        assert "--target is for regressions" in run("score", model, data, "--target", "y", code=2)
    assert (summary["model"], summary["rows"], summary["private"]) == (kind, N, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "symetric"], "'symetric' is not one of"),
        (["-m", "gmm"], "--model gmm needs --components"),
        (["-m", "categorical", "--category", "a=x"], "--model categorical needs --components"),
        (["-m", "regression-mixture", "-k", 2], "--model regression-mixture needs --target"),
        (["-m", "symmetric-regression"], "--model symmetric-regression needs --target"),
        (["-m", "symmetric", "--target", "y"], "--target is for missing-regression, regr"),
        (["-m", "symmetric", "-k", 2], "--components is for categorical, fa, gmm, kmeans"),
        (["-m", "missing-regression", "--target", "a", "--columns", "a,b"], "also --weight or one"),
        (["-m", "missing-regression", "--target", "y", "--weight", "y"], "also --weight or one"),
        (["-m", "symmetric", "--noise-variance", 0], "noise_variance must be above 0"),
        (["-m", "symmetric", "--noise-variance", -1], "noise_variance must be above 0"),
        (["-k", 2, "--noise-variance", 1], "--noise-variance is for missing-regression, symmetric"),
        (["-k", 2, "--method", "moments"], "--method is for missing-regression, symmetric and"),
        (["-m", "symmetric", "--method", "magic"], "'magic' is not one of"),
        (["-m", "symmetric", "--epsilon", 0], "epsilon must be above 0"),
        (
            ["-m", "symmetric", "--n-init", 2],
            "--n-init is for categorical, gmm, kmeans",
        ),
        (["-m", "categorical", "-k", 2], "needs --category COLUMN=A,B,... for every column"),
        (["-m", "categorical", "-k", 2, "--category", "a"], "is not COLUMN=A,B,..."),
        (["-m", "categorical", "-k", 2, "--category", "a=x,x"], "every category once"),
        (["-m", "categorical", "-k", 2, "--category", "a=x,y"], "without one: column numbers 2, 3"),
        (["-m", "categorical", "-k", 2, "--category", "a=x", "--bound", "a=0:1"], "--bound is for"),
        (["-m", "categorical", "-k", 2, "--category", "a=x", "--type", "a=int"], "--type is for"),
        (["-k", 2, "--category", "a=x"], "--category is for categorical"),
        (
            ["-m", "missing-regression", "--target", "y", "--bound", "a=0:1"],
            "without one: column number 2",
        ),
    ],
)
def test_bad_usage_is_said_before_anything_is_spent(tmp_path, options, words):
    data, model = write(tmp_path / "x.csv", "regression-mixture"), tmp_path / "m.json"
    text = " ".join(run("fit", data, "-o", model, *options, code=2).split())
    assert words in text
    assert not model.exists()


def test_bad_data_is_3(tmp_path):
    data, model = write(tmp_path / "x.csv", "regression-mixture"), tmp_path / "m.json"

    def failing(path, *options):
        text = run("fit", path, "-o", model, *options, code=3)
        assert not model.exists()
        return text

    for kind in TARGETED:
        options = ["-m", kind, "--target", "wage", *(["-k", 2] if "mixture" in kind else [])]
        assert "has no column 'wage'" in failing(data, *options)
    np.save(tmp_path / "x.npy", np.zeros((9, 3)))
    assert "no target column" in failing(tmp_path / "x.npy", "-m", TARGETED[0], "--target", "y")
    pl.read_csv(data)[["y"]].write_csv(tmp_path / "only.csv")
    only = [tmp_path / "only.csv", "-m", TARGETED[0], "--target", "y"]
    assert "no column besides the target" in failing(*only)
    pets = write(tmp_path / "pets.csv", "categorical")
    some = ["-m", "categorical", "-k", 2, "--columns", "pet,cow", "--category", "pet=cat"]
    assert "has no column 'cow'" in failing(pets, *some)
    exact = ["-m", "categorical", "-k", 2, "--exact", "--columns", "pet", "--category", "pet=cat"]
    assert "not among its categories" in failing(pets, *exact)
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "x.parquet", "symmetric")
    folder = [tmp_path / "folder", "-m", "categorical", "-k", 2, "--exact"]
    assert "is a folder" in failing(*folder)


def test_what_is_missing_or_not_declared_passes_silently_in_private(tmp_path):
    (tmp_path / "pets.csv").write_text("pet,car\n" + "cat,yes\ndog,no\n" * 99 + ",no\ncow,yes\n")
    fit = ["fit", tmp_path / "pets.csv", "-o", tmp_path / "m.json", *KINDS["categorical"][0]]
    text = run(*fit, "-m", "categorical")
    assert "cow" not in text
    assert "NaN" not in text
    assert "contains NaN" in run(*fit, "-m", "categorical", "--exact", code=3)


def test_columns_and_weight(tmp_path):
    table = pl.read_parquet(write(tmp_path / "x.parquet", "categorical"))
    table.with_columns(w=pl.lit(2.0), more=pl.lit("z")).write_csv(tmp_path / "x.csv")
    fit = ["fit", tmp_path / "x.csv", "-m", "categorical", "-o", tmp_path / "m.json", "--exact"]
    fit += ["-k", 2, "--columns", "car,pet", "--weight", "w"]
    summary = json.loads(run(*fit, "--json"))
    assert summary["columns"] == ["car", "pet"]
    assert summary["total_weight"] == 2 * N
    assert summary["parameters"]["categories"] == [["no", "yes"], ["cat", "dog", "none"]]
    table = pl.read_parquet(write(tmp_path / "x.parquet", "missing-regression"))
    table.with_columns(w=pl.lit(-1.0)).write_csv(tmp_path / "x.csv")
    fit = ["fit", tmp_path / "x.csv", "-m", "missing-regression", "--target", "y", "--weight", "w"]
    fit += ["-o", tmp_path / "n.json"]
    assert "must be finite and not negative" in run(*fit, "--exact", code=3)
    run(*fit, "--epsilon", 1)  # a private fit says nothing of weights
