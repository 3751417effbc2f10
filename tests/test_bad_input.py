"""docs/bad-input.md, line by line: every line has a case here, and every case a line."""

import builtins
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import privem
from privem import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
)
from privem.data import read_file
from privem.declaration import declarations
from privem.estimator.store import _checksum

from .examples import TARGETED

pandas = pytest.importorskip("pandas")

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bad-input.md"
CASES: dict[str, Callable] = {}
NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
X.flags.writeable = False


def table() -> dict[str, tuple[str, str, str]]:
    """What each line of the table promises, its exit code, and the link to its explanation."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert all(len(row) == 4 for row in rows), "a row needs four cells"
    assert len({row[0] for row in rows}) == len(rows), "a line occurs twice"
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def explanations() -> dict[str, str]:
    """The sections below "What the errors mean", by the anchors of their headings."""
    text = PAGE.read_text("utf-8")
    (part,) = re.findall(r"^## What the errors mean\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    sections = (section.split("\n", 1) for section in re.split(r"^### ", part, flags=re.M)[1:])
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-"): body for h, body in sections}


def case(line: str) -> Callable:
    def add(function: Callable) -> Callable:
        assert line not in CASES
        CASES[line] = function
        return function

    return add


def estimators(components: int = 2, epsilon: float | None = None, **more) -> Iterator:
    parameters = {"epsilon": epsilon, **more}
    yield GaussianMixture(components, max_iter=500, **parameters)
    for kind in ("tied", "diag", "spherical"):
        yield GaussianMixture(components, covariance_type=kind, max_iter=500, **parameters)
    yield GaussianMixture(components, prior="map", max_iter=500, **parameters)
    yield KMeans(components, **parameters)
    yield FactorAnalysis(components, max_iter=5000, **parameters)


def forms(X, folder, names=NAMES) -> Iterator:
    """The same numbers as array, frames and files."""
    frame = pl.DataFrame(dict(zip(names, np.ascontiguousarray(X.T), strict=True)))
    yield X
    yield pandas.DataFrame(X, columns=names)
    yield frame
    np.save(folder / "x.npy", X)
    frame.write_csv(folder / "x.csv")
    frame.write_parquet(folder / "x.parquet")
    yield from (folder / f"x.{suffix}" for suffix in ("npy", "csv", "parquet"))


def each_form(X, folder, **parameters) -> Iterator:
    """A fit of every estimator on every form."""
    for rows in forms(X, folder):
        for model in estimators(**parameters):
            yield lambda rows=rows, model=model: model.fit(rows)


def each(*inputs, components=2, **fit) -> Iterator:
    for rows in inputs:
        for model in estimators(components):
            yield lambda rows=rows, model=model: model.fit(rows, **fit)


def with_value(value, row=4, column=1):
    changed = X.copy()
    changed[row, column] = value
    return changed


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@case("NaN or a missing value")
def _(folder):
    yield from each_form(with_value(np.nan), folder)
    yield from each(with_value(np.nan).astype(np.float32))
    yield from each(pandas.DataFrame(X, columns=NAMES).astype("Float64").where(X[4, 1] != X))
    gap = "a,b\n" + "1,2\n" * 4 + "1,\n" + "3,4\n"
    yield from each(written(folder / "gap.csv", gap))
    for model in estimators():  # and when predicting
        model.fit(X)
        yield lambda model=model: model.score(with_value(np.nan))


@case("infinity")
def _(folder):
    yield from each_form(with_value(np.inf), folder)
    yield from each(with_value(-np.inf))


@case("strings in an array")
def _(folder):
    yield from each([["abc", "1"], ["2", "3"], ["4", "5"]], [["abc", 1.0], ["b", 2.0], [1, 2]])


CITY = {"a": [1.0, 2.0, 3.0], "city": ["x", "y", "z"]}


@case("a column of strings in a frame")
def _(folder):
    yield from each(pandas.DataFrame(CITY), pl.DataFrame(CITY))


@case("a column of strings in a file")
def _(folder):
    pl.DataFrame(CITY).write_csv(folder / "x.csv")
    pl.DataFrame(CITY).write_parquet(folder / "x.parquet")
    yield from each(folder / "x.csv", str(folder / "x.parquet"))


@case("a word far down a column of numbers in a CSV file")
def _(folder):
    yield from each(written(folder / "x.csv", "a,b\n" + "1,2\n" * 3000 + "1,oops\n"))


@case("a CSV line with too many values")
def _(folder):
    yield from each(written(folder / "x.csv", "a,b\n1,2\n1,2,3\n4,5\n"))


@case("a column that is not there")
def _(folder):
    list(forms(X, folder))
    for name in ("x.csv", "x.parquet"):
        path = folder / name
        yield lambda path=path: read_file(path, columns=["a", "wage"])
        yield lambda path=path: read_file(path, weight="wage")
        yield lambda path=path: KMeans(2, epsilon=None).fit(path, "wage")


@case("a column that is not there, the header confirmed")
def _(folder):
    list(forms(X, folder))
    yield lambda: read_file(folder / "x.csv", columns=["wage"], header=True)
    yield lambda: read_file(folder / "x.csv", target="wage", header=True)
    yield lambda: read_file(folder / "x.parquet", columns=["wage"])


@case("another number of columns than in the fit")
def _(folder):
    for model in estimators():
        for narrow in (X[:, :2], folder / "narrow.npy"):
            np.save(folder / "narrow.npy", X[:, :2])
            model.fit(X)
            yield lambda model=model, narrow=narrow: model.score(narrow)


@case("other column names than in the fit")
def _(folder):
    frame = pandas.DataFrame(X, columns=NAMES)
    for model in estimators():
        model.fit(frame)
        yield lambda model=model: model.score(frame.rename(columns={"b": "z"}))
        yield lambda model=model: model.score(frame[["b", "a", "c"]])


@case("zero rows")
def _(folder):
    yield from each_form(X[:0], folder)
    for model in estimators():  # and when predicting
        model.fit(X)
        for nothing in (X[:0], folder / "x.npy", folder / "x.csv", folder / "x.parquet"):
            yield lambda model=model, nothing=nothing: model.score(nothing)


@case("zero columns")
def _(folder):
    yield from each(X[:, :0])


@case("one row, one component")
def _(folder):
    for rows in forms(X[:1], folder):
        for model in estimators(1):
            yield model.fit(rows)
            centre = [getattr(model, n, None) for n in ("means_", "cluster_centers_", "mean_")]
            if getattr(model, "prior", None) is None:
                found = next(c for c in centre if c is not None)
                np.testing.assert_allclose(found.ravel(), X[0])


@case("fewer rows than components")
def _(folder):
    for rows in forms(X[:2], folder):
        for model in estimators(3):
            if isinstance(model, FactorAnalysis):
                check_valid(model.fit(rows))
            else:
                yield lambda rows=rows, model=model: model.fit(rows)


def fits(*inputs, components=2, **fit):
    for rows in inputs:
        for model in estimators(components):
            yield model.fit(rows, **fit)


@case("fewer rows than columns")
def _(folder):
    yield from fits(RNG.normal(size=(5, 9)), RNG.normal(size=(3, 40)))


@case("a constant column")
def _(folder):
    for value in (0.0, 7.0, 0.1, -1e8):
        for model in fits(np.column_stack([X, np.full(30, value)])):
            yield model
            if isinstance(model, GaussianMixture) and model.prior is None:
                variances = {
                    "full": lambda c: c[:, 3, 3],
                    "tied": lambda c: c[3, 3],
                    "diag": lambda c: c[:, 3],
                }
                if kind := variances.get(model.covariance_type):
                    np.testing.assert_allclose(kind(model.covariances_), 1e-6, rtol=1e-3)


@case("all columns constant")
def _(folder):
    constant = np.tile([0.1, -3.0, 1e6], (20, 1))
    for model in fits(constant, components=3):
        yield model
        if isinstance(model, KMeans):
            np.testing.assert_allclose(model.cluster_centers_, constant[:3], rtol=1e-12)
            assert model.inertia_ < 1e-9


@case("duplicate rows, fewer distinct ones than components")
def _(folder):
    yield from fits(np.repeat(X[:2], 10, axis=0), components=4)
    for model in estimators(3, random_state=0):
        if not isinstance(model, FactorAnalysis):
            start = {"init": "k-means++"} if isinstance(model, KMeans) else {"n_init": 3}
            yield model.set_params(**start).fit(np.repeat(X[:2], 10, axis=0))


@case("one column a multiple of another")
def _(folder):
    line = X[:, :1] * [1.0, -2.0, 1e3]
    yield from fits(line, np.column_stack([X, X.sum(axis=1)]))
    for kind in ("full", "tied", "diag", "spherical"):
        yield GaussianMixture(2, covariance_type=kind, reg_covar=0.0, epsilon=None).fit(line)


@case("a column of 1e300")
def _(folder):
    for n in (4, 30):  # whether the mean is exact must not matter
        constant = np.column_stack([X[:n, :2], np.full(n, 1e300)])
        yield from each_form(constant, folder)


@case("one value of 1e300")
def _(folder):
    yield from each_form(with_value(1e300), folder)
    yield from each(with_value(-1e200))


@case("columns 1e100 apart in size")
def _(folder):
    scale = np.array([1.0, 1e50, 1e-50])
    for model in fits(X * scale, components=1):
        yield model
        if isinstance(model, GaussianMixture) and model.prior is None:
            if model.covariance_type == "diag":
                got = model.covariances_[0]
                np.testing.assert_allclose(got, np.var(X * scale, axis=0) + 1e-6, rtol=1e-5)
            if model.covariance_type == "full":
                got = np.diag(model.covariances_[0])
                np.testing.assert_allclose(got, np.var(X * scale, axis=0) + 1e-6, rtol=1e-5)


@case("values near the smallest number, 1e-310")
def _(folder):
    yield from fits(X * 1e-310)


@case("a sparse matrix")
def _(folder):
    for rows in (scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X)):
        for model in estimators():
            if isinstance(model, KMeans):
                check_valid(model.fit(rows))
            else:
                yield lambda rows=rows, model=model: model.fit(rows)


@case("NaN in a sparse matrix (k-means)")
def _(folder):
    for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        yield lambda form=form: KMeans(2, epsilon=None).fit(form(with_value(np.nan)))


@case("a dask bag")
def _(folder):
    # A stand-in, as dask need not be installed; tests/data/test_dask.py tries dask itself.
    yield from each(type("Bag", (), {"__module__": "dask.bag.core", "blocks": None})())


@case("a dict")
def _(folder):
    yield from each(dict(zip(NAMES, X.T, strict=True)))


@case("a generator")
def _(folder):
    yield from each((row for row in X), iter(X))


@case("a masked array of which something is masked")
def _(folder):
    yield from each(np.ma.masked_invalid(with_value(np.nan)), np.ma.masked_equal(with_value(9), 9))


@case("a one-dimensional array")
def _(folder):
    yield from each(X[:, 0], [1.0, 2.0, 3.0], [])


@case("a one-dimensional .npy file")
def _(folder):
    np.save(folder / "x.npy", X[:, 0])
    yield from each(folder / "x.npy")


@case("complex numbers")
def _(folder):
    yield from each(X + 0j)


@case("complex numbers in a .npy file")
def _(folder):
    np.save(folder / "x.npy", X + 0j)
    yield from each(folder / "x.npy")


@case("dates in a frame")
def _(folder):
    days = np.arange("2020-01-01", "2020-01-31", dtype="datetime64[D]")
    frame = {"a": X[:, 0], "day": days}
    yield from each(pandas.DataFrame(frame), pl.DataFrame(frame))


def weights(value):
    changed = np.ones(30)
    changed[7] = value
    return changed


def weighted(weight, folder):
    yield from each(X, pandas.DataFrame(X, columns=NAMES), sample_weight=weight)
    list(forms(X, folder))
    yield from each(folder / "x.npy", folder / "x.parquet", sample_weight=weight)
    if len(weight) == 30:
        frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": weight})
        frame.write_parquet(folder / "w.parquet")
        yield from each(folder / "w.parquet", sample_weight="w")


@case("negative weights")
def _(folder):
    yield from weighted(weights(-1.0), folder)


@case("NaN or infinite weights")
def _(folder):
    yield from weighted(weights(np.nan), folder)
    yield from weighted(weights(np.inf), folder)


@case("all weights zero")
def _(folder):
    yield from weighted(np.zeros(30), folder)


@case("weights of the wrong length")
def _(folder):
    yield from weighted(np.ones(29), folder)


@case("weights of records that count nothing")
def _(folder):
    weight = np.ones(30)
    weight[10:] = 0.0
    for model in estimators(2):
        yield model.fit(X, sample_weight=weight)
        alone = type(model)(**model.get_params()).fit(X[:10])
        new = np.vstack([X[:10], X[:10] + 0.1])
        np.testing.assert_allclose(model.score(new), alone.score(new), rtol=1e-6)


@case("no such file")
def _(folder):
    yield from each(folder / "absent.csv", str(folder / "absent.csv"))


@case("an empty file")
def _(folder):
    yield from each(*(written(folder / f"x.{s}", "") for s in ("npy", "csv", "parquet")))


@case("a file of another type")
def _(folder):
    yield from each(written(folder / "x.xlsx", "PK"), written(folder / "x", "1"))


@case("an unreadable file")
def _(folder):
    noise = np.random.default_rng(1).bytes(3000)
    yield from each(*(written(folder / f"x.{s}", noise) for s in ("npy", "csv", "parquet")))
    yield from each(written(folder / "y.npy", "hello"), written(folder / "y.parquet", "hello"))


@case("a truncated file")
def _(folder):
    list(forms(X, folder))
    for suffix in ("npy", "parquet"):  # a CSV file has no end to be cut off
        whole = (folder / f"x.{suffix}").read_bytes()
        for share in (0.1, 0.5, 0.9):
            cut = written(folder / f"cut{share}.{suffix}", whole[: int(share * len(whole))])
            yield from each(cut)


@case("a CSV file without a header")
def _(folder):
    for line in ("1.5,2", "2,2", "2,", "NA,2", "true,2", "age,2", "2020-01-01,x", ",NA"):
        yield from each(written(folder / f"{len(line)}.csv", f"{line}\n3,4\n5,6\n"))


@case("a CSV file separated by semicolons")
def _(folder):
    yield from each(written(folder / "other.csv", "a;b\n1;2\n3;4\n"))


@case("a folder of both CSV and Parquet files")
def _(folder):
    pl.DataFrame({"a": [1.0, 2.0]}).write_csv(folder / "one.csv")
    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(folder / "two.parquet")
    yield from each(folder)


@case("a folder without tables")
def _(folder):
    written(folder / "notes.txt", "x")
    yield from each(folder)


@case("a folder of Parquet files that differ in columns")
def _(folder):
    pl.DataFrame({"a": [1.0], "b": [2.0]}).write_parquet(folder / "1.parquet")
    pl.DataFrame({"a": [1.0], "z": [2.0]}).write_parquet(folder / "2.parquet")
    yield from each(folder)


@case("a folder of CSV files that differ in columns")
def _(folder):
    written(folder / "1.csv", "a,b\n1,2\n")
    written(folder / "2.csv", "a,z\n1,2\n")
    yield from each(folder)


@case("a folder of Parquet files that differ in the type of a column")
def _(folder):
    pl.DataFrame({"a": [1.0]}).write_parquet(folder / "1.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(folder / "2.parquet")
    yield from each(folder)


@case("a Parquet file with nulls")
def _(folder):
    frame = pl.DataFrame({"a": X[:, 0], "b": [None if i == 4 else i for i in range(30)]})
    frame.write_parquet(folder / "x.parquet")
    yield from each(folder / "x.parquet", frame)


@case("a .npy file of pickled objects")
def _(folder):
    np.save(folder / "x.npy", np.array([[1, "a"], [2, None]], dtype=object), allow_pickle=True)
    yield from each(folder / "x.npy")


@case("an impossible parameter")
def _(folder):
    for model in estimators():
        yield lambda model=model: model.set_params(max_iter=-1).fit(X)


@case("a parameter of the wrong type")
def _(folder):
    for model in estimators():
        yield lambda model=model: model.set_params(max_iter="10").fit(X)


def regressions(**more) -> Iterator:
    """Every estimator with a target, exact and private."""
    for epsilon in (None, 1.0):
        for cls in TARGETED:
            yield cls(epsilon=epsilon, **more)


def with_noise(**more) -> Iterator:
    for cls in (each.estimator for each in declarations()):
        if {"noise_variance", "tau", "clip"} <= cls().get_params().keys():
            for epsilon in (None, 1.0):
                yield cls(epsilon=epsilon, **more)


def each_target(y, *inputs, models=regressions) -> Iterator:
    for rows in inputs or (X, pandas.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)):
        for model in models():
            yield lambda rows=rows, model=model: model.fit(rows, y)


@case("a noise variance of zero or below")
def _(folder):
    for value in (0.0, -1.0):
        for model in with_noise(noise_variance=value):
            yield lambda model=model: model.fit(X, X[:, 0])


@case("tau or clip of zero or below")
def _(folder):
    for name in ("tau", "clip"):
        for model in with_noise(**{name: 0.0}):
            yield lambda model=model: model.fit(X, X[:, 0])


@case("no target")
def _(folder):
    yield from each_target(None)


@case("a target of another length")
def _(folder):
    yield from each_target(X[:29, 0])


@case("a target of two columns")
def _(folder):
    yield from each_target(X[:, :2])


@case("a target of words")
def _(folder):
    yield from each_target(["a"] * 30)
    yield from each_target(np.array(["1.5x"] * 30, dtype=object))


@case("NaN in the target")
def _(folder):
    yield from each_target(with_value(np.nan)[:, 1])
    list(forms(with_value(np.nan), folder))

    def exact():  # a private fit says nothing of a file's values
        return (model for model in regressions() if model.epsilon is None)

    yield from each_target("b", folder / "x.csv", folder / "x.parquet", models=exact)


@case("a file without the target column")
def _(folder):
    list(forms(X, folder))
    yield from each_target("wage", folder / "x.csv", folder / "x.parquet")


@case("a file with no column beside the target")
def _(folder):
    pl.DataFrame({"a": X[:, 0]}).write_parquet(folder / "x.parquet")
    yield from each_target("a", folder / "x.parquet")


@case("more iterations than records (a private fit, replace-one)")
def _(folder):
    for model in with_noise(n_iter=50, neighbours="replace-one", method="gradient"):
        if model.epsilon is not None:
            yield lambda model=model: model.fit(X, X[:, 0])


PETS = {"pet": ["cat", "dog", "cow"] * 9, "car": ["yes", "no", "no"] * 9}


@case("a value outside the declared categories")
def _(folder):
    pl.DataFrame(PETS).write_csv(folder / "x.csv")
    pl.DataFrame(PETS).write_parquet(folder / "x.parquet")
    rows = np.column_stack([PETS["pet"], PETS["car"]])
    for table in (rows, pandas.DataFrame(PETS), folder / "x.csv", folder / "x.parquet"):
        model = CategoricalMixture(categories=[["cat", "dog"], ["no", "yes"]], epsilon=None)
        yield lambda table=table, model=model: model.fit(table)
        private = CategoricalMixture(categories=[["cat", "dog"], ["no", "yes"]]).fit(table)
        assert np.isfinite(private.category_probs_[0]).all()


@case("a gap in a column of categories")
def _(folder):
    gap = {"pet": ["cat", None, "cow"] * 9, "car": ["yes", "no", "no"] * 9}
    pl.DataFrame(gap).write_csv(folder / "x.csv")
    pl.DataFrame(gap).write_parquet(folder / "x.parquet")
    for table in (pandas.DataFrame(gap), folder / "x.csv", folder / "x.parquet"):
        model = CategoricalMixture(epsilon=None)
        yield lambda table=table, model=model: model.fit(table)
    private = CategoricalMixture(categories=[["cat", "cow"], ["no", "yes"]])
    yield lambda: private.fit(pandas.DataFrame(gap))
    assert np.isfinite(private.fit(folder / "x.csv").category_probs_[0]).all()


@case("a column that is always missing")
def _(folder):
    gone = X.copy()
    gone[:, 1] = np.nan
    for model in (model for model in with_noise() if isinstance(model, MissingCovariateRegression)):
        # Bounds do not stand out of so few.
        model.set_params(bounds=9.0, target_bounds=9.0)
        yield model.fit(gone, X[:, 0] + 0.1 * X[:, 2])
        assert model.epsilon is not None or model.coef_[1] == 0


@case("columns that are never missing")
def _(folder):
    y = X @ [1.0, -2.0, 0.5] + 0.1 * np.random.default_rng(1).normal(size=30)
    model = MissingCovariateRegression(epsilon=None).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y)[0], rtol=1e-4)
    yield model
    yield MissingCovariateRegression(bounds=5, target_bounds=9).fit(X, y)


@case("epsilon of zero or below")
def _(folder):
    for model in estimators(epsilon=0.0):
        yield lambda model=model: model.fit(X)


@case("a model file of another kind")
def _(folder):
    path = written(folder / "m.json", '{"weights": [0.5, 0.5]}')
    yield lambda: privem.load(path)


@case("a damaged model file")
def _(folder):
    for model in estimators():
        model.fit(X).save(folder / "m.json")
        content = json.loads((folder / "m.json").read_text())
        content["attributes"]["n_features_in_"] = 4
        written(folder / "m.json", json.dumps(content))
        yield lambda: privem.load(folder / "m.json")


@case("a model file of a newer version")
def _(folder):
    KMeans(2, epsilon=None).fit(X).save(folder / "m.json")
    content = json.loads((folder / "m.json").read_text()) | {"version": 99}
    written(folder / "m.json", json.dumps(content | {"checksum": _checksum(content)}))
    yield lambda: privem.load(folder / "m.json")


@case("data in place of a model file")
def _(folder):
    list(forms(X, folder))
    for suffix in ("npy", "csv", "parquet"):
        yield lambda suffix=suffix: privem.load(folder / f"x.{suffix}")


@case("no such model file")
def _(folder):
    yield lambda: privem.load(folder / "absent.json")


def check_valid(model):
    """Every fitted number finite, every covariance positive definite, predictions usable."""
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith(("feature_", "privacy_", "structure_")):
            assert np.isfinite(np.asarray(value, dtype=float)).all(), name
    if isinstance(model, GaussianMixture):
        covariances = model.covariances_
        if model.covariance_type in ("full", "tied"):
            np.linalg.cholesky(covariances)
        assert (covariances > 0).all() or covariances.ndim > 1
        assert model.weights_.sum() == pytest.approx(1)
        assert (model.weights_ > 0).all()
    if isinstance(model, FactorAnalysis):
        assert (model.noise_variance_ > 0).all()


def test_every_line_has_a_case_and_every_case_a_line():
    assert set(table()) == set(CASES)


def test_every_error_links_to_its_explanation():
    explained = explanations()
    linked = set()
    for line, (promise, _, why) in table().items():
        if promise.startswith("Valid:"):
            assert why == "-", line
            continue
        link = re.fullmatch(r"\[[^\]]+\]\(#([\w-]+)\)", why)
        assert link, f"{line}: no link to an explanation"
        assert link[1] in explained, f"{line}: nothing at #{link[1]}"
        linked.add(link[1])
    assert linked == set(explained), "an explanation that no error links to"
    # Each says why, and what to do.
    assert [anchor for anchor, body in explained.items() if "\n- " not in body] == []


@pytest.mark.filterwarnings("ignore:Number of distinct clusters:UserWarning")
@pytest.mark.parametrize("line", CASES)
def test_bad_input(line, tmp_path):
    promise, code, _ = table()[line]
    tried = 0
    if promise.startswith("Valid:"):
        assert code == "0"
        for model in CASES[line](tmp_path):
            check_valid(model)
            tried += 1
    else:
        kind, *words = re.findall(r"`([^`]+)`", promise)
        expected = getattr(privem, kind, None) or getattr(builtins, kind)
        # 4 is for model files, 2 for parameters, - for what a command line cannot say.
        assert code in ("2", "3", "4", "-")
        assert (code == "4") == ("model file" in line)
        for attempt in CASES[line](tmp_path):
            with pytest.raises(expected) as error:
                attempt()
            assert type(error.value) is expected
            missing = [word for word in words if word not in str(error.value)]
            assert not missing, f"{missing} not in {error.value}"
            tried += 1
    assert tried
