"""Persons, weights, local trust and the settings of gradients at the command line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.cli import app

N = 400
BOUNDS = ["--bound", "a=-5:5", "--bound", "b=-5:5"]
TARGETED = [*BOUNDS, "--bound", "y=-9:9", "--target", "y"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N))
    table = pl.DataFrame({"a": a, "b": b, "who": np.arange(N) // 4, "w": rng.uniform(0, 3, N)})
    table.write_csv(folder / "t.csv")
    table.write_parquet(folder / "t.parquet")
    np.save(folder / "t.npy", table.select("a", "b").to_numpy())
    table.select("a", "b").with_columns(y=a - b).write_csv(folder / "y.csv")
    pets = pl.DataFrame({"pet": np.where(a > 0, "cat", "dog"), "who": np.arange(N) // 4})
    pets.write_csv(folder / "pets.csv")
    pets.with_columns(who=pl.when(pl.col("who") > 0).then("who")).write_csv(folder / "nobody.csv")
    return folder


def fitted(folder, tmp_path, data, *options, code=0):
    text = run("fit", folder / data, "-o", tmp_path / "m.json", "--json", *options, code=code)
    return privem.load(tmp_path / "m.json"), json.loads(text)


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("model", ["gmm", "kmeans", "fa", "symmetric"])
def test_groups_hide_persons(folder, tmp_path, data, model):
    count = [] if model == "symmetric" else ["-k", 1]
    options = ["--model", model, *count, *BOUNDS, "--groups", "who", "--weight", "w"]
    found, summary = fitted(folder, tmp_path, data, *options, "--max-weight", 2)
    assert list(found.feature_names_in_) == ["a", "b"]
    assert found.privacy_.unit == "person"
    assert found.privacy_.public["largest sample weight"] == "2"
    assert "person" in summary["statement"]


def test_groups_of_persons_are_counted_once(folder, tmp_path):
    options = ["-k", 1, *BOUNDS, "--groups", "who", "--columns", "a,b"]
    found, _ = fitted(folder, tmp_path, "t.csv", *options, "--neighbours", "replace-one")
    assert found.privacy_.public["number of persons"] == "100"


def test_groups_of_categories(folder, tmp_path):
    options = ["--model", "categorical", "-k", 1, "--category", "pet=cat,dog", "--groups", "who"]
    found, _ = fitted(folder, tmp_path, "pets.csv", *options, "--neighbours", "replace-one")
    assert found.privacy_.public["number of persons"] == "100"
    text = run("fit", folder / "nobody.csv", "-o", tmp_path / "n.json", *options, code=3)
    assert "groups contains missing values" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-k", 1, "--groups", "nobody"], "has no column 'nobody'"),
        (["-k", 1, "--model", "kmeans", "--groups", "nobody"], "has no column 'nobody'"),
    ],
)
def test_groups_must_be_there(folder, tmp_path, options, words):
    text = run("fit", folder / "t.csv", "-o", tmp_path / "m.json", *options, code=3)
    assert words in text
    text = run("fit", folder / "t.npy", "-o", tmp_path / "m.json", *options, code=3)
    assert ".npy file has no column" in text


def test_bounds_are_kept_by_name(folder, tmp_path):
    found, _ = fitted(folder, tmp_path, "t.csv", "-k", 1, "--columns", "b,a", *BOUNDS)
    assert {name: tuple(pair) for name, pair in found.bounds.items()} == {
        "a": (-5, 5),
        "b": (-5, 5),
    }
    np.testing.assert_array_equal(found.bounds_, [[-5, -5], [5, 5]])
    # Four numbers that could be read in two ways, of columns without names.
    odd = ["--bound", "x0=0:10", "--bound", "x1=5:20"]
    found, _ = fitted(folder, tmp_path, "t.npy", "-k", 1, *odd)
    np.testing.assert_array_equal(found.bounds_, [[0, 5], [10, 20]])


GRADIENT = ["--method", "gradient"]
ROBUST = [*GRADIENT, "--mechanism", "robust"]


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("symmetric", ["--trust", "local"], {"trust": "local"}),
        (
            "symmetric",
            [*GRADIENT, "--clip", 2, "--step", 0.5, "--batch", "partition", "--no-averaging"],
            {"clip": 2.0, "step": 0.5, "batch": "partition", "averaging": False},
        ),
        ("symmetric", [*ROBUST, "--tau", 3, "--failure", 0.1], {"tau": 3.0, "failure": 0.1}),
        ("symmetric-regression", ["--trust", "local"], {"trust": "local"}),
        ("missing-regression", ["--missing-probability", 0.1], {"missing_probability": 0.1}),
        ("missing-regression", ["--trust", "local", "--accountant", "gdp"], {"accountant": "gdp"}),
        ("regression-mixture", ["-k", 1, "--trust", "local"], {"trust": "local"}),
    ],
)
def test_settings_reach_the_model(folder, tmp_path, model, options, expected):
    data, bounds = ("t.csv", [*BOUNDS, "--columns", "a,b"])
    if model != "symmetric":
        data, bounds = "y.csv", TARGETED
    found, _ = fitted(folder, tmp_path, data, "--model", model, *bounds, *options)
    assert {name: found.get_params()[name] for name in expected} == expected
    assert found.privacy_.trust == ("local" if "local" in options else "central")


def test_mechanism_and_accountant(folder, tmp_path):
    options = ["-k", 2, *BOUNDS, "--columns", "a,b", "--mechanism", "joint"]
    found, _ = fitted(folder, tmp_path, "t.csv", *options, "--accountant", "zcdp")
    assert (found.mechanism, found.accountant) == ("joint", "zcdp")
    assert found.privacy_.accountant == "zcdp"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-k", 1, "--trust", "local"], "--trust is for categorical, missing-regression"),
        (["-k", 1, "--tau", 1], "--tau is for missing-regression, symmetric and symmetric-reg"),
        (["-k", 1, "--missing-probability", 0.5], "--missing-probability is for missing-reg"),
        (["-k", 1, "--max-weight", 2], "--max-weight caps what --weight says"),
        (["-k", 1, "--weight", "w", "--max-weight", 0], "max_weight"),
        (["-k", 1, "--mechanism", "robust"], "mechanism must be one of"),
        (["-k", 1, "--accountant", "mine"], "accountant must be one of"),
        (["-k", 1, "--exact", "--groups", "who"], "--groups is for private fits"),
        (["-k", 1, "--exact", "--weight", "w", "--max-weight", 2], "--max-weight is for private"),
        (["-k", 1, "--exact", "--mechanism", "joint"], "--mechanism is for private fits"),
        (["--model", "symmetric", "--exact", "--no-averaging"], "--averaging is for private fits"),
        (["--model", "symmetric", "--exact", "--clip", 0], "--clip is for private fits"),
        (["-k", 1, "--groups", "w", "--weight", "w"], "--groups 'w' is also --weight"),
        (["-k", 1, "--groups", "a", "--columns", "a,b"], "is also --weight, --target or one of"),
        (["--model", "symmetric", "--clip", 1], "--clip is for --method gradient"),
        (["--model", "symmetric", "--no-averaging"], "--averaging is for --method gradient"),
        (["--model", "symmetric", *GRADIENT, "--tau", 1], "--tau is for --mechanism robust"),
        (["--model", "symmetric", *ROBUST, "--clip", 1], "--clip is not for --mechanism robust"),
        (["--model", "symmetric", *ROBUST, "--tau", 0], "tau"),
        (["--model", "symmetric", *ROBUST, "--failure", 1], "probability below 1"),
        (["--model", "symmetric", "--trust", "local"], "--trust local needs --bound"),
        (
            ["--model", "symmetric-regression", "--target", "y", *BOUNDS, "--trust", "local"],
            "--trust local needs --bound y=LOW:HIGH too",
        ),
        (
            ["--model", "symmetric", *BOUNDS, "--trust", "local", "--groups", "who"],
            "neither --groups nor --weight",
        ),
        (
            ["--model", "symmetric", *BOUNDS, "--trust", "local", "--neighbours", "replace-one"],
            "leave out --neighbours",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_file_is_read(tmp_path, options, words):
    text = run("fit", tmp_path / "absent.csv", "-o", tmp_path / "m.json", *options, code=2)
    assert words in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.parquet", None),
        ("words.parquet", b"this is no parquet file"),
        ("ragged.csv", b"pet,car\ncat,yes\ncat,yes,no\n"),
        ("open.csv", b'pet,car\n"secret,yes\ncat,no\n'),
        ("latin.csv", "pet,car\nché,secret\n".encode("latin1")),
        ("empty.csv", b""),
    ],
)
def test_damaged_tables_are_called_so(folder, tmp_path, name, content):
    if content is None:
        content = (folder / "t.parquet").read_bytes()[:300]
    (tmp_path / name).write_bytes(content)
    known = ["--category", "pet=cat,dog", "--category", "car=yes,no"]
    fit = ("fit", tmp_path / name, "-o", tmp_path / "m.json", "--model", "categorical", "-k", 1)
    text = run(*fit, *known, code=3)
    assert f"{name}'" in text
    assert "is not a readable table" in text or "is empty" in text
    assert "secret" not in text
    assert "Consider" not in text


def test_an_unreadable_value_is_not_quoted(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 300 + "secret,3\n")
    text = run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.json", "-k", 1, code=3)
    assert "could not parse a value (column number 1)" in text
    assert "secret" not in text
