"""The contract of a model, for every one there is: a new folder of models/ is tested at once.

What the model declares (its example, its audit case, its queries) is all that these tests know
about it.
"""

import json
import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import privem
from privem.audit import attacks, structure_checks
from privem.audit.battery import tiny
from privem.blocks.histograms import CountQuery
from privem.cli import app
from privem.core import Block, Scratch
from privem.data import LocalSource
from privem.data.sums import finite_sums
from privem.data.values import quietly
from privem.declaration import declarations
from privem.federation.wire.queries import check_query
from privem.linalg import add, leaves, map_leaves, ravel, unravel
from privem.schema import Schema

from ..examples import (
    every_model,
    exact,
    federate,
    fit,
    fitted,
    learned,
    private,
    questions,
    records,
)

odd_records = st.one_of(st.floats(), st.floats(-10, 10), st.integers(-2, 3).map(float))


def test_models_are_told_apart():
    for what in ("name", "command"):
        assert len({getattr(each, what) for each in declarations()}) == len(declarations())


@every_model
def test_it_is_public_and_what_it_declares_is_true(declared):
    assert getattr(privem, declared.name) is declared.estimator
    assert declared.name in privem.__all__
    parameters = declared.estimator().get_params()
    assert declared.count is None or declared.count in parameters
    assert declared.categories == ("categories" in parameters)
    assert declared.schema == ("schema" in parameters)
    assert len(declared.example().data) == 1 + declared.target


# Queries.


