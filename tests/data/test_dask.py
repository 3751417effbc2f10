"""Dask collections: sums of partitions, by worker processes that may die at any moment."""

import pickle
import re
from copy import deepcopy
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privem.fit
from privem import (
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    Ledger,
    RegressionMixture,
    private_mean,
    select,
)
from privem.core import Stage
from privem.data import ArrayRows, Policy, on_cluster, open_table
from privem.data import dask as dask_rows
from privem.data.partitions import Sums
from privem.federation import Federation, Party
from privem.ledger import Budget
from privem.noise.exact import Exact
from privem.run import Record, Recorded, run

from ..examples import every_model, exact, fit, learned, private
from .workers import GIVEN, NAMES, X, fits_unchanged_by_kills, released, seeded, started

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
key_split = pytest.importorskip("dask.utils").key_split

FRAME = pd.DataFrame(X, columns=NAMES)


def in_pieces(values=X, rows=450):
    return da.from_array(values, chunks=(rows, *values.shape[1:]))


@every_model
def test_every_model_gives_the_same_answer_or_says_why_not(two, declared):
    data = declared.example().data
    pieces = [in_pieces(each, 1 + len(each) // 5) for each in data]
    if declared.categories or declared.schema:
        for model in (exact(declared), private(declared)):
            with pytest.raises(TypeError, match="write it to Parquet files"):
                model.fit(*pieces)
        return
    here, there = (learned(fit(exact(declared), *each)) for each in (data, pieces))
    there.pop("inertia_", None)
    assert there
    for name, values in there.items():
        np.testing.assert_allclose(values, here[name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert fit(private(declared), *pieces).privacy_.unit == "record"


def test_frames_files_and_partitions_of_unknown_length(two, tmp_path):
    """However the rows are held, and read anew in each pass or kept by the cluster."""
    for number in range(4):
        FRAME[number * 750 : (number + 1) * 750].to_parquet(tmp_path / f"{number}.parquet")
    local = GaussianMixture(2, epsilon=None).fit(FRAME)
    pieces = in_pieces()
    unknown = pieces[pieces[:, 0] > -99]
    assert np.isnan(unknown.shape[0])
    for rows in (
        unknown,
        unknown.persist(),
        in_pieces().rechunk((450, 2)),
        dd.read_parquet(tmp_path),
        dd.read_parquet(tmp_path).persist(),
        dd.from_pandas(FRAME.astype({"a": "Float64"}), npartitions=5),
    ):
        model = GaussianMixture(2, epsilon=None).fit(rows)
        np.testing.assert_allclose(model.means_, local.means_, rtol=1e-9)
        np.testing.assert_allclose(model.covariances_, local.covariances_, rtol=1e-9, atol=1e-9)
    assert model.feature_names_in_.tolist() == NAMES
    assert fit(GaussianMixture(2, **GIVEN), rows).privacy_.unit == "record"
    with_none = dd.concat([dd.read_parquet(tmp_path), dd.from_pandas(FRAME[:0], npartitions=1)])
    np.testing.assert_allclose(
        KMeans(2, epsilon=None).fit(with_none).cluster_centers_,
        KMeans(2, epsilon=None).fit(X).cluster_centers_,
    )


def test_targets_and_weights_are_columns_or_go_beside(two):
    rng = np.random.default_rng(0)
    y, weight = X @ [1.0, 2.0, 3.0] + rng.normal(size=3000), rng.uniform(0, 2, size=3000)
    table = FRAME.assign(target=y, times=weight, who=range(3000))
    frame = dd.from_pandas(table, npartitions=6)
    model = RegressionMixture(1, epsilon=None)
    local = model.fit(FRAME, y, sample_weight=weight).coef_
    for data, more in (
        ((frame, "target"), {"sample_weight": "times", "groups": "who"}),
        ((frame[NAMES], frame["target"]), {"sample_weight": frame["times"]}),
        ((in_pieces(), in_pieces(y, 300)), {"sample_weight": in_pieces(weight, 700)}),
        ((in_pieces(), in_pieces(y[:, None])), {"sample_weight": in_pieces(weight)}),
    ):
        np.testing.assert_allclose(model.fit(*data, **more).coef_, local, rtol=1e-9)
    terms = {"bounds": (-9, 9), "target_bounds": (-60, 60), "max_weight": 2.0}
    found = fit(RegressionMixture(1, **terms), frame[[*NAMES, "target"]], "target")
    assert found.feature_names_in_.tolist() == NAMES
    assert found.target_name_in_ == "target"
    found = fit(RegressionMixture(1, **terms), frame.drop(columns="who"), "target", "times")
    assert found.privacy_.public["largest sample weight"] == "2"


def test_sums_depend_on_the_partitions_alone(two, here):
    """To the last bit, whoever computes them, and with how many threads; and so do statements."""
    pieces = in_pieces()
    models = [GaussianMixture(2, epsilon=None), GaussianMixture(2, **GIVEN), KMeans(2, **GIVEN)]
    for model in models:
        expected = released(model, pieces)
        with dask.config.set(scheduler=two.client):
            assert released(model, pieces) == expected
            assert released(model, pieces.persist()) == expected
        with dask.config.set(scheduler="threads", num_workers=3):
            assert released(model, pieces) == expected


def test_another_number_of_workers_gives_the_same_bits(two):
    model, pieces = GaussianMixture(2, **GIVEN), in_pieces()
    expected = released(model, pieces)
    with started(1, threads=2) as one, one.client.as_current():
        assert released(model, pieces) == expected


def test_a_statement_says_nothing_of_partitions(two, here):
    said = set()
    for rows in (100, 451, 3000):
        with seeded():
            model = fit(GaussianMixture(2, **GIVEN), in_pieces(rows=rows))
        said.add(str(model.privacy_.to_dict()))
    assert len(said) == 1


def test_a_fit_is_a_function_of_its_releases(two, monkeypatch):
    plans, record = [], Record()

    def watched(plan, source, watch, meter=None):
        plans.append(deepcopy(plan))
        return run(plan, source, record, meter)

    monkeypatch.setattr(privem.fit, "run", watched)
    model = fit(GaussianMixture(2, **GIVEN), in_pieces())
    again = run(plans[0], Recorded(record.releases))
    twin = GaussianMixture(2, **GIVEN)
    twin.n_features_in_ = 3
    twin._set_private(again)
    np.testing.assert_array_equal(twin.means_, model.means_)


def test_scores_selections_means_and_predictions(two):
    pieces, terms = in_pieces(), {"bounds": (-9, 9), "random_state": 0}
    model = fit(GaussianMixture(2, **GIVEN), X)
    score = model.private_score(pieces, epsilon=4.0)
    assert abs(score.value - model.score(X)) < 0.3
    candidates = [GaussianMixture(k, **terms) for k in (1, 2)]
    assert select(candidates, pieces, epsilon=8.0).best_.n_components == 2
    for x in (pieces, pieces[:, 0], dd.from_pandas(FRAME, npartitions=3)["a"]):
        mean = private_mean(x, epsilon=4.0, tau=25.0)
        assert np.all(np.abs(mean.value - X[:, : np.size(mean.value)].mean(axis=0)) < 0.5)
    advice = "pieces.map_blocks(model.predict, drop_axis=1, dtype=int)"
    with pytest.raises(TypeError, match=re.escape(advice.replace("pieces", "X"))):
        model.predict(pieces)
    # What the message says, word for word: without its dtype dask would try the model on one cell.
    there = eval(advice, {"pieces": pieces, "model": model, "int": int})
    np.testing.assert_array_equal(there.compute(), model.predict(X))


@pytest.mark.parametrize("method", ["fit_predict", "fit_transform"])
@pytest.mark.parametrize("cls", [FactorAnalysis, GaussianMixture, KMeans])
def test_a_fit_whose_rows_cannot_be_predicted_spends_nothing(cls, method, tmp_path, monkeypatch):
    monkeypatch.setattr(dask, "compute", lambda *a, **k: pytest.fail("the cluster was asked"))
    if not hasattr(cls, method):
        return
    FRAME.to_parquet(tmp_path / "x.parquet")
    parties = Federation([Party(X[at::3], f"party {at}") for at in range(3)])
    with Ledger(tmp_path / "budget.db", dataset="x", budget=Budget(9, 1e-4)) as ledger:
        for rows in (in_pieces(), on_cluster(tmp_path / "x.parquet"), parties):
            for epsilon in (1.0, None):
                model = cls(2, bounds=(-9, 9), epsilon=epsilon, ledger=epsilon and ledger)
                with pytest.raises(TypeError, match=r"stay with the (workers|parties)"):
                    getattr(model, method)(rows)
                assert not hasattr(model, "n_features_in_")
        assert not ledger.history()


def test_labels_are_absent_and_said_why(here):
    model = fit(KMeans(2, epsilon=None), in_pieces())
    with pytest.raises(AttributeError, match=r"no attribute 'labels_': .* rows on a cluster"):
        model.labels_  # noqa: B018
    assert model.inertia_ > 0


def refused():
    frame, pieces = dd.from_pandas(FRAME.assign(who="x"), npartitions=3), in_pieces()
    target = RegressionMixture(1, bounds=9, target_bounds=9)
    start = GaussianMixture(2, epsilon=None, init_params="random")
    yield "person", lambda: GaussianMixture(2).fit(frame[NAMES], groups="a")
    yield "person", lambda: KMeans(2).fit(pieces, groups=np.arange(3000))
    yield "'who' of type", lambda: KMeans(2).fit(frame)
    yield "map_blocks", lambda: fit(KMeans(1, epsilon=None), X).score(pieces)
    yield "trust='local'", lambda: private_mean(pieces, tau=1.0, trust="local")
    yield "party", lambda: Party(pieces, "north")
    yield "a cluster gives sums only", lambda: KMeans(2, epsilon=None, init="random").fit(pieces)
    yield "a cluster gives", lambda: start.fit(pieces)
    yield "Expected 2D array", lambda: KMeans(2).fit(pieces[:, 0])
    yield "expected real numbers", lambda: KMeans(2).fit(pieces.astype(complex))
    yield "no columns", lambda: KMeans(2).fit(pieces[:, :0])
    yield "columns of X is unknown", lambda: KMeans(2).fit(pieces[:, da.from_array([True] * 3) > 0])
    yield "target y is None", lambda: target.fit(pieces)
    yield "not a ndarray", lambda: target.fit(pieces, X[:, 0])
    yield "inconsistent numbers", lambda: target.fit(pieces, pieces[:-1, 0])
    yield "same partitions", lambda: target.fit(frame[NAMES], pieces[:, 0])
    yield "names a column 'z'", lambda: target.fit(frame[NAMES], "z")
    yield "not a str", lambda: KMeans(2).fit(pieces, sample_weight="w")
    yield "y must be numbers", lambda: target.fit(frame[NAMES], frame["who"])
    yield "dask Bag", lambda: KMeans(2).fit(dask.bag.from_sequence([1, 2]))
    yield "features", lambda: fit(GaussianMixture(1, **GIVEN), X).private_score(pieces[:, :2])


@pytest.mark.parametrize("attempt", range(21))
def test_what_cannot_be_asked_of_a_cluster_is_refused_at_once(here, attempt, monkeypatch):
    """Before anything is computed."""
    import dask.bag

    monkeypatch.setattr(dask, "compute", lambda *a, **k: pytest.fail("the cluster was asked"))
    said, action = list(refused())[attempt]
    with pytest.raises((TypeError, ValueError), match=re.escape(said)) as problem:
        action()
    assert "3000" not in str(problem.value)
    assert len(list(refused())) == 21


def test_missing_values_are_refused_before_anything_is_spent(two, tmp_path):
    bad = X.copy()
    bad[1234, 1] = np.nan
    with Ledger(tmp_path / "budget.db", dataset="x", budget=Budget(9, 1e-4)) as ledger:
        with pytest.raises(ValueError, match="Input X contains NaN") as problem:
            GaussianMixture(2, ledger=ledger, **GIVEN).fit(in_pieces(bad))
        assert not re.search(r"\d", str(problem.value))
        weight = in_pieces(bad[:, 1])
        with pytest.raises(ValueError, match="sample_weight contains NaN"):
            GaussianMixture(2, ledger=ledger, **GIVEN).fit(in_pieces(), sample_weight=weight)
        assert not ledger.history()
    with pytest.raises(ValueError, match=r"NaN .* row 334, column 1; .* \(rows of partition 2\)"):
        GaussianMixture(2, epsilon=None).fit(in_pieces(bad))
    bad[1234, 1] = np.inf  # outside of the bounds, as 1e308 is
    assert fit(GaussianMixture(2, **GIVEN), in_pieces(bad)).privacy_
    with pytest.raises(ValueError, match=r"infinity in row 334"):
        GaussianMixture(2, epsilon=None).fit(in_pieces(bad))
    with pytest.raises(ValueError, match=r"not negative; row 0 has -1\.0 \(rows of partition"):
        KMeans(2, epsilon=None).fit(in_pieces(), sample_weight=in_pieces(np.full(3000, -1.0)))
    with pytest.raises(ValueError, match=r"0 sample"):
        KMeans(2, epsilon=None).fit(in_pieces()[in_pieces()[:, 0] > 99])
    assert fit(KMeans(2, **GIVEN), in_pieces()[in_pieces()[:, 0] > 99]).privacy_


def test_a_partition_that_cannot_be_computed_says_nothing_of_its_rows(two):
    """Whatever raises in it may quote a record."""

    def failing(block):
        raise ValueError(f"Input {block[0, 0]} is bad")

    def shorter(block):
        return block[:-1]

    pieces = in_pieces()
    failed = pieces.map_blocks(failing, dtype=float)
    with pytest.raises(RuntimeError, match=r"on the cluster \(ValueError\)") as problem:
        GaussianMixture(2, **GIVEN).fit(failed)
    assert problem.value.__context__ is None  # nor does it hold on to the error that quotes one
    with pytest.raises(ValueError, match="is bad"):
        GaussianMixture(2, epsilon=None).fit(failed)
    target = RegressionMixture(1, bounds=9, target_bounds=9)
    with pytest.raises(ValueError, match="not as many rows") as problem:
        target.fit(pieces, pieces[:, 0].map_blocks(shorter, dtype=float))
    assert not re.search(r"\d", str(problem.value))
    # Fewer columns than declared are found before anything is spent.
    narrower = pieces.map_blocks(lambda block: block[:, :1], dtype=float)
    with pytest.raises(ValueError, match="not the columns that X declares") as problem:
        KMeans(2, **GIVEN).fit(narrower)
    assert problem.value.__context__ is None
    # A column that is not of the type it declares: what is no number is missing.
    odd = dd.from_pandas(FRAME, npartitions=3).map_partitions(
        lambda part: part.astype({"a": object}).replace({"a": {part["a"].iloc[0]: "many"}}),
        meta=FRAME[:0],
    )
    with pytest.raises(ValueError, match="Input X contains NaN"):
        GaussianMixture(2, **GIVEN).fit(odd)


def test_rows_are_read_where_they_are_summed(two, tmp_path):
    """A partition that workers can compute is a recipe; one that they hold stays where it is."""
    FRAME.to_parquet(tmp_path / "rows.parquet")
    frame = dd.read_parquet(tmp_path)
    policy = Policy("x", private=False)
    for rows, recipe in ((frame, True), (frame.persist(), False), (in_pieces().persist(), False)):
        parts = open_table(rows, policy=policy).elsewhere.parts
        assert all(isinstance(part, bytes) == recipe for part in parts)
    # Rows that share a task, as halves of what was read once do, are computed by dask.
    halves = [in_pieces(rows=3000)[:1500], in_pieces(rows=3000)[1500:]]
    shared = open_table(da.concatenate(halves), policy=policy).elsewhere.parts
    assert not any(isinstance(part, bytes) for part in shared)


def test_a_query_is_unpacked_once_a_pass_and_only_sums_come_back(here, monkeypatch):
    """By a task of its own: workers hand its result on, and hold it while they need it."""
    asked, given, tasks = [], [], set()
    unpack, compute = dask_rows.unpack, dask.compute
    monkeypatch.setattr(dask_rows, "unpack", lambda packed: asked.append(1) or unpack(packed))

    def watched(*args, **more):
        tasks.update(map(key_split, args[0].__dask_graph__().keys()))
        given.extend(found := compute(*args, **more))
        return found

    monkeypatch.setattr(dask, "compute", watched)
    pieces = in_pieces()
    model = GaussianMixture(2, **GIVEN)
    passes = len(released(model, pieces)) + 1  # one looks for missing values
    assert pieces.numblocks[0] == 7
    assert len(asked) == len(given) == passes
    assert all(len(pickle.dumps(each)) < 4000 < X.nbytes for each in given)
    # What the dashboard shows.
    assert {"read_partition", "merge_sums", "merge_flags"} <= tasks


@dataclass(frozen=True)
class Count:
    n: float


@dataclass(frozen=True)
class Counting:
    """How many records lie in a cell of a random partition."""

    cell: SimpleNamespace
    block_rows: int = 100

    def __call__(self, block, scratch):
        return Count(float(len(block.X)))


def test_every_record_lies_in_one_cell_of_a_random_partition(here):
    """In the same one in every pass, and not in that of its place in another partition."""
    source = open_table(in_pieces(), policy=Policy("x")).source()
    stages = [Stage(Counting(SimpleNamespace(index=i, count=3)), Exact()) for i in range(3)]
    first, again = ([source.release(s).statistics.n for s in stages] for _ in range(2))
    assert first == again
    assert sum(first) == 3000
    assert all(850 < n < 1150 for n in first)  # six standard deviations
    same = np.zeros((3000, 1))
    cells = [
        Sums(stages[0].query, False, b"key")(ArrayRows(same), number).value().n
        for number in range(8)
    ]
    assert len(set(cells)) > 1


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_workers_change_nothing(two, kills, tmp_path):
    """The same releases bit for bit, and one entry of the ledger per fit."""

    def slowly(block):
        import time

        time.sleep(0.01)
        return block

    pieces = in_pieces().map_blocks(slowly, dtype=float)
    fits_unchanged_by_kills(two.cluster, pieces, kills, tmp_path)
