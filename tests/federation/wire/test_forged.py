"""Questions that break their own proof: every kind of query of the models with targets."""

import dataclasses
import math

import numpy as np
import pytest

from privem.blocks.bounded_sums import Cell
from privem.blocks.bounding import Clip, Robust
from privem.blocks.gradient import BoundedGradientQuery, Squares
from privem.blocks.histograms import NormQuery
from privem.blocks.log_density import ContestQuery
from privem.blocks.region import Region
from privem.blocks.robust_mean import RobustMeanQuery
from privem.blocks.sensitivity import MomentWeights
from privem.core import Block, Scratch
from privem.federation import Party
from privem.federation.wire.codec import BadMessage, decode
from privem.federation.wire.messages import Question
from privem.federation.wire.queries import check_query, vocabulary
from privem.linalg import ravel
from privem.models.categorical_mixture.model import Classes, ClassLogDensity, ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.missing_regression.model import MissingQuery
from privem.models.missing_regression.query import (
    MissingCovariateGradient,
    ObservedMomentsQuery,
    ScalesQuery,
)
from privem.models.regression_mixture.directions import ResidualDirections
from privem.models.regression_mixture.model import Bounded, RegressionQuery, Regressions
from privem.models.symmetric.model import Symmetric, SymmetricQuery
from privem.models.symmetric.query import (
    DirectionsQuery,
    SquaresQuery,
    SymmetricGradient,
    SymmetricRegressionGradient,
)
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact

from ..party.test_party import NOISE, Server, asked, refused

D = 3  # columns, of which the last is a target
X = Region.around_origin(5.0, D - 1)
Y = Region.around_origin(9.0, 1)
BETA = np.array([1.0, -0.5])
ALL = Region.box(np.full(D, -5.0), np.full(D, 5.0))
WHITE = np.array([[1.0, 0.0], [0.2, 0.8]])


def regressions(k=2):
    return Regressions(
        np.full(k, 1 / k),
        np.stack([np.array([0.1, 0.5, j - 0.5]) for j in range(k)]),
        np.full(k, 0.3),
        WHITE,
        np.zeros(D - 1),
    )


CLASSES = Classes(np.array([0.4, 0.6]), np.full((2, 7), 0.3))
SIZES = (2, 3, 2)
SOUND = {
    "norms": NormQuery((2, 1)),
    "squares": SquaresQuery(X, (5.0, 9.0), Y),
    "directions": DirectionsQuery(X, 1.0, WHITE, Y, 2.0),
    "directions of x": DirectionsQuery(X, 1.0),
    "scales": ScalesQuery(X, Y, (5.0, 9.0)),
    "observed moments": ObservedMomentsQuery(X, Y, (5.0, 9.0)),
    "symmetric": BoundedGradientQuery(
        SymmetricGradient(np.ones(D), 1.0), Clip(1.0), Region.around_origin(5.0, D)
    ),
    "regression": BoundedGradientQuery(
        SymmetricRegressionGradient(BETA, 1.0, WHITE), Clip(1.0), X, Y, Squares(0.3, 5.0)
    ),
    "robust": BoundedGradientQuery(SymmetricRegressionGradient(BETA, 1.0), Robust(2.0, 1.5), X, Y),
    "missing": BoundedGradientQuery(
        MissingCovariateGradient(BETA, 1.0), Clip(1.0), X, Y, Squares(0.3, 5.0)
    ),
    "mean": RobustMeanQuery(np.zeros(D), np.ones(D), Clip(2.0)),
    "robust mean": RobustMeanQuery(np.zeros(D), np.ones(D), Robust(2.0, 1.0)),
    "regressions": RegressionQuery(
        regressions(), Bounded(ALL, MomentWeights.balanced(D, 3.0), 1.0)
    ),
    "residuals": ResidualDirections(regressions(1), ALL),
    "classes": ClassQuery(CLASSES, SIZES, 1.0),
    "pairs": PairsQuery(SIZES, 1.0),
    "contest": ContestQuery(
        ClassLogDensity(CLASSES, SIZES),
        ClassLogDensity(Classes(np.ones(1), np.full((1, 7), 0.3)), SIZES),
        3.0,
    ),
}
CELLED = [name for name, query in SOUND.items() if hasattr(query, "cell")]


def rows(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, D - 1)), rng.normal(size=n)


@pytest.fixture
def server():
    features, y = rows()
    server = Server(features, y=y)
    assert server.begin()[0]
    return server


@pytest.mark.parametrize("query", SOUND.values(), ids=SOUND)
def test_sound_questions_are_answered(server, query):
    accepted, payload = server.ask(asked(query))
    assert accepted, payload
    assert Question.from_bytes(asked(query)).query.groups("add-remove") == query.groups(
        "add-remove"
    )


