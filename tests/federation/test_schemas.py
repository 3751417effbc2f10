"""Parties with mixed tables: what is agreed about their columns, and what each of them checks."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from privem import Schema, TableMixture
from privem.federation import Federation, Party, PartyRefused

# Not in the order of the alphabet.
FILE = """
[columns]
town = {categories = ["Bonn", "Cork", "Graz"]}
age = {type = "int", bounds = [18, 90]}
weight = {type = "float", bounds = [30, 200], missing = true}
smoker = {type = "bool"}
seen = {type = "date", bounds = ["2024-01-01", "2024-01-31"]}
"""
PARTIES = ("north", "west", "south")
NAMES = ["town", "age", "weight", "smoker", "seen"]


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, n)
    weight = np.where(rng.random(n) < 0.1, np.nan, rng.normal(75, 12, n))
    return pl.DataFrame(
        {
            "smoker": rng.random(n) < 0.2 + 0.4 * (age > 60),
            "age": age,
            "town": rng.choice(["Bonn", "Cork", "Graz"], n, p=[0.6, 0.3, 0.1]),
            "weight": pl.Series(weight).fill_nan(None),
            "seen": np.datetime64("2024-01-01") + rng.integers(0, 31, n),
        }
    )


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(FILE)
    return path


def exact(**more):
    return TableMixture(n_components=2, epsilon=None, random_state=0, tol=0.02, **more)


def test_a_schema_from_a_file(schema):
    """The order of columns is the schema's, and an estimator needs to be told nothing."""
    rows = [people(200, seed) for seed in range(3)]
    parties = [Party(part, name, schema=schema) for part, name in zip(rows, PARTIES, strict=True)]
    model = exact().fit(Federation(parties, rows=1000))
    central = exact(schema=schema).fit(pl.concat(rows))
    assert model.schema_.names == central.schema_.names == NAMES
    for found, pooled in zip(model.marginals_, central.marginals_, strict=True):
        np.testing.assert_allclose(found, pooled, atol=1e-9)
    private = TableMixture(epsilon=2.0, random_state=0).fit(Federation(parties))
    assert private.sample_frame(5).columns == NAMES
    with pytest.raises(ValueError, match="not what the parties have agreed on"):
        TableMixture(schema={"age": (0, 90)}).fit(Federation(parties))
    with pytest.raises(ValueError, match="needs schema="):
        TableMixture().fit(rows[0])


def test_weights_of_a_column(schema):
    rows = people(300).with_columns(count=pl.Series(np.arange(300) % 3 + 1.0))
    parts = [rows[i::3] for i in range(3)]
    parties = [
        Party(part, name, schema=schema, sample_weight="count")
        for part, name in zip(parts, PARTIES, strict=True)
    ]
    model = exact().fit(Federation(parties, protection="plain"))
    central = exact(schema=schema).fit(rows, sample_weight="count")
    assert model.n_records_ == pytest.approx(600)
    np.testing.assert_allclose(model.weights_, central.weights_, atol=1e-9)


@pytest.mark.parametrize("odd", ["Oslo", None])
def test_exact_answers_are_refused_where_values_are_not_declared(schema, odd):
    rows = [people(200, seed) for seed in range(3)]
    rows[1] = rows[1].with_columns(town=pl.Series([odd, *rows[1]["town"][1:]]))
    parties = [Party(part, name, schema=schema) for part, name in zip(rows, PARTIES, strict=True)]
    with pytest.raises(PartyRefused, match="west"):
        exact().fit(Federation(parties, rows=1000))
    assert "not among those agreed on" in str(parties[1].problem)
    # A private fit says nothing about it.
    TableMixture(epsilon=1.0, random_state=0).fit(Federation(parties))


pytest.importorskip("flwr")

from privem.cli import app  # noqa: E402
from privem.cli.federation_folders import agreed  # noqa: E402
from privem.cli.federation_run import _rows, _set_bounds  # noqa: E402
from privem.cli.fit import Request  # noqa: E402
from privem.declaration import declared  # noqa: E402
from privem.federation import InProcess  # noqa: E402
from privem.federation.flower.folders import PartyFolder, Terms  # noqa: E402

TABLE = declared("TableMixture")


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def set_up(folder, *terms):
    names = [word for name in PARTIES for word in ("--party", name)]
    return command("federate", "init", folder, *names, *terms)


