"""Fits recorded with earlier code replay to the same model.

Each case is fitted again by the public estimator, with every private release replaced by the
recorded one. Names, order, sizes and prices of the releases must be those recorded, and so must
everything that was fitted: to 1e-10, or bit for bit where ``PRIVEM_GOLDEN_EXACT=1`` says that this
is the machine that made the recordings. Exact fits run as they are.
"""

import json
import os
from typing import Any

import numpy as np
import pytest

from privem.core import Release, Stage
from privem.linalg import ravel

from .cases import CASES, Case
from .recording import FOLDER, answering, fitted, outcome, read

EXACT = os.environ.get("PRIVEM_GOLDEN_EXACT") == "1"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recorded_fit_replays_to_the_same_model(case: Case) -> None:
    about, stages, expected = read(case)
    assert about == json.loads(json.dumps(case.about())), "the case is not the one recorded"
    left = iter(stages)

    def replay(stage: Stage, release: Release[Any]) -> Release[Any]:
        recorded = next(left, None)
        assert recorded is not None, f"a new release after the last one recorded: {stage.name}"
        assert stage.name == recorded.name
        assert len(release.spent) == len(recorded.spent)
        for group, price in zip(release.spent, recorded.spent, strict=True):
            same_price(group, price)
        if recorded.spent:
            difference = np.abs(ravel(release.statistics) - recorded.statistics)
            assert (difference <= recorded.widest()).all(), f"{stage.name}: other sums"
        return recorded.put_into(release)

    with answering(replay):
        results = fitted(case)
    assert next(left, None) is None, "releases that were recorded were not asked for"
    found = outcome(case, results)
    for name, value in expected.items():
        assert name in found, f"{name} is gone"
        same(name, found[name], value)


def test_every_recording_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*")} == {case.name for case in CASES}


def same_price(group: Any, price: dict[str, Any]) -> None:
    for name in ("name", "kind", "dimension", "cell"):
        assert getattr(group, name) == price[name], name
    for name in ("sensitivity", "slack", "grid", "steps"):
        assert getattr(group, name) == pytest.approx(price[name], rel=0 if EXACT else 1e-12, abs=0)


def same(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape, name
    if expected.dtype.kind in "US" or EXACT:
        assert np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f"), name
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)
