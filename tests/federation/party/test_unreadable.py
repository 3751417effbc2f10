"""Whether rows can be read is found out by their owner, never by a server."""

import numpy as np
import polars as pl
import pytest

from privem.federation import Party


def table(path, line, n=30_000):
    lines = ["x,y", *(f"{i % 7}.5,{i % 5}.25" for i in range(n))]
    lines[n - 100] = line
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("line", ["abc,1", "1,2,3", '"1,2', "2020-01-01,1", "é,1"])
def test_a_file_with_one_line_that_cannot_be_read_is_its_owners_error(tmp_path, line):
    """It made the party refuse in a private run: a fact about one record, and no epsilon for it."""
    with pytest.raises(ValueError, match="could not be read"):
        Party(table(tmp_path / "rows.csv", line), "north")
    with pytest.raises(ValueError, match="could not be read"):
        Party(pl.scan_csv(tmp_path / "rows.csv"), "north")


def test_what_can_be_read_is_held(tmp_path):
    for line in ("nan,inf", ",", "1"):
        assert Party(table(tmp_path / "rows.csv", line), "north").features == 2


@pytest.mark.parametrize("value", ["a", 10**400, 1j, [1]])
def test_an_array_with_one_cell_that_is_no_number_is_too(value):
    rows = np.ones((50, 2), dtype=object)
    rows[20, 0] = value
    with pytest.raises((ValueError, TypeError, OverflowError)):
        Party(rows, "north")
    rows[20, 0] = "2.5"
    assert Party(rows, "north").features == 2