def test_folders(tmp_path, schema):
    """Types are agreed on by the schema alone: a CSV file and Parquet files of other types."""
    done = set_up(tmp_path / "fed", "--schema", schema, "--rows", "2000")
    assert done.exit_code == 0, done.output
    assert "-m table -o" in done.stdout
    rows = [people(200, seed) for seed in range(3)]
    rows[0].write_csv(tmp_path / "north.csv")
    rows[1].with_columns(pl.col("age").cast(pl.UInt8)).write_parquet(tmp_path / "west.parquet")
    floats = rows[2].with_columns(
        pl.col("age", "weight").cast(pl.Float32), town=pl.col("town").cast(pl.Categorical)
    )
    floats.write_parquet(tmp_path / "south.parquet")
    parties = []
    for name, file in zip(PARTIES, ("north.csv", "west.parquet", "south.parquet"), strict=True):
        place = PartyFolder(tmp_path / "fed" / name)
        data, more = _rows(place.terms, tmp_path / file)
        parties.append(place.party(data, None, 1e-6, **more))
    federation = Federation.over(place.terms.agreement, InProcess(parties))
    columns = agreed(tmp_path / "fed", TABLE, "smoker")
    given = {"components": 2, "random_state": 0, "tol": 0.02, **columns}
    request = Request(TABLE, True, given)
    model = request.estimator()
    _set_bounds(model, request, place.terms.agreement)
    model.fit(federation)
    pooled = pl.concat([*rows[:2], rows[2].with_columns(floats["weight"].cast(pl.Float64))])
    central = exact(schema=schema).fit(pooled)
    np.testing.assert_allclose(model.weights_, central.weights_, atol=1e-9)
    assert model.sample_frame(3).dtypes == central.sample_frame(3).dtypes


def test_a_party_with_other_columns_is_told_before_it_connects(tmp_path, schema):
    assert set_up(tmp_path / "fed", "--schema", schema).exit_code == 0
    for wrong, words in (
        (people(9).with_columns(age=pl.lit("2024-01-01").str.to_date()), "declared as int"),
        (people(9).drop("weight"), "weight"),
        (people(9).with_columns(more=1), "not in the schema"),
    ):
        wrong.write_parquet(tmp_path / "rows.parquet")
        done = command("federate", "party", tmp_path / "fed" / "north", tmp_path / "rows.parquet")
        assert done.exit_code != 0
        assert words in done.output, done.output


def test_persons_and_weights(tmp_path, schema):
    assert set_up(tmp_path / "fed", "--schema", schema, "--persons").exit_code == 0
    rows = people(40).with_columns(who=pl.Series(np.arange(40) // 4))
    rows.write_csv(tmp_path / "rows.csv")
    place = PartyFolder(tmp_path / "fed" / "north")
    data, more = _rows(place.terms, tmp_path / "rows.csv", weight=None, groups="who", header=True)
    party = place.party(data, 1.0, 1e-6, **more)
    assert party.persons
    assert party.columns == tuple(NAMES)
    assert party.limit == 1.0
    more.pop("groups")
    with pytest.raises(ValueError, match="not in the schema"):
        place.party(data, **more)
    assert set_up(tmp_path / "two", "--schema", schema, "--weighted").exit_code == 0
    place = PartyFolder(tmp_path / "two" / "north")
    data, more = _rows(place.terms, tmp_path / "rows.csv", weight="who", groups=None, header=None)
    assert place.party(data, **more).weighted


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (["--bound", "age=0:1"], "--schema names the columns"),
        (["--category", "town=a,b"], "--schema names the columns"),
        (["--target", "age"], "--schema names the columns"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, schema, terms, words):
    done = set_up(tmp_path / "fed", "--schema", schema, *terms)
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "fed").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("age = {bounds = [18, 90]}", "parties agree on a type"),
        ('age = {type = "int"}', "no bounds for 'age'"),
        ('age = {type = "int", bounds = [0, inf]}', "no bounds for 'age'"),
        ('age = {type = "int", bounds = "?"}', "is a draft: complete every"),
    ],
)
def test_what_parties_cannot_agree_on_is_refused(tmp_path, line, words):
    path = tmp_path / "schema.toml"
    path.write_text(f"[columns]\n{line}\n")
    done = set_up(tmp_path / "fed", "--schema", path)
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "fed").exists()


@pytest.mark.parametrize(
    ("terms", "model", "words"),
    [
        (None, ["gmm", "-k", 2], "--model table and the --schema of privem federate init go"),
        (["--columns", "a,b"], ["table"], "go together"),
        (None, ["table", "--target", "a"], "--target 'a' is not one of town, age"),
        (["--columns", "a,b"], ["gmm", "-k", 2, "--target", "a"], "agreed on in privem federate"),
    ],
)
def test_other_models_are_refused_before_anybody_is_asked(tmp_path, schema, terms, model, words):
    assert set_up(tmp_path / "fed", *(terms or ["--schema", schema])).exit_code == 0
    server, output = tmp_path / "fed" / "server", tmp_path / "model.json"
    done = command("federate", "run", server, "-o", output, "-m", *model)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not list(server.glob("runs/*"))


def test_the_agreed_schema_is_complete(tmp_path, schema):
    assert set_up(tmp_path / "fed", "--schema", schema).exit_code == 0
    agreement = Terms.load(tmp_path / "fed" / "server").agreement
    known = Schema.from_dict(json.loads(agreement.schema))
    assert all(column.dtype is not None for column in known.columns)
    assert agreement.high == tuple(each.cells - 1.0 for each in known.cells)