def but(name, **changes):
    return dataclasses.replace(SOUND[name], **changes)


def inner(name, part, **changes):
    return but(name, **{part: dataclasses.replace(getattr(SOUND[name], part), **changes)})


FORGED = {
    "norms of fewer columns": NormQuery((2,)),
    "norms of no column": NormQuery((0, 3)),
    "norms of many parts": NormQuery((1, 1, 1)),
    "norms of half a column": NormQuery((2.5, 0.5)),
    "squares without a radius": but("squares", radii=(5.0,)),
    "squares of radius zero": but("squares", radii=(0.0, 9.0)),
    "squares of a tiny radius": but("squares", radii=(1e-200, 9.0)),
    "squares, negative": but("squares", radii=(-5.0, 9.0)),
    "directions of radius zero": but("directions", radius=0.0),
    "directions, huge whitener": but("directions", whitener=WHITE * 1e200),
    "directions, other whitener": but("directions", whitener=np.eye(3)),
    "directions, nothing added": but("directions", square=0.0),
    "directions, negative": but("directions", square=-1.0),
    "directions, no cap": but("directions", cap_weight=0.0),
    "directions, a region of one column": DirectionsQuery(Region.around_origin(5.0, 1), 1.0),
    "scales without a target": but("scales", target=None),
    "scales, a target of two columns": but("scales", target=X),
    "moments of huge records": but(
        "observed moments", region=Region.around_origin(1e150, D - 1), radii=(1e-30, 1.0)
    ),
    "gradient of another length": inner("symmetric", "model", beta=np.ones(2)),
    "gradient, no variance": inner("symmetric", "model", variance=0.0),
    "gradient, tiny variance": inner("regression", "model", variance=1e-300),
    "gradient, huge slopes": inner("regression", "model", beta=BETA * 1e200),
    "gradient, slopes that overflow squared": dataclasses.replace(
        inner("missing", "model", beta=BETA * 2.0**98, variance=2.0**-99),
        region=Region.around_origin(2.0**99, D - 1),
    ),
    "gradient, huge whitener": inner("regression", "model", whitener=WHITE * 1e40),
    "gradient, clip zero": inner("regression", "bounding", radius=0.0),
    "gradient, clip that underflows": inner("regression", "bounding", radius=2.0**-664),
    "gradient, negative clip": inner("regression", "bounding", radius=-1.0),
    "gradient, not smoothed": inner("robust", "bounding", beta=0.0),
    "gradient, hardly smoothed": inner("robust", "bounding", beta=1e-30),
    "gradient, no scale": inner("robust", "bounding", scale=0.0),
    "gradient, huge region": but("regression", region=Region.around_origin(1e200, D - 1)),
    "gradient of a target that is not there": but("regression", target=None),
    "gradient, target where there is none": but("symmetric", target=Y, region=X),
    "squared residuals of no weight": inner("regression", "squares", weight=0.0),
    "squared residuals, no cap": inner("regression", "squares", cap=0.0),
    "squared residuals, negative": inner("regression", "squares", weight=-1.0),
    "gradient, no bounding": but("regression", bounding=None),
    "gradient, no model": but("regression", model=Symmetric(BETA, 1.0)),
    "mean in no unit": but("mean", unit=np.zeros(D)),
    "mean, negative unit": but("mean", unit=-np.ones(D)),
    "mean of fewer columns": but("mean", centre=np.zeros(2), unit=np.ones(2)),
    "regressions of other columns": inner("regressions", "state", centre=np.zeros(D)),
    "regressions without variance": inner("regressions", "state", variances=np.zeros(2)),
    "regressions, tiny variance": inner("regressions", "state", variances=np.full(2, 1e-200)),
    "regressions, huge whitener": inner("regressions", "state", whitener=WHITE * 1e150),
    "regressions without weight": inner("regressions", "state", weights=np.zeros(2)),
    "regressions, unbounded": but("regressions", bounded=None),
    "regressions, no radius": inner(
        "regressions", "bounded", weights=MomentWeights(1.0, 1.0, 1.0, 0.0)
    ),
    "regressions, no weight of moments": inner(
        "regressions", "bounded", weights=MomentWeights(0.0, 1e-200, 0.0, 3.0)
    ),
    "regressions, no cap": inner("regressions", "bounded", cap_weight=0.0),
    "residuals, unbounded": but("residuals", region=None),
    "residuals of two": but("residuals", one=regressions(2)),
    "classes, weights without a cap": but("classes", cap_weight=None),
    "classes of no categories": but("classes", sizes=(0, 5, 2)),
    "classes of fewer columns": but("classes", sizes=(4, 3)),
    "classes of other tables": but("classes", sizes=(3, 3, 3)),
    "classes, impossible": inner("classes", "state", profiles=np.zeros((2, 7))),
    "classes, weightless": inner("classes", "state", weights=np.array([1.0, 0.0])),
    "pairs, weights without a cap": but("pairs", cap_weight=None),
    "pairs of too many": PairsQuery((2**20, 2, 2), 1.0),
    "contest, without a cap": but("contest", cap_weight=0.0),
    "contest, not clipped": but("contest", limit=0.0),
    "contest of other tables": inner("contest", "first", sizes=(3, 3, 3)),
    "contest, impossible": inner("contest", "second", state=Classes(np.ones(1), np.zeros((1, 7)))),
    **{f"{n}, cell beyond the last": but(n, cell=Cell(3, 3)) for n in CELLED},
    **{f"{n}, cell below the first": but(n, cell=Cell(-1, 3)) for n in CELLED},
    "a cell that is none": but("mean", cell=Cell(0.5, 3)),
    "exact statistics of a symmetric model": SymmetricQuery(Symmetric(BETA, 1.0), True),
    "exact statistics of missing covariates": MissingQuery(Symmetric(BETA, 1.0)),
}


