"""``privem synth``, and a model with a schema in the other commands."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import privem
from privem.audit import Transcript
from privem.cli import app

RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    n = 900
    age = RNG.integers(18, 90, n)
    people = pl.DataFrame(
        {"age": age, "city": RNG.choice(["Bonn", "Cork"], n), "retired": age > 65}
    )
    people.write_csv(tmp_path / "people.csv")
    people.write_parquet(tmp_path / "people.parquet")
    privem.Schema({"age": (int, 18, 90), "city": ["Bonn", "Cork"], "retired": bool}).write(
        tmp_path / "schema.toml"
    )
    return tmp_path


def run(folder, *words, code=0):
    words = [w if w.startswith("-") or "." not in w else str(folder / w) for w in words]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    return result


def test_a_synthetic_table_and_its_report(folder):
    said = run(
        folder, "synth", "people.csv", "--header", "--schema", "schema.toml", "-o", "out.parquet",
        "--target", "retired", "--evaluate", "people.parquet", "--seed", "0",
        "--picture", "out.png",
    ).stdout  # fmt: skip
    assert "differentially private" in said
    assert "of the truth" in said
    assert "AUC of trees" in said
    assert max(map(len, said.replace(str(folder), "").splitlines())) <= 80
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    drawn = pl.read_parquet(folder / "out.parquet")
    assert drawn.columns == ["age", "city", "retired"]
    assert abs(drawn.height - 900) < 120


def test_numbers_have_declared_decimals_or_few_digits(folder):
    people = pl.DataFrame({"price": RNG.random(900).round(2), "weight": RNG.normal(70, 9, 900)})
    people.write_parquet(folder / "prices.parquet")
    price = {"type": "float", "bounds": [0, 1], "decimals": 2}
    privem.Schema({"price": price, "weight": (30.0, 150.0)}).write(folder / "prices.toml")
    words = ["synth", "prices.parquet", "--schema", "prices.toml", "-o", "out.csv", "-q"]
    run(folder, *words)
    _, *lines = (folder / "out.csv").read_text().splitlines()
    prices, weights = zip(*(line.split(",") for line in lines), strict=True)
    assert max(map(len, prices)) <= len("0.12")
    assert max(map(len, weights)) <= len("123.45678")  # finest next to the lower bound


def test_as_json_with_a_model(folder):
    said = json.loads(
        run(
            folder, "synth", "people.parquet", "--schema", "schema.toml", "-o", "out.csv",
            "-n", "50", "--epsilon", "2", "--model-file", "model.json", "--json",
        ).stdout
    )  # fmt: skip
    assert said["privacy"]["epsilon"] == 2.0
    assert said["rows"] == 50 == pl.read_csv(folder / "out.csv").height
    assert set(said["quality"]["columns"]) == {"age", "city", "retired"}
    assert said["quality"]["pairs"]["tables"] == 3
    run(folder, "audit", "model.json")
    run(folder, "sample", "model.json", "-n", "5", "-o", "more.csv")
    assert "mean log-density" in run(folder, "score", "model.json", "people.parquet").stdout
    private = run(folder, "score", "model.json", "people.parquet", "--epsilon", "1").stdout
    assert "differentially private" in private


def test_an_exact_table_says_so(folder):
    said = run(
        folder, "synth", "people.parquet", "--schema", "schema.toml", "-o", "out.csv", "--exact"
    ).stdout
    assert "nothing here is private" in said


def test_constraints_of_a_file_are_kept(folder):
    text = (folder / "schema.toml").read_text()
    (folder / "held.toml").write_text(f'constraints = ["age -> retired"]\n{text}')
    said = run(folder, "synth", "people.parquet", "--schema", "held.toml", "-o", "out.csv").stdout
    assert "1, kept by every row" in said
    drawn = pl.read_csv(folder / "out.csv")
    assert drawn.select("age", "retired").n_unique() == drawn["age"].n_unique()


def test_a_forecast_reads_and_spends_nothing(folder):
    words = ["synth", "nobody.csv", "--schema", "schema.toml", "--forecast", "900"]
    assert "nothing was spent" in run(folder, *words).stdout.replace("\n", " ")
    found = json.loads(run(folder, *words, "--json", "--target", "city").stdout)["forecasts"]
    assert [each["epsilon"] for each in found] == [0.25, 1.0, 4.0]
    assert found[0]["seen"] > found[1]["seen"] > found[2]["seen"]
    assert found[0]["tables"] == 1
    assert not (folder / "out.csv").exists()


def test_a_forecast_is_the_noise_that_comes(folder):
    """The deviation of noise on cells and tables, but for the noise on the number of records.

    Two fifths of the records, 360, are more than seven deviations of the noise on their number, and
    move the noise on cells by a fifth.
    """
    found = json.loads(
        run(
            folder, "synth", "x.csv", "--schema", "schema.toml", "--forecast", "900", "--json"
        ).stdout
    )["forecasts"][1]
    model = privem.TableMixture(schema=folder / "schema.toml", n_components=2, random_state=0)
    watched = Transcript()
    model._watch = watched
    model.fit(folder / "people.parquet")
    spread = {stage.name: release.spread for stage, release in watched.entries}
    assert found["table_noise"] == pytest.approx(spread["tables"], rel=0.2)
    assert found["cell_noise"] == pytest.approx(spread["cells"], rel=0.2)


def test_nothing_is_spent_where_something_is_wrong(folder, monkeypatch):
    monkeypatch.setattr(privem.TableMixture, "fit", lambda *args, **more: pytest.fail("spent"))
    pl.DataFrame({"age": [3], "city": ["Bonn"]}).write_csv(folder / "test.csv")
    begin = ["synth", "people.parquet", "--schema", "schema.toml", "-o"]
    for words, code in (
        (["out.csv", "--evaluate", "test.csv"], 3),
        (["out.csv", "--evaluate", "none.csv"], 3),
        (["out.csv", "--model-file", "out.csv"], 2),
        (["out.csv", "--target", "town"], 2),
        (["out.csv", "--picture", "out.jpg"], 2),
        (["none/out.csv"], 5),
        (["out.csv", "--model-file", "none/m.json"], 5),
    ):
        run(folder, *begin, *words, code=code)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["synth", "people.csv", "-o", "out.csv"], "--schema says what"),
        (["synth", "people.csv", "--schema", "schema.toml", "-o", "out.npy"], ".csv or .parquet"),
        (["synth", "people.csv", "--schema", "schema.toml"], "--output says where"),
        (["synth", "people.csv", "--schema", "schema.toml", "--forecast", "9", "--exact"], "noise"),
        (["synth", "people.csv", "--schema", "none.toml", "-o", "out.csv"], "none.toml"),
        (["synth", "people.csv", "--schema", "schema.toml", "-o", "people.csv"], "overwrite"),
        (["fit", "people.csv", "-m", "table", "-o", "m.json"], "needs --schema"),
        (["fit", "people.csv", "-m", "table", "--schema", "schema.toml", "--columns", "age", "-o",
          "m.json"], "a schema says"),
    ],
)  # fmt: skip
def test_bad_usage_is_refused(folder, words, why):
    assert why in run(folder, *words, code=2).output


def test_noise_from_peoples_own_devices(folder):
    said = json.loads(
        run(
            folder, "fit", "people.csv", "-m", "table", "--header", "--schema", "schema.toml",
            "--trust", "local", "--target", "retired", "-o", "model.json", "--json",
        ).stdout
    )  # fmt: skip
    assert said["privacy"]["trust"] == "local"


def test_bounds_and_categories_that_a_schema_leaves_open(folder):
    n = 6000
    age = RNG.integers(18, 90, n)
    people = pl.DataFrame({"age": age, "city": RNG.choice(["Bonn", "Cork"], n)})
    people.write_parquet(folder / "more.parquet")
    draft = run(folder, "schema", "more.parquet").stdout
    assert "a private fit finds them, out of its budget" in draft
    open_ = draft.replace(', bounds = "?"', "").replace('categories = "?"', 'type = "str"')
    (folder / "open.toml").write_text(open_.replace('missing = "?"', "missing = false"))
    said = json.loads(
        run(
            folder, "synth", "more.parquet", "--schema", "open.toml", "-o", "out.csv", "--json",
            "--epsilon", "4", "--model-file", "model.json",
        ).stdout
    )  # fmt: skip
    assert said["quality"]["pairs"]["tables"] == 1
    assert "estimated from noisy histograms" in said["statement"]
    assert set(pl.read_csv(folder / "out.csv")["city"]) <= {"Bonn", "Cork", "other"}
    run(folder, "audit", "model.json")
    people.head(50).write_parquet(folder / "few.parquet")
    few = run(folder, "synth", "few.parquet", "--schema", "open.toml", "-o", "out.csv", code=3)
    assert "too few to find bounds of column age" in few.stderr
    assert "give bounds in the schema" in few.stderr


def test_a_forecast_for_few_rows(folder):
    said = run(folder, "synth", "people.csv", "--header", "--schema", "schema.toml", "--forecast",
               "20").stdout  # fmt: skip
    assert "columns will be independent of each other" in " ".join(said.split())


def test_rows_of_the_fit_are_no_test_rows(folder):
    words = ["synth", "people.csv", "--header", "--schema", "schema.toml", "-o", "out.csv"]
    assert "give public rows" in run(folder, *words, "--evaluate", "people.csv", code=2).output
