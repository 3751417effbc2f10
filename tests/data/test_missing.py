"""Missing values in files: refused by private fits as those in arrays are, before they cost."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from privem import (
    CategoricalMixture,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    private_mean,
)
from privem.core import Block
from privem.data import LocalSource, read_file
from privem.local import Crowd

from ..examples import PLAIN, TARGETED

N = 400
# Some models are made for missing values.
REFUSING = [cls for cls in TARGETED if cls is not MissingCovariateRegression]


@pytest.fixture
def _untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(self: Any, stage: Any) -> Any:
        raise AssertionError("the data were asked")

    monkeypatch.setattr(LocalSource, "release", explode)
    monkeypatch.setattr(Crowd, "release", explode)


def files(folder: Path, where: str | None, gap: Any = None) -> list[Path]:
    """Tables with a gap in one column, in its last row but one."""
    values = np.random.default_rng(0).normal(size=(N, 5))
    frame = pl.DataFrame(values, schema=["a", "b", "y", "w", "other"])
    if where is not None:
        column = frame[where].to_list()
        column[-2] = gap
        frame = frame.with_columns(pl.Series(where, column, dtype=pl.Float64))
    frame = frame.with_columns(who=pl.Series([f"p{i // 2}" for i in range(N)]))
    frame.write_csv(folder / "x.csv")
    frame.write_parquet(folder / "x.parquet")
    return [folder / "x.csv", folder / "x.parquet"]


def said(caught: pytest.ExceptionInfo[ValueError]) -> str:
    text = str(caught.value)
    assert not any(character.isdigit() for character in text)
    assert "'b'" not in text
    return text


@pytest.mark.usefixtures("_untouched")
@pytest.mark.parametrize("cls", PLAIN)
@pytest.mark.parametrize("gap", [None, float("nan")])
def test_they_are_refused(cls: type[Any], gap: Any, tmp_path: Path) -> None:
    model = cls(bounds=4.0)
    with pytest.raises(ValueError, match="contains NaN") as array:
        model.fit(np.array([[0.0, np.nan]] * 5))
    for path in files(tmp_path, "b", gap):
        opened = [read_file(path, columns=["a", "b"])]
        for rows in [*opened, read_file(path, columns=["b"], groups="who")]:
            with pytest.raises(ValueError, match="contains NaN") as caught:
                model.fit(rows)
            assert said(caught) == str(array.value)
    values = np.zeros((9, 2))
    values[5, 1] = np.nan
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(ValueError, match="Input X contains NaN: drop"):
        model.fit(tmp_path / "x.npy")


def test_gaps_elsewhere_do_no_harm(tmp_path: Path) -> None:
    for path in files(tmp_path, "other"):
        GaussianMixture(2, bounds=4.0).fit(read_file(path, columns=["a", "b"], groups="who"))


@pytest.mark.usefixtures("_untouched")
@pytest.mark.parametrize("cls", REFUSING)
@pytest.mark.parametrize("trust", ["central", "local"])
def test_so_are_those_of_regressions(cls: type[Any], trust: str, tmp_path: Path) -> None:
    model = cls(bounds=4.0, target_bounds=4.0, trust=trust)
    for gap, words in (("b", "Input X contains NaN"), ("y", "Input y contains NaN")):
        for path in files(tmp_path, gap):
            with pytest.raises(ValueError, match=words) as caught:
                model.fit(read_file(path, columns=["a", "b"], target="y"))
            said(caught)
            table = path.with_stem("table")
            frame = pl.read_parquet(tmp_path / "x.parquet").select("a", "b", "y")
            getattr(frame, f"write_{path.suffix[1:]}")(table)
            with pytest.raises(ValueError, match=words):
                model.fit(table, "y")


@pytest.mark.usefixtures("_untouched")
def test_so_are_those_of_weights(tmp_path: Path) -> None:
    for path in files(tmp_path, "w"):
        rows = read_file(path, columns=["a", "b"], weight="w")
        with pytest.raises(ValueError, match=r"^sample_weight contains NaN$"):
            KMeans(2, bounds=4.0).fit(rows)


@pytest.mark.usefixtures("_untouched")
def test_so_are_those_of_means(tmp_path: Path) -> None:
    for path in files(tmp_path, "a"):
        with pytest.raises(ValueError, match="contains NaN"):
            private_mean(read_file(path, columns=["a", "b"]), tau=2.0)


def test_so_are_those_of_scores(tmp_path: Path) -> None:
    model = GaussianMixture(1, bounds=4.0).fit(pl.DataFrame(np.zeros((50, 2)), schema=["a", "b"]))
    for path in files(tmp_path, "a"):
        with pytest.raises(ValueError, match="contains NaN") as caught:
            model.private_score(path)
        said(caught)


def test_models_of_missing_values_take_them(tmp_path: Path) -> None:
    model = MissingCovariateRegression(bounds=6.0, target_bounds=6.0)
    for path in files(tmp_path, "b"):
        model.fit(read_file(path, columns=["a", "b"], target="y"))
    for path in files(tmp_path, "y"):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.fit(read_file(path, columns=["a", "b"], target="y"))
    table = pl.DataFrame({"sex": ["f", "m", None] * 50})
    table.write_parquet(tmp_path / "c.parquet")
    CategoricalMixture(1, categories=["f", "m"]).fit(tmp_path / "c.parquet")


def test_one_look_is_all_and_the_fixed_rule_is_the_backstop(tmp_path: Path) -> None:
    """A file that loses a value after the look is fitted on, without a word."""

    class Changing:
        names, n_features, looks = ["a"], 1, 0

        def blocks(self, rows: int) -> Any:
            Changing.looks += 1
            X = np.zeros((60, 1))
            X[7] = np.nan if Changing.looks > 1 else 0.0
            yield Block(X)

    model = GaussianMixture(1, bounds=4.0).fit(Changing())
    assert Changing.looks > 1
    assert np.isfinite(model.means_).all()