@pytest.mark.parametrize("query", FORGED.values(), ids=FORGED)
def test_a_question_that_breaks_its_own_proof_is_refused(server, query):
    question = asked(query, NOISE, NOISE.price(SOUND["squares"]))
    refused(server.ask(question), "own proof")
    assert server.party.spent == 0.0


OTHERS = [None, True, 3, 1.5, "x", (), (1.0, "x"), np.zeros(3, int), np.array(1.0), X, CLASSES]


def _with_others(value):
    """Every value with one of its fields, at any depth, put in place of another type's."""
    for name in vocabulary()[type(value).__name__][1]:
        part = getattr(value, name)
        inside = _with_others(part) if type(part).__name__ in vocabulary() else ()
        for other in (*(o for o in OTHERS if type(o) is not type(part)), *inside):
            yield dataclasses.replace(value, **{name: other})


@pytest.mark.parametrize("query", SOUND.values(), ids=SOUND)
def test_a_field_of_another_type_is_refused_and_breaks_nothing(query):
    forged, refused = [*_with_others(query)], []
    for other in forged:
        try:
            check_query(other, D, True)
        except BadMessage as problem:
            refused.append(str(problem))
    assert all("own proof" in reason for reason in refused)
    # Whole numbers serve as doubles, and some fields may be absent.
    assert len(refused) > 0.7 * len(forged) > 5


def test_only_queries_are_answered_and_all_of_them_are_named(server):
    for value in (X, CLASSES, Clip(1.0), SymmetricGradient(BETA, 1.0)):
        answered, words = server.ask(asked(value, Exact()))
        assert not answered
        assert "unknown query type; this party answers: AssignedQuery, " in words
        assert "PairsQuery" in words


@pytest.mark.parametrize(
    "query",
    [
        RegressionQuery(regressions()),
        ResidualDirections(regressions(1)),
        ClassQuery(CLASSES, SIZES),
        PairsQuery(SIZES),
        SymmetricQuery(Symmetric(BETA, 1.0), True),
        MissingQuery(Symmetric(BETA, 1.0)),
    ],
    ids=lambda query: type(query).__name__,
)
def test_exact_questions_are_for_exact_fits(server, query):
    assert server.ask(asked(query, Exact()))[0]
    prices = NOISE.price(SOUND["classes"])
    refused(server.ask(asked(query, NOISE, prices), round=2), "own proof")


@pytest.mark.parametrize("name", CELLED)
def test_exact_sums_of_a_cell_are_refused(server, name):
    refused(server.ask(asked(but(name, cell=Cell(0, 3)), Exact())), "own proof")


def test_a_run_has_one_partition(server):
    """Cells of two partitions overlap: their questions are about the same people."""
    query = SOUND["squares"]
    for index in range(3):
        question = asked(dataclasses.replace(query, cell=Cell(index, 3)))
        assert server.ask(question, round=index + 1)[0]
    one = server.party.spent
    refused(server.ask(asked(dataclasses.replace(query, cell=Cell(0, 4))), round=5), "partition")
    assert server.party.spent == one
    # Asked again, or of everyone, it costs more.
    assert server.ask(asked(dataclasses.replace(query, cell=Cell(1, 3))), round=6)[0]
    assert server.party.spent > one
    again = server.party.spent
    assert server.ask(asked(query), round=7)[0]
    assert server.party.spent > again
    # Another run draws its own, however many.
    server.run = "run 2"
    assert server.begin()[0]
    assert server.ask(asked(dataclasses.replace(query, cell=Cell(0, 4))))[0]


