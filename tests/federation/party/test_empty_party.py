"""A file that has a header and nothing else is a party without rows."""

import numpy as np
import pytest

from privem import CategoricalMixture, KMeans, RegressionMixture
from privem.federation import Federation, FederationError, Party


def write(path, names, rows):
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def parties(folder, names, parts, **more):
    return [
        Party(write(folder / f"{i}.csv", names, p), str(i), **more) for i, p in enumerate(parts)
    ]


@pytest.fixture
def parts(blobs):
    return [blobs[:40], blobs[40:70], blobs[:0]]


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_it_takes_part_in_exact_and_private_fits(blobs, parts, tmp_path, protection):
    members = parties(tmp_path, ["x", "y"], parts)
    federation = Federation(members, protection=protection, bounds=(-30, 30), rows=100)
    model = KMeans(2, epsilon=None).fit(federation)
    central = KMeans(2, epsilon=None).fit(blobs[:70])
    np.testing.assert_allclose(model.cluster_centers_, central.cluster_centers_, atol=1e-6)
    private = KMeans(2, bounds=(-30, 30), n_iter=1).fit(federation)
    assert private.privacy_.spent <= 1.0


def test_with_persons_targets_and_categories(tmp_path):
    rows = [(i % 5, i, 2 * i) for i in range(20)]
    members = parties(tmp_path, ["who", "x", "y"], [rows, rows, []], groups="who", y="y")
    fit = RegressionMixture(1, epsilon=9.0, bounds=(0, 20), target_bounds=(0, 40), n_iter=1)
    assert fit.fit(Federation(members)).privacy_.unit == "person"
    words = [("yes", "no"), ("no", "no"), ("yes", "yes")]
    members = parties(tmp_path, ["a", "b"], [words, words, []], categories=["no", "yes"])
    CategoricalMixture(1, epsilon=None).fit(Federation(members, protection="plain"))


def test_its_columns_must_be_those_of_the_others(parts, tmp_path):
    members = parties(tmp_path, ["x", "y"], parts[:2])
    members.append(Party(write(tmp_path / "e.csv", ["y", "x"], []), "e"))
    with pytest.raises(FederationError, match="different column names"):
        KMeans(2, bounds=(-30, 30)).fit(Federation(members))


def test_alone_it_cannot_be_fitted_exactly(tmp_path):
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        KMeans(2, epsilon=None).fit(write(tmp_path / "e.csv", ["x", "y"], []))
