"""privem schema: drafts for a person to complete."""

import polars as pl
import pytest
from click.testing import CliRunner

from privem import Schema
from privem.cli import app

FRAME = pl.DataFrame({"age": [31, 47], "sex": ["f", "secret"]})


def run(*words):
    return CliRunner().invoke(app, ["schema", *map(str, words)])


@pytest.fixture
def table(tmp_path):
    FRAME.write_parquet(tmp_path / "t.parquet")
    FRAME.write_csv(tmp_path / "t.csv")
    return tmp_path


def test_a_draft_to_standard_output(table):
    done = run(table / "t.parquet")
    assert done.exit_code == 0
    assert done.output == Schema.draft(FRAME)
    assert "secret" not in done.output


def test_a_draft_that_is_completed(table):
    path = table / "schema.toml"
    done = run(table / "t.parquet", "-o", path)
    assert (done.exit_code, path.read_text()) == (0, Schema.draft(FRAME))
    assert "complete every" in done.output
    text = path.read_text().replace('bounds = "?"', "bounds = [0, 90]")
    text = text.replace('categories = "?"', 'categories = ["f", "m"]')
    path.write_text(text.replace('missing = "?"', "missing = false"))
    assert Schema.read(path) == Schema({"age": (int, 0, 90), "sex": ["f", "m"]})
    # What a person has completed is not replaced.
    again = run(table / "t.parquet", "-o", path)
    assert again.exit_code == 2
    assert "exists" in again.output
    assert Schema.read(path)


def test_names_of_a_csv_file_are_shown_when_they_are_names(table):
    refused = run(table / "t.csv")
    assert refused.exit_code == 3
    assert "--header" in refused.output
    assert "age" not in refused.output
    assert 'age = {type = "?", missing = "?"}' in run(table / "t.csv", "--header").output
    assert "x1 = " in run(table / "t.csv", "--no-header").output


def test_what_cannot_be_done_is_said(table):
    assert run(table / "none.parquet").exit_code == 3
    assert run(table / "t.parquet", "-o", table / "schema.txt").exit_code == 2
    assert run(table / "t.parquet", "-o", table / "no" / "schema.toml").exit_code == 5