def test_cells_of_a_run_are_a_partition_of_the_records(monkeypatch):
    """Every record is in one cell, the same after a restart, and another in another run."""
    monkeypatch.setattr(
        "privem.noise.discrete.draw", lambda spent, size, *rest: np.zeros(size, np.int64)
    )
    features, y = rows(400)
    server = Server(features, y=y)
    sums = []
    for run in ("run 1", "run 2"):
        server.run = run
        assert server.begin()[0]
        cells = [dataclasses.replace(SOUND["squares"], cell=Cell(i, 4)) for i in range(4)]
        found = []
        for number, query in enumerate([SOUND["squares"], *cells, cells[0]], start=1):
            if number == 3:  # a process started anew
                party = Party(features, "party 0", y).restore(server.party.state())
                server.party = party
            accepted, payload = server.ask(asked(query), round=number)
            assert accepted
            (spent,) = NOISE.price(query)
            found.append(decode(payload)[1]["numbers"].view(np.int64) * spent.grid)
        whole, *parts, again = found
        assert np.allclose(sum(parts), whole)
        assert all(part.min() > 0 for part in parts)
        assert np.array_equal(again, parts[0])
        sums.append(np.concatenate(parts))
    assert not np.allclose(*sums)


def test_weights_are_capped_whatever_is_asked():
    """A record's weight moves a sum by no more than was charged for."""
    features, y = rows()
    from privem.data import ArrayRows

    heavy = np.ones(40)
    heavy[0] = 1e12
    server = Server(features, y=y)
    weighted = Party(ArrayRows(features, heavy), "party 0", y)
    stage = Question.from_bytes(asked(SOUND["pairs"]))
    codes = Block(np.zeros((1, D)), np.array([1e12]))
    moved = ravel(stage.query(codes, Scratch()))
    assert np.linalg.norm(moved) <= stage.query.groups("add-remove")[0].sensitivity
    with pytest.raises(ValueError, match="weights"):
        weighted.join(server.agreement)


# Values that a forger would try; most are refused, the others must be harmless.
ODD = [
    0.0,
    -1.0,
    1e-320,
    2.0**-664,
    1e-200,
    1e-76,
    2.0**-99,
    1e-9,
    1e9,
    2.0**99,
    1e76,
    1e160,
    1e300,
]
RECORDS = np.array(
    [
        [0.0, 0.0, 0.0],
        [1.0, -1.0, 1.0],
        [1e308, -1e308, 1e308],
        [np.inf, 1.0, -np.inf],
        [np.nan, 1.0, np.nan],
        [1e-308, 1e-200, 1e-100],
        [5.0, 1.0, 2.0],
    ]
)


def mutated(value, rng):
    """A value with one number in it changed."""
    if isinstance(value, float):
        return (
            value * 10.0 ** rng.uniform(-40, 40) if rng.random() < 0.3 else rng.choice(ODD).item()
        )
    if isinstance(value, np.ndarray):
        changed = value.copy()
        if rng.random() < 0.5:
            with np.errstate(over="ignore"):
                return np.clip(changed * float(rng.choice(ODD)), -1e300, 1e300)
        changed.flat[rng.integers(changed.size)] = rng.choice(ODD)
        return changed
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        at = rng.integers(len(value))
        return tuple(mutated(v, rng) if i == at else v for i, v in enumerate(value))
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if f.name not in ("view", "block_rows")]
        name = names[rng.integers(len(names))]
        return dataclasses.replace(value, **{name: mutated(getattr(value, name), rng)})
    return value


@pytest.mark.parametrize("name", SOUND)
def test_whatever_passes_keeps_its_bound(name):
    """1000 forgeries of each kind: those that are not refused move no sum beyond their price."""
    rng = np.random.default_rng(len(name))
    passed = 0
    for _ in range(1000):
        query = SOUND[name]
        for _ in range(rng.integers(1, 4)):
            query = mutated(query, rng)
        noise = Discrete(10.0, "add-remove", 2.0**20)
        try:
            with np.errstate(all="ignore"):
                check_query(query, D, private=True)
                (spent,) = noise.price(query)
        except (BadMessage, ValueError, OverflowError, ZeroDivisionError):
            continue
        passed += 1
        assert 0 < spent.sensitivity < math.inf
        for record in RECORDS:
            with np.errstate(all="ignore"):
                moved = ravel(query(Block(record[None]), Scratch()))
            assert np.isfinite(moved).all()
            assert np.linalg.norm(moved) <= spent.sensitivity + spent.slack
    assert passed > 20