def assert_same_sums(first, second, size):
    """Equal to the rounding of sums of ``size`` records."""
    for (name, a), b in zip(leaves(first).items(), leaves(second).values(), strict=True):
        atol = 1e-13 * size * max(1.0, float(np.max(np.abs(a), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=atol, err_msg=name)


def rows_of(declared, query):
    """Rows as this query sees them."""
    rows = records(declared)
    # Some queries leave a target aside.
    return rows[:, : query.region.d] if _aside(declared, query) else rows


def _aside(declared, query):
    about = getattr(query, "region", None)
    return declared.target and about is not None and getattr(query, "target", 0) is None


@every_model
@pytest.mark.parametrize("is_private", [False, True], ids=["exact", "private"])
def test_sums_add_up_over_any_split_and_leave_no_trace(declared, is_private):
    rng = np.random.default_rng(5)
    for query in questions(declared, is_private):
        rows, scratch = rows_of(declared, query), Scratch()
        whole = map_leaves(np.copy, query(Block(rows), scratch))
        order = rng.permutation(len(rows))
        cuts = np.sort(rng.integers(0, len(rows) + 1, size=5))
        parts = [map_leaves(np.copy, query(Block(rows[i]), scratch)) for i in np.split(order, cuts)]
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        assert_same_sums(whole, total, len(rows))
        again = query(Block(rows), scratch)
        np.testing.assert_array_equal(ravel(again), ravel(query(Block(rows), Scratch())))


@every_model
def test_a_weight_is_a_number_of_copies(declared):
    rng = np.random.default_rng(6)
    for query in questions(declared, False):
        rows, scratch = rows_of(declared, query), Scratch()
        if "rows" in leaves(query(Block(rows[:1]), scratch)):
            continue  # the first look counts rows and their weight
        copies = rng.integers(0, 4, len(rows))
        weighted = map_leaves(np.copy, query(Block(rows, copies.astype(float)), scratch))
        assert_same_sums(weighted, query(Block(np.repeat(rows, copies, axis=0)), scratch), 1800)


@every_model
@pytest.mark.parametrize("is_private", [False, True], ids=["exact", "private"])
def test_a_party_finds_its_questions_sound(declared, is_private):
    d = records(declared).shape[1]
    for query in questions(declared, is_private):
        check_query(query, d, is_private)


@every_model
def test_no_record_adds_more_to_an_exact_sum_than_the_largest(declared):
    rows = records(declared)
    low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    corners = np.where(np.random.default_rng(0).random((50, len(low))) < 0.5, low, high)
    for query in questions(declared, False):
        most = query.largest(low, high) * (1 + 1e-9)
        for row in np.concatenate([rows[:50], corners]):
            assert (np.abs(ravel(query(Block(row[None]), Scratch()))) <= most).all(), query


@every_model
@settings(max_examples=40)
@given(data=st.data())
def test_no_record_moves_a_private_sum_beyond_its_bound(declared, data):
    """Whatever it holds: added, or put in the place of another."""
    for query in questions(declared, True):
        d = rows_of(declared, query).shape[1]
        both = [data.draw(arrays(float, (1, d), elements=odd_records)) for _ in range(2)]
        with quietly():
            one, two = (ravel(finite_sums(query)(Block(row), Scratch())) for row in both)
            none = ravel(query(Block(both[0][:0]), Scratch()))
        for moved, neighbours in ((one - none, "add-remove"), (one - two, "replace-one")):
            for group in query.groups(neighbours):
                part = moved[group.where]
                size = np.abs(part).sum() if group.kind == "laplace" else math.hypot(*part)
                off = 2 * query.rounding(1.0) * math.sqrt(group.dimension)
                assert size <= group.sensitivity + off, (type(query), neighbours)


# M-steps, by way of whole fits.


@contextmanager
def other_numbers(numbers):
    """While entered, releases hold ``numbers(stage, release)`` in place of what they are."""
    original = LocalSource.release

    def release(self, stage):
        found = original(self, stage)
        return replace(found, statistics=numbers(stage, found))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalSource, "release", release)
        yield


ODD = np.array([0.0, -0.0, 5e-324, -5e-324, 1e-300, 1.0, -3.0, 7.5, 1e300, -1e300, 1.7e308])


@every_model
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_release_gives_valid_parameters(declared, seed):
    """Private fits may not fail, whatever the noise was: that would tell something about data.

    Numbers are at most those of 10,000 records as far out as can be, and noise beside them.
    """
    rng = np.random.default_rng(seed)

    def numbers(stage, release):
        if isinstance(stage.query, CountQuery):
            return release.statistics
        most = min(1e4 * spent.sensitivity + 60 * spent.scale for spent in release.spent)
        size = ravel(release.statistics).size
        drawn = rng.choice([rng.choice(ODD, size), most * rng.uniform(-1, 1, size)])
        return unravel(release.statistics, np.clip(drawn, -most, most))

    model = private(declared)
    with other_numbers(numbers):
        fit(model, *declared.example().data)
    for name, value in learned(model).items():
        assert np.isfinite(value).all(), name


@every_model
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_exact_steps_survive_noise_on_their_sums(declared, seed):
    """The last kind of question a fit asks is its E-step: true sums, and noise of any size.

    But for the first: a plan may look at the data with it, and refuse them.
    """
    rng, asked = np.random.default_rng(seed), 0
    step = type(fitted(declared, False)[1].entries[-1][0].query)

    def numbers(stage, release):
        nonlocal asked
        asked += type(stage.query) is step
        size = 10.0 ** rng.uniform(-2, 6) if asked > 1 else 0.0
        return map_leaves(
            lambda leaf: leaf + size * rng.normal(size=leaf.shape), release.statistics
        )

    model = exact(declared, max_iter=5)
    with other_numbers(numbers):
        fit(model, *declared.example().data)
    for name, value in learned(model).items():
        assert np.isfinite(value).all(), name


@every_model
def test_exact_em_never_lowers_its_objective(declared):
    data = declared.example().data
    scores = [
        fit(exact(declared, max_iter=n, tol=0.0), *data).score(*data) for n in (1, 2, 3, 5, 8, 13)
    ]
    assert np.diff(scores).min() >= -1e-6 * max(1.0, abs(scores[0])), scores


# What is kept and sent.


@every_model
@pytest.mark.parametrize("is_private", [False, True], ids=["exact", "private"])
def test_a_saved_model_is_the_same_model(declared, is_private, tmp_path):
    model, _ = fitted(declared, is_private)
    model.save(tmp_path / "model.json")
    again = privem.load(tmp_path / "model.json")
    assert type(again) is declared.estimator
    before, after = learned(model), learned(again)
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    assert model.score(*declared.example().data) == again.score(*declared.example().data)
    assert getattr(again, "privacy_", None) == getattr(model, "privacy_", None)


@every_model
@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_a_federation_fits_exactly_what_one_table_does(declared, protection):
    terms = {}
    if protection == "masked":
        terms["rows"] = 1000
        if not (declared.categories or declared.schema):
            terms["bounds"] = (-15.0, 15.0)
    model = fit(exact(declared), federate(declared, protection=protection, **terms))
    central = learned(fitted(declared, False)[0])
    for name, value in learned(model).items():
        size = max(1.0, float(np.abs(value).max(initial=0.0)))
        np.testing.assert_allclose(value, central[name], rtol=0, atol=1e-7 * size, err_msg=name)


@every_model
@pytest.mark.parametrize("is_private", [False, True], ids=["exact", "private"])
def test_the_command_line_fits_it(declared, is_private, tmp_path):
    X, *target = declared.example().data
    table = pl.DataFrame(X, schema=list("abc")).with_columns(y=pl.lit(0.0))
    options = ["-m", declared.command] + ([] if is_private else ["--exact"])
    if declared.count is not None:
        options += ["-k", "2"]
    if declared.categories:
        words = ",".join(declared.example().arguments["categories"])
        options += [word for name in "abc" for word in ("--category", f"{name}={words}")]
    if declared.schema:
        Schema(dict.fromkeys("abc", declared.example().arguments["schema"])).write(
            tmp_path / "schema.toml"
        )
        options += ["--schema", str(tmp_path / "schema.toml")]
    table = table.with_columns(y=target[0]) if target else table.drop("y")
    options += ["--target", "y"] if target else []
    if is_private and not (declared.categories or declared.schema):
        options += [word for name in "abc" for word in ("--bound", f"{name}=-9:9")]
        options += ["--bound", "y=-9:9"] if target else []
    table.fill_nan(None).write_parquet(tmp_path / "x.parquet")
    files = [str(tmp_path / "x.parquet"), "-o", str(tmp_path / "model.json")]
    result = CliRunner().invoke(app, ["fit", *files, *options, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["model"] == declared.command
    assert set(said.get("uncertainty", ())) == (
        set(said["parameters"]) - {"categories"} if is_private else set()
    )
    model = privem.load(tmp_path / "model.json")
    assert type(model) is declared.estimator
    assert hasattr(model, "privacy_") == is_private


@every_model
def test_private_fits_of_a_federation_cost_what_they_say(declared):
    model = fit(private(declared), federate(declared))
    assert model.privacy_.recount() == model.privacy_.spent <= 4.0
    for name, value in learned(model).items():
        assert np.isfinite(value).all(), name
    errors = model.uncertainty()
    assert errors
    assert all(np.isfinite(error).all() for error in errors.values() if not isinstance(error, list))


@every_model
def test_it_passes_the_structural_audit(declared):
    """Replay from releases alone, every number on its grid, with its own noise, and charged."""
    pair = attacks("add-remove", 1 + declared.target, finite=True)[0]
    report = structure_checks(tiny(declared.name), pair.data, repeats=60)
    assert report.passed, report
