"""The checks of experiments/mixtures/everywhere.py find what they are there to find."""

import importlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest


@pytest.fixture(scope="module")
def parts(root):
    """Its modules, which import each other as scripts do."""
    names = ("sets", "fits", "requirements", "everywhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "experiments" / "mixtures"))
        yield {name: importlib.import_module(name) for name in names}
        for name in names:
            del sys.modules[name]


@pytest.fixture
def check(parts):
    return parts["requirements"]


@pytest.fixture
def cell(parts):
    whole = parts["sets"].sizes("plane")[-1]
    return parts["fits"].Fit("plane", whole, 3, 1.0, "given", "default", -1)


def rows(score, uniform=-1.0, **more):
    """Twenty splits that differ, by little."""
    spread = np.random.default_rng(0).uniform(-0.01, 0.01, 20)
    return {s: {"score": score + e, "uniform": uniform, **more} for s, e in enumerate(spread)}


def excess(findings):
    return [finding.excess > 0 for finding in findings]


@pytest.mark.parametrize(
    ("score", "single", "low"), [(0, -9, False), (-1.4, -9, True), (0, 1, True)]
)
def test_the_floor_is_the_better_of_uniform_and_single(check, cell, score, single, low):
    cells = {cell: rows(score), replace(cell, k=1): rows(single)}
    assert excess(check.floor(cells, (3,))) == [low]


def test_fits_that_stopped_are_not_below_the_floor(check, cell):
    cells = {cell: {s: {"stopped": "no bounds"} for s in range(20)}}
    assert list(check.floor(cells, (3,))) == []
    enough = replace(cell, bounds="none", epsilon=4.0)
    assert excess(check.coverage({enough: cells[cell]})) == [True]


@pytest.mark.parametrize(("weight", "wrong"), [(0.0, True), (0.5, False)])
def test_more_budget_must_not_be_worse(check, cell, weight, wrong):
    cells = {replace(cell, epsilon=e): rows(s, weight=weight) for e, s in ((4.0, 0.0), (0.5, 0.15))}
    assert excess(check.monotone(cells)) == [wrong]


def test_the_worst_fit_counts_on_the_plane(check, cell):
    figures = rows(0.4)
    assert excess(check.optima({cell: figures})) == [False]
    figures[7]["score"] = 0.2
    assert excess(check.optima({cell: figures})) == [True]


def test_bounds_that_cut_are_found(check, cell):
    none = replace(cell, bounds="none", epsilon=4.0)
    for inside, wide, found in (([1, 1], [2, 2], [0, 0, 0]), ([1, 0.9], [2, 9], [0, 1, 1])):
        assert excess(check.coverage({none: rows(0, inside=inside, wide=wide)})) == found


def test_what_is_not_a_number_fails(check, cell):
    cells = {cell: rows(float("nan"))}
    assert excess(check.floor(cells, (3,))) == [True]


def test_wide_bounds_are_round(parts):
    X = np.array([[3.0, -0.2, 700.0], [-0.4, -0.1, 0.0]])
    assert parts["sets"].wide(X) == ([-1.0, -0.5, 0.0], [10.0, 0.0, 2000.0])


def test_lines_that_were_cut_off_are_not_read(parts, cell, tmp_path):
    path = tmp_path / "cache"
    line = json.dumps({"code": "now", **parts["fits"].asdict(cell)})
    path.write_text(line + "\n" + line[:-9] + "\n" + line.replace("now", "then") + "\n" + line[:9])
    assert len(parts["everywhere"].remembered(path, "now")) == 1
