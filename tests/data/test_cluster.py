"""Parquet files that the workers of a cluster read: the sums of one process, and what is said."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from privem import (
    CategoricalMixture,
    GaussianMixture,
    KMeans,
    Ledger,
    MissingCovariateRegression,
    RegressionMixture,
    private_mean,
    select,
)
from privem.data import Policy, on_cluster, open_table
from privem.federation import Party
from privem.ledger import Budget

from ..examples import every_model, exact, fit, learned
from .workers import GIVEN, NAMES, X, fits_unchanged_by_kills, released, seeded, started

dask = pytest.importorskip("dask")

RNG = np.random.default_rng(7)
FRAME = pl.DataFrame(X, schema=NAMES)


def written(folder, frame=FRAME, sizes=(700, 1, 0, 1299, 1000), group=300):
    """Files of so many rows, in row groups."""
    folder.mkdir(exist_ok=True)
    start = 0
    for number, size in enumerate(sizes):
        frame[start : start + size].write_parquet(
            folder / f"{number}.parquet", row_group_size=group
        )
        start += size
    return folder


@every_model
def test_every_model_gives_the_answer_of_one_process(here, tmp_path, declared):
    if declared.categories or declared.schema:
        return
    columns = np.column_stack(declared.example().data)
    frame = pl.DataFrame(columns, schema=[f"x{j}" for j in range(columns.shape[1])])
    target = frame.columns[-1] if declared.target else None
    size = len(frame) // 3
    path = written(tmp_path, frame, (size, size, len(frame) - 2 * size), 1 + size // 2)
    rows = on_cluster(path, target=target, partition_rows=1)
    assert len(rows.parts) == 6
    one = learned(fit(exact(declared), path, target))
    cluster = learned(fit(exact(declared), rows))
    cluster.pop("inertia_", None)
    assert cluster
    for name, values in cluster.items():
        np.testing.assert_allclose(values, one[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("least", [1, 299, 300, 301, 1000, 2900, 10**9])
def test_partitions_are_whole_row_groups_and_hold_every_row_once(tmp_path, least):
    rows = on_cluster(written(tmp_path), partition_rows=least)
    form = open_table(rows, policy=Policy("x")).elsewhere.form
    read = [np.concatenate([b.X for b in part.rows(form).blocks(77)]) for part in rows.parts]
    np.testing.assert_array_equal(np.concatenate(read), X)
    assert [len(each) for each in read] == [part.count for part in rows.parts]
    assert all(least <= part.count < least + 300 for part in rows.parts[:-1])
    # 700 rows end a row group of 100, the file of 1,299 one of 99 (or with a row beside it).
    ends = np.cumsum([part.count for part in rows.parts])
    assert set(ends) <= {300, 600, 700, 701, 1001, 1301, 1601, 1901, 2000, 2300, 2600, 2900, 3000}
    assert "3000" not in repr(rows)


def test_sums_depend_on_the_partitions_alone(two, here, tmp_path):
    """To the last bit, whoever reads them, and with how many threads."""
    frame = pl.DataFrame(RNG.normal(size=(100_000, 3)), schema=NAMES)
    rows = on_cluster(written(tmp_path, frame, (70_000, 30_000), 21_000), partition_rows=40_000)
    assert len(rows.parts) == 3
    assert max(part.count for part in rows.parts) > 40_000  # more than one batch of polars
    for model in (GaussianMixture(2, epsilon=None, max_iter=3), GaussianMixture(2, **GIVEN)):
        expected = released(model, rows)
        with dask.config.set(scheduler=two.client):
            assert released(model, rows) == expected
        with dask.config.set(scheduler="threads", num_workers=3):
            assert released(model, rows) == expected
    polars = {"POLARS_MAX_THREADS": str(1 if pl.thread_pool_size() > 1 else 3)}
    with started(1, env=polars) as other, other.client.as_current():
        sizes = other.client.run(pl.thread_pool_size)
        assert set(sizes.values()) == {int(polars["POLARS_MAX_THREADS"])}
        with dask.config.set(scheduler=other.client):
            assert released(model, rows) == expected


def test_columns_weights_and_targets_are_named_when_the_rows_are_opened(two, tmp_path):
    y, weight = X @ [1.0, 2.0, 3.0] + RNG.normal(size=3000), RNG.uniform(0, 2, size=3000)
    frame = FRAME.with_columns(target=y, times=weight, who=pl.lit("x"), n=pl.lit(1, pl.Int8))
    path = written(tmp_path, frame)
    chosen = {"columns": ["c", "a"], "weight": "times", "target": "target"}
    rows = on_cluster(path, **chosen, partition_rows=500)
    model = RegressionMixture(1, epsilon=None)
    local = model.fit(X[:, [2, 0]], y, sample_weight=weight).coef_
    np.testing.assert_allclose(model.fit(rows).coef_, local, rtol=1e-9)
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.target_name_in_ == "target"
    terms = {"bounds": (-9, 9), "target_bounds": (-60, 60), "max_weight": 2.0}
    assert fit(RegressionMixture(1, **terms), rows).privacy_.unit == "record"
    left = on_cluster(path, without=["who", "target"], weight="times")
    assert left.names == ("a", "b", "c", "n")
    assert left.types == ("float64", "float64", "float64", "int8")
    local = KMeans(2, epsilon=None).fit(frame[list(left.names)], sample_weight=weight)
    there = KMeans(2, epsilon=None).fit(left).cluster_centers_
    np.testing.assert_allclose(there, local.cluster_centers_, rtol=1e-9)


def test_scores_selections_and_means(here, tmp_path):
    rows, terms = on_cluster(written(tmp_path)), {"bounds": (-9, 9), "random_state": 0}
    model = fit(GaussianMixture(2, **GIVEN), X)
    assert abs(model.private_score(rows, epsilon=4.0).value - model.score(X)) < 0.3
    candidates = [GaussianMixture(k, **terms) for k in (1, 2)]
    assert select(candidates, rows, epsilon=8.0).best_.n_components == 2
    mean = private_mean(rows, epsilon=4.0, tau=25.0)
    assert np.all(np.abs(mean.value - X.mean(axis=0)) < 0.5)


def refused(folder):
    rows = on_cluster(written(folder / "good"), partition_rows=900)
    text = written(folder / "text", FRAME.with_columns(who=pl.lit("3000")))
    flags = written(folder / "flags", FRAME.with_columns(b=pl.col("b") > 0))
    lacking = written(folder / "lacking")
    FRAME[:1].drop("b").write_parquet(lacking / "9.parquet")
    later = written(folder / "later")
    FRAME[:1].with_columns(b=pl.lit("3000")).write_parquet(later / "9.parquet")
    torn = written(folder / "torn")
    (torn / "9.parquet").write_bytes(b"3000")
    (folder / "rows.csv").write_text("a\n3000\n")
    target = RegressionMixture(1, bounds=9, target_bounds=9)
    yield "person", lambda: GaussianMixture(2).fit(rows, groups="a")
    yield "'who' of type String", lambda: on_cluster(text)
    yield "other names or types", lambda: on_cluster(later)
    yield "no column 'z'", lambda: on_cluster(text, columns=["a", "z"])
    yield "other names or types", lambda: on_cluster(lacking)
    yield "not a readable table", lambda: on_cluster(torn)
    yield "at least 1", lambda: on_cluster(folder / "good", partition_rows=0)
    yield "workers read Parquet files", lambda: on_cluster(folder / "rows.csv")
    yield "declared as yes or no", lambda: fit(GaussianMixture(2, **GIVEN), on_cluster(flags))
    yield "pass the path itself", lambda: fit(KMeans(1, epsilon=None), FRAME).score(rows)
    yield "pass the path itself", lambda: CategoricalMixture(2, epsilon=None).fit(rows)
    yield "party", lambda: Party(rows, "north")
    yield "trust='local'", lambda: private_mean(rows, tau=1.0, trust="local")
    yield "single rows", lambda: KMeans(2, epsilon=None, init="random").fit(rows)
    yield "when opening the rows", lambda: KMeans(2).fit(rows, sample_weight=X[:, 0])
    yield "when opening the rows", lambda: target.fit(rows, X[:, 0])
    yield "opened without one: on_cluster(", lambda: target.fit(rows)
    named = on_cluster(folder / "good", target="c")
    yield "with the target 'c', and KMeans takes none", lambda: KMeans(2).fit(named)
    yield "column 'b' is String in the one and Float64 in the other", lambda: on_cluster(later)
    yield "column 'b' is not there in the one", lambda: on_cluster(lacking)
    yield "the path of one Parquet file", lambda: on_cluster([folder / "good"])
    yield "dask.dataframe.read_parquet", lambda: on_cluster("s3://bucket/people/")
    yield "features", lambda: fit(GaussianMixture(1, **GIVEN), X[:, :2]).private_score(rows)


@pytest.mark.parametrize("attempt", range(23))
def test_what_cannot_be_asked_is_refused_before_rows_are_read(here, attempt, monkeypatch, tmp_path):
    monkeypatch.setattr(dask, "compute", lambda *a, **k: pytest.fail("the cluster was asked"))
    said, action = list(refused(tmp_path))[attempt]
    with pytest.raises((TypeError, ValueError), match=re.escape(said)) as problem:
        action()
    assert "3000" not in str(problem.value)
    assert len(list(refused(tmp_path))) == 23


def test_bad_values(two, tmp_path):
    """A private fit says that one is missing, before it spends; an exact one says where."""

    def having(value, column="b"):
        bad = FRAME.with_columns(times=pl.lit(1.0))
        at = pl.int_range(pl.len()) == 1234
        bad = bad.with_columns(pl.when(at).then(value).otherwise(column).alias(column))
        return on_cluster(written(tmp_path, bad), weight="times", partition_rows=600)

    for value in (None, float("nan")):
        with Ledger(tmp_path / "budget.db", dataset="x", budget=Budget(9, 1e-4)) as ledger:
            with pytest.raises(ValueError, match="Input X contains NaN") as problem:
                GaussianMixture(2, ledger=ledger, **GIVEN).fit(having(value))
            assert not re.search(r"\d", str(problem.value))
            assert not ledger.history()
        begins = r"\(rows of partition 1, which begins at row 600 of '.*0\.parquet'\)"
        with pytest.raises(ValueError, match=rf"NaN .* in row 634, column 'b'; .* {begins}"):
            GaussianMixture(2, epsilon=None).fit(having(value))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        GaussianMixture(2, **GIVEN).fit(having(None, "times"))
    with pytest.raises(ValueError, match=r"row 634 has -1\.0 \(rows of partition 1, "):
        KMeans(2, epsilon=None).fit(having(-1.0, "times"))
    infinite = having(float("inf"))
    assert fit(GaussianMixture(2, **GIVEN), infinite).privacy_
    with pytest.raises(ValueError, match="infinity in row 634"):
        GaussianMixture(2, epsilon=None).fit(infinite)
    # Features may be missing in this model, and nothing else.
    model = MissingCovariateRegression(epsilon=None, max_iter=2)
    for column, said in (("b", "X contains infinity"), ("c", "X contains infinity")):
        having(float("inf"), column)
        with pytest.raises(ValueError, match=said):
            fit(model, on_cluster(tmp_path, NAMES[:2], target="c", partition_rows=600))
    having(None, "c")
    with pytest.raises(ValueError, match="y contains NaN"):
        fit(model, on_cluster(tmp_path, NAMES[:2], target="c", partition_rows=600))
    having(None)
    assert fit(model, on_cluster(tmp_path, NAMES[:2], target="c", partition_rows=600)).coef_.size


def test_no_rows(here, tmp_path):
    rows = on_cluster(written(tmp_path, sizes=(0, 0)))
    with pytest.raises(ValueError, match="0 sample"):
        KMeans(2, epsilon=None).fit(rows)
    assert fit(KMeans(2, **GIVEN), rows).privacy_


def test_a_file_that_cannot_be_read_says_nothing_of_its_rows(two, tmp_path):
    rows = on_cluster(written(tmp_path), partition_rows=900)
    FRAME[:700].with_columns(b=pl.lit("17.5 kg")).write_parquet(tmp_path / "0.parquet")
    with pytest.raises(RuntimeError, match=r"on the cluster \(ValueError\).*same path") as problem:
        GaussianMixture(2, **GIVEN).fit(rows)
    assert problem.value.__context__ is None
    assert "17.5" not in str(problem.value)
    with pytest.raises(ValueError, match=r"'.*0\.parquet' to .* could not be read"):
        GaussianMixture(2, epsilon=None).fit(rows)


def test_a_statement_says_nothing_of_partitions(here, tmp_path):
    path = written(tmp_path)
    parts = {rows: on_cluster(path, partition_rows=rows) for rows in (1, 900, 9000)}
    assert len({len(rows.parts) for rows in parts.values()}) == 3
    said = set()
    for rows in parts.values():
        with seeded():
            model = fit(GaussianMixture(2, **GIVEN), rows)
        said.add(str(model.privacy_.to_dict()))
    assert len(said) == 1


def test_killed_workers_change_nothing(two, tmp_path):
    class Slow:
        """A part that takes a while, so that workers die at it."""

        def __init__(self, part):
            self.part = part

        def rows(self, form):
            import time

            time.sleep(0.01)
            return self.part.rows(form)

    rows = on_cluster(written(tmp_path / "rows"), partition_rows=300)
    slow = replace(rows, parts=tuple(map(Slow, rows.parts)))
    fits_unchanged_by_kills(two.cluster, slow, 10, tmp_path)


@pytest.mark.parametrize("size", [650, 750])
def test_files_with_other_rows_than_when_they_were_opened_are_refused(here, tmp_path, size):
    """A part would go on into rows of the next one, which would count twice in one sum."""
    rows = on_cluster(written(tmp_path), partition_rows=900)
    assert len(rows.parts[0].paths) > 1
    FRAME[:size].write_parquet(tmp_path / "0.parquet", row_group_size=300)
    for model in (GaussianMixture(2, **GIVEN), GaussianMixture(2, epsilon=None)):
        with pytest.raises(ValueError, match=r"0\.parquet' has changed since") as problem:
            model.fit(rows)
        assert str(size) not in str(problem.value).replace(str(tmp_path), "")


def test_a_file_is_the_one_of_its_name_whatever_stands_in_it(here, tmp_path):
    """What a pattern would match is not looked at in its place."""
    FRAME.write_parquet(tmp_path / "00.parquet")
    FRAME.with_columns(b=pl.lit("3000")).write_parquet(tmp_path / "[0]0.parquet")
    with pytest.raises(ValueError, match="'b' of type String"):
        on_cluster(tmp_path / "[0]0.parquet")
    FRAME.write_parquet(tmp_path / "[7].parquet")
    there = KMeans(2, epsilon=None).fit(on_cluster(tmp_path / "[7].parquet")).cluster_centers_
    local = KMeans(2, epsilon=None).fit(FRAME).cluster_centers_
    np.testing.assert_allclose(there, local, rtol=1e-9)
