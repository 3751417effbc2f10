"""Whole fits are audited where they are weak: few attacks that reach, not many that do not."""

import pytest

from privem.audit.battery import audit_model
from privem.audit.neighbours import weak_point
from privem.declaration import declarations

NAMES = [each.name for each in declarations()]
RELATIONS = ("add-remove", "replace-one")


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_fit_uses_most_of_its_claim(name, neighbours):
    found = audit_model(name, 8, neighbours)
    assert not found.violated
    assert 0.6 < found.share <= 1 + 1e-9
    assert f"sums moved {found.share:.1%}" in found.finding().detail


@pytest.mark.parametrize("name", NAMES)
def test_so_does_a_person_with_many_rows(name):
    found = audit_model(name, 8, rows=10)
    assert not found.violated
    assert 0.6 < found.share <= 1 + 1e-9


def test_neighbours_differ_in_one_record_or_person():
    for name in NAMES:
        for rows in (1, 10):
            pair = weak_point(name, "replace-one", rows)
            shared = len(pair.data.X) - rows
            assert len(pair.neighbour.X) == len(pair.data.X)
            assert (pair.data.X[shared:] != pair.neighbour.X[shared:]).any(axis=1).all()
            assert weak_point(name, "add-remove", rows).neighbour.X.shape[0] == shared
    with pytest.raises(ValueError, match="neighbours must be one of"):
        weak_point("KMeans", "bounded")
