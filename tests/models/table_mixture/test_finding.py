"""Bounds and categories that a schema leaves open: found by releases, or the fit stops."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privem
from privem import BoundsNotFound, Schema, TableMixture
from privem.audit import Transcript, recount
from privem.blocks.histograms import OctaveQuery, OutsideQuery, PlaceQuery
from privem.budget import Terms
from privem.core import Block, Scratch
from privem.data.columns import Category, Number
from privem.data.raw import Cut
from privem.federation import Party
from privem.linalg import ravel
from privem.models.table_mixture.finding import ColumnsQuery, CutQuery, Finding
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery
from privem.run import Recorded, run

N = 8000
RNG = np.random.default_rng(5)
AGE = RNG.integers(18, 90, N).astype(np.int16)
TOWN = RNG.choice(["Bonn", "Cork", "Graz"], N, p=[0.6, 0.3, 0.1]).astype(object)
TOWN[17] = "a secret"
PEOPLE = pl.DataFrame(
    {
        "age": AGE,
        "town": TOWN.astype(str),
        "pay": pl.Series(np.where(AGE > 65, 2e4, 4.5e4) + RNG.normal(0, 3e3, N)).set(
            pl.Series(RNG.random(N) < 0.2), None
        ),
        "retired": AGE > 65,
    }
)
OPEN = Schema({"age": int, "town": str, "pay": float, "retired": bool}, missing=["pay"])
MORE = {"schema": OPEN, "epsilon": 4.0, "random_state": 0, "n_components": 2}


def check(model):
    """Everything is found, and the statement says so."""
    schema, public = model.schema_, model.privacy_.public
    assert schema["town"].values == ("Bonn", "Cork", "Graz", "other")
    assert schema["town"].others
    assert -100 < schema["age"].low <= 20 < 87 <= schema["age"].high < 250
    assert -2e5 < schema["pay"].low < 2e4 < 4.5e4 < schema["pay"].high < 3e5
    assert "outside" in public["bounds of age, pay"]
    assert "noisy counts" in public["categories of town"]
    assert model.privacy_.recount() <= 4.0
    assert recount(model.privacy_).passed
    assert "secret" not in json.dumps(schema.to_dict()) + str(model.privacy_)


def test_what_is_open_is_found_and_stated(tmp_path):
    model = TableMixture(**MORE).fit(PEOPLE)
    check(model)
    assert model.outside_ < 0.02
    thresholds = [g.failure for r in model.privacy_.releases for g in r.groups if g.failure]
    assert thresholds == [model.delta / 10]
    drawn = model.sample_frame(3000)
    assert drawn.schema == PEOPLE.schema
    assert set(drawn["town"]) <= {"Bonn", "Cork", "Graz", "other"}
    assert drawn["town"].value_counts().filter(town="Bonn")["count"].item() > 1500
    assert 0.1 < drawn["pay"].null_count() / 3000 < 0.3
    # What was not found counts as all the others do.
    other, secret = (PEOPLE.head(1).with_columns(town=pl.lit(t)) for t in ("other", "a secret"))
    assert model.score_samples(other) == model.score_samples(secret)
    model.save(tmp_path / "model.json")
    again = privem.load(tmp_path / "model.json")
    assert again.schema_ == model.schema_
    assert np.array_equal(again.score_samples(PEOPLE), model.score_samples(PEOPLE))
    assert (model.uncertainty()["weights_"] > 0).any()


def test_a_fit_is_a_function_of_its_releases():
    asked, first = Transcript(), TableMixture(**MORE)
    first._watch = asked
    first.fit(PEOPLE)
    names = [stage.name for stage, _ in asked.entries]
    found = ["scale", "place", "ends", "outside", "categories"]
    assert names == ["count", *found, "cells", "tables"]
    second = TableMixture(**MORE)
    plan = second._private_plan(second._open_table(PEOPLE), second._terms())
    allowance = second._terms().allowance(plan.parts(), True)

    class Again:
        def stages(self):
            return plan.stages(allowance)

    result = run(Again(), Recorded(release for _, release in asked.entries))
    assert result.complete.schema == first.schema_
    assert np.array_equal(result.state.profiles, first.profiles_)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("csv", {}),
        ("parquet", {"neighbours": "replace-one"}),
        ("frame", {"groups": np.arange(N) // 2, "sample_weight": np.linspace(0.1, 2, N)}),
        ("lazy", {"target": "retired"}),
        ("csv", {"groups": "who", "neighbours": "replace-one"}),
    ],
)
def test_tables_of_every_kind(kind, more, tmp_path):
    rows = PEOPLE.with_columns(who=pl.Series(np.arange(N) // 2)) if "groups" in more else PEOPLE
    data = {"groups": more["groups"]} if isinstance(more.get("groups"), str) else {}
    if isinstance(more.get("groups"), np.ndarray):
        rows, data = PEOPLE, {key: more[key] for key in ("groups", "sample_weight")}
    path = tmp_path / f"people.{kind}"
    match kind:
        case "csv":
            rows.write_csv(path)
        case "parquet":
            rows.write_parquet(path)
    X = {"frame": rows, "lazy": rows.lazy()}.get(kind, path)
    settings = {key: more[key] for key in ("neighbours", "target") if key in more}
    settings |= {} if "target" in more else {"n_components": 1}
    check(TableMixture(**MORE | settings).fit(X, **data))


def test_a_fit_that_finds_nothing_stops_and_says_what_it_cost():
    one = TableMixture(schema={"town": str}, epsilon=0.5, delta=1e-9)
    with pytest.raises(BoundsNotFound, match="no category of column town stands out") as stopped:
        one.fit(PEOPLE.select("town").head(40))
    assert stopped.value.columns == ("town",)
    assert 0 < stopped.value.spent < 0.5
    assert not hasattr(one, "schema_")
    with pytest.raises(BoundsNotFound, match=r"too few to find bounds of columns age, pay.*schema"):
        TableMixture(**MORE).fit(PEOPLE.head(50))


@pytest.mark.parametrize("epsilon", [4.0, None])
def test_a_bound_that_is_known_stays(epsilon):
    frame = pl.DataFrame({"pay": pl.Series(RNG.exponential(3e4, N))})
    known = TableMixture(schema={"pay": (0, None)}, epsilon=epsilon, n_components=1).fit(frame)
    pay = known.schema_["pay"]
    assert pay.low == 0
    assert 1e5 < pay.high < 1e6
    assert known.sample_frame(500)["pay"].min() >= 0


def test_bounds_that_contradict_a_constraint_stop_the_fit_before_more_is_spent():
    apart = pl.DataFrame({"first": RNG.normal(5e4, 50, N), "last": RNG.normal(10, 1, N)})
    schema = Schema({"first": float, "last": float}, constraints=["first <= last"])
    with pytest.raises(
        BoundsNotFound, match=r"'first <= last': by their bounds.*so far"
    ) as stopped:
        TableMixture(schema=schema, epsilon=4.0).fit(apart)
    assert 0 < stopped.value.spent < 2.0
    with pytest.raises(ValueError, match="by their bounds, it never holds"):
        TableMixture(schema=schema, epsilon=None).fit(apart)


def test_where_nobody_may_look_for_them():
    with pytest.raises(
        ValueError, match=r"no bounds for 'age', 'pay'.*not possible in a federation"
    ):
        Party(PEOPLE, "north", schema=OPEN)
    with pytest.raises(ValueError, match="no categories for 'town'"):
        Party(PEOPLE.select("town"), "north", schema={"town": str})
    with pytest.raises(ValueError, match="delta above 0"):
        TableMixture(schema=OPEN, delta=0).fit(PEOPLE)
    with pytest.raises(ValueError, match="declared as str, but the table holds Date"):
        TableMixture(schema={"day": str}).fit(pl.DataFrame({"day": [None]}, {"day": pl.Date}))
    with pytest.raises(ValueError, match="contains NaN"):
        TableMixture(schema=Schema({"pay": float})).fit(PEOPLE.select("pay"))


def test_names_of_categories_never_collide():
    X = pl.DataFrame({"x": ["other", "(other)", "1", "1.0", "True"] * 400})
    model = TableMixture(schema={"x": str}, epsilon=4.0, n_components=1).fit(X)
    assert model.schema_["x"].values == ("(other)", "1", "other", "((other))")
    drawn = model.sample_frame(1000)["x"]
    assert (drawn == "1").mean() == pytest.approx(0.6, abs=0.15)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_nobody_moves_a_sum_of_rows_yet_to_be_cut_by_more_than_is_charged(neighbours, seed):
    rng = np.random.default_rng(seed)
    cap = float(rng.choice([1.0, 0.3, 3.0]))
    age = Number("age", -3, 40, whole=True, missing=bool(rng.integers(2)))
    town = Category("town", ("a", "b", "other"), others=True)
    cuts = (Cut.of(age), None, Cut.of(town, {"a": 0, "b": 1}))
    sizes = (age.size, 3, town.size)
    maps = tuple(tuple(rng.integers(0, 2, size).tolist()) for size in sizes)
    wild = np.array([-1.0, 0.5, 7.0, 99.0, 1e300, np.nan, np.inf, -np.inf, *cuts[2].starts])
    X = rng.choice(wild, (8, 3))
    weight = rng.choice([0.0, cap, cap / 3, 1e300, np.inf, -1.0, np.nan], len(X))
    centre = rng.normal(size=2)
    inner = [
        CutQuery(CellCountsQuery(sizes, cap), cuts),
        CutQuery(TablesQuery(maps, ((0, 1), (1, 2)), None, cap), cuts),
        ColumnsQuery(OctaveQuery(centre), (0, 2)),
        ColumnsQuery(PlaceQuery(np.exp2(rng.integers(-3, 3, 2))), (0, 2)),
        ColumnsQuery(OutsideQuery((1, 1), centre, np.ones(2)), (0, 2)),
    ]
    for query in inner:
        (group,) = query.groups(neighbours)
        with np.errstate(all="ignore"):
            found = np.stack(
                [
                    ravel(query(Block(X[i : i + 1], weight[i : i + 1]), Scratch()))
                    for i in range(len(X))
                ]
            )
        assert found.shape[1] == group.dimension
        moved = np.linalg.norm(found, axis=1)
        if neighbours == "replace-one":
            moved = np.linalg.norm(found[:, None] - found, axis=2)
        assert moved.max() <= group.sensitivity + 2 * query.rounding(cap + 1)


def test_what_is_found_is_paid_for_beforehand():
    finding = Finding(OPEN, 1e-6)
    shares = {part.name: part.share for part in finding.parts()}
    assert sum(shares.values()) == pytest.approx(0.25)
    assert sum(shares.values()) - shares["categories"] <= 0.15 + 1e-12
    assert Finding(OPEN.select(["retired"]), 1e-6).parts() == []
    # Whatever is found has no more cells than were paid for.
    most = {each.name: each.cells for each in finding.most}
    assert most["pay"] >= Number("x", -1.0, 1.0, missing=True).size
    assert most["age"] >= Number("x", -999, 999, whole=True).size
    terms = Terms.check(1.0, 1e-6)
    parts = [*finding.parts(), privem.budget.Part("cells", 0.8, [("gaussian", 9)])]
    allowance = terms.allowance(parts, False)
    assert allowance.multiplier("categories") > allowance.multiplier("cells")
