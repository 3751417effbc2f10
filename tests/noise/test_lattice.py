"""One release: the lattice, the noise that was promised, and what the meter lets through."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from privem import GaussianMixture
from privem.blocks.histograms import Count, CountQuery
from privem.blocks.region import Region
from privem.budget import Allowance, Part
from privem.core import Block, Group, Scratch, Stage
from privem.data import LocalSource, read_rows
from privem.ground import Preamble
from privem.linalg import Array, ravel
from privem.meter import BudgetExceeded, Meter
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact
from privem.run import run


@dataclass(frozen=True)
class Sums:
    values: Array


@dataclass(frozen=True)
class Given:
    """A query with given groups and error."""

    cut: tuple[Group, ...]
    error: float = 0.0
    block_rows: int = 100

    def __call__(self, block: Block, scratch: Scratch) -> Sums:
        return Sums(np.zeros(self.cut[-1].where.stop))

    def groups(self, neighbours: str) -> list[Group]:
        return list(self.cut)

    def rounding(self, rows: float) -> float:
        return self.error


sizes = st.floats(1e-12, 1e12)


@given(
    multiplier=st.floats(1e-3, 1e5),
    sensitivity=sizes,
    error=st.floats(0, 1e-3),
    dimension=st.integers(1, 10**6),
    kind=st.sampled_from(["gaussian", "laplace"]),
)
def test_the_price_is_never_below_the_promise(
    multiplier: float, sensitivity: float, error: float, dimension: int, kind: str
) -> None:
    group = Group("g", slice(0, dimension), sensitivity, kind)
    unit = math.sqrt(dimension) if kind == "gaussian" else dimension
    noise = Discrete(multiplier, "add-remove", 10.0)
    if unit * multiplier >= 2.0**30:
        with pytest.raises(ValueError, match="finer lattice"):
            noise.price(Given((group,), error * sensitivity))
        return
    (spent,) = noise.price(Given((group,), error * sensitivity))
    assert spent.multiplier >= multiplier
    assert 2**24 <= spent.steps <= 2**39
    assert math.frexp(spent.grid)[0] == 0.5
    # Exactly, in rationals: what neighbours may differ by, in lattice steps, over the noise.
    stretch = 1.0 if kind == "gaussian" else math.sqrt(dimension)
    widened = (
        Fraction(sensitivity)
        + 2 * Fraction(error * sensitivity * stretch) * (1 - Fraction(1, 2**50))
        + Fraction(spent.grid) * Fraction(unit) * (1 - Fraction(1, 2**50))
    )
    assert Fraction(spent.steps) * Fraction(spent.grid) >= Fraction(multiplier) * widened
    # And it is not much above it either.
    slack = 1 + 2 * error * stretch
    assert spent.scale <= multiplier * sensitivity * slack * 1.005 + spent.grid


@given(seed=st.integers(0, 2**32), scale=st.floats(1e-6, 1e6))
def test_released_numbers_are_multiples_of_the_grid(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    cut = (
        Group("a", slice(0, 3), scale),
        Group("b", slice(3, 7), 2.0, "laplace"),
        Group("c", slice(7, 8), 1e-9),
    )
    query, noise = Given(cut), Discrete(1.7, "add-remove", 1e6)
    exact = rng.standard_normal(8) * np.repeat([scale, 1.0, 1e-9], [3, 4, 1]) * 1e5
    release = noise.release(query, Sums(exact))
    for group, spent in zip(cut, release.spent, strict=True):
        values = release.statistics.values[group.where]
        steps = [Fraction(v) / Fraction(spent.grid) for v in values.tolist()]
        assert all(s.denominator == 1 and abs(s) < 2**63 for s in steps)
        off = np.abs(values - exact[group.where])
        assert off.max() < 60 * spent.scale  # false alarm below 1e-25
    assert release.deviation is not None
    assert (release.deviation.values > 0).all()


def test_encoding_without_noise_is_the_nearest_multiple(monkeypatch: Any) -> None:
    none = lambda scale, size, entropy: np.zeros(size, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr("privem.noise.discrete.discrete_gaussian", none)
    query, noise = Given((Group("a", slice(0, 6), 1.0),)), Discrete(1.0, "add-remove", 1e6)
    g = noise.price(query)[0].grid
    exact = np.array([0.0, 0.4 * g, 0.6 * g, -123.456, 1e300, -np.inf])
    out = noise.release(query, Sums(exact)).statistics.values
    np.testing.assert_array_equal(out[:3], [0, 0, g])
    assert abs(out[3] - exact[3]) <= g / 2
    np.testing.assert_array_equal(out[4:], [2.0**62 * g, -(2.0**62) * g])
    # What is on the lattice comes back as it is.
    again = noise.release(query, Sums(out)).statistics.values
    np.testing.assert_array_equal(again, out)
    nan = noise.release(query, Sums(np.full(6, np.nan))).statistics.values
    np.testing.assert_array_equal(nan, 0.0)


def test_every_number_must_belong_to_a_group() -> None:
    for cut in (
        (Group("a", slice(1, 3), 1.0),),
        (Group("a", slice(0, 2), 1.0),),
        (Group("a", slice(0, 2), 1.0), Group("b", slice(1, 3), 1.0)),
    ):
        with pytest.raises(ValueError, match="groups of a query"):
            Discrete(1.0, "add-remove", 10.0).release(Given(cut), Sums(np.zeros(3)))


def test_what_cannot_be_priced_is_refused() -> None:
    group = (Group("a", slice(0, 2), 1.0),)
    with pytest.raises(ValueError, match="62 bits"):
        Discrete(1e-3, "add-remove", 1e18).price(Given(group))
    with pytest.raises(ValueError, match="finite rounding"):
        Discrete(1.0, "add-remove", 10.0).price(Given(group, math.inf))


class Explosive:
    """A source that must not be asked."""

    def release(self, stage: Stage) -> Any:
        raise AssertionError("the data were touched")


@dataclass(frozen=True)
class TwoStages:
    first: Any
    second: Any

    def stages(self) -> Any:
        yield Stage(CountQuery(), self.first)
        yield Stage(CountQuery(), self.second)


def test_the_meter_refuses_before_the_data_are_touched() -> None:
    meter = Meter(1.0, 1e-6, "auto")
    cheap, dear = (Discrete(m, "add-remove", 1e3) for m in (50.0, 1.0))
    for noise in (dear, Exact()):
        with pytest.raises(BudgetExceeded, match="above the budget"):
            run(TwoStages(noise, cheap), Explosive(), meter=meter)
    assert meter.releases == []
    asked: list[str] = []
    source = LocalSource(read_rows(np.zeros((5, 1))))
    with pytest.raises(BudgetExceeded):
        run(TwoStages(cheap, dear), source, lambda s, r: asked.append(s.name), meter)
    assert len(asked) == len(meter.releases) == 1
    assert 0 < meter.spent < 1.0


def test_the_meter_forgives_nothing() -> None:
    (spent,) = Discrete(5.0, "add-remove", 1e3).price(CountQuery())
    cost = Meter(10.0, 1e-6, "gdp")
    cost.charge(Stage(CountQuery(), Discrete(5.0, "add-remove", 1e3)))
    short = Meter(math.nextafter(cost.spent, 0), 1e-6, "gdp")
    with pytest.raises(BudgetExceeded):
        short.charge(Stage(CountQuery(), Discrete(5.0, "add-remove", 1e3)))
    assert spent.multiplier >= 5.0


def test_no_rows_are_nothing_special() -> None:
    source = LocalSource(read_rows(np.empty((0, 3))))
    release = source.release(Stage(CountQuery(), Discrete(1.0, "add-remove", 10.0)))
    assert abs(float(ravel(release.statistics)[0])) < 60


@pytest.mark.parametrize("cap", [1.0, 0.2, 5.0])
def test_the_bound_on_the_count_covers_both_neighbours(cap: float) -> None:
    parts = [Part("count", 0.5, [("gaussian", 1)]), Part("em", 0.5, [("gaussian", 9)])]
    allowance = Allowance.plan(parts, 1.0, 1e-6, "auto", "add-remove", failure=1e-9)
    stages = Preamble(2, None, Region.around_origin(1.0, 2), cap_weight=cap).stages(allowance)
    stage = next(stages)
    release = stage.noise.release(stage.query, Count(np.asarray(100.0 * cap)))
    with pytest.raises(StopIteration) as end:
        stages.send(release)
    ground, spent = end.value.value, release.spent[0]
    # Whatever the noise was: the bound is exceeded only if the noise falls below the quantile, even
    # for the larger neighbour, a cap away, and after all that rounding may take.
    margin = ground.rows - float(release.statistics.count) - spent.scale * -ndtri(1e-9)
    assert margin >= 3 * cap + 2 * spent.grid
    assert margin <= 5 * cap + 1e-3 * spent.scale


def test_only_additive_prices_may_be_shared_out_anew() -> None:
    """docs/proofs/release.md, section 9: with Laplace noise, zCDP alone."""
    adaptive = {
        (mechanism, accountant): GaussianMixture(mechanism=mechanism, accountant=accountant)
        ._terms()
        .adaptive
        for mechanism in ("auto", "joint", "ggg", "llg", "laplace")
        for accountant in ("auto", "gdp", "zcdp", "rdp", "pld", "moments", "linear", "advanced")
    }
    for (mechanism, accountant), allowed in adaptive.items():
        laplace = mechanism in ("llg", "laplace")
        never = accountant in ("linear", "advanced")
        assert allowed == (not never and (not laplace or accountant == "zcdp"))


def test_resharing_keeps_the_sum_and_the_budget() -> None:
    parts = [
        Part("count", 0.01, [("gaussian", 1)]),
        Part("scale", 0.04, [("gaussian", 80)]),
        Part("place", 0.06, [("gaussian", 4096)]),
        Part("em", 0.89, [("gaussian", 9)] * 10),
    ]
    before = Allowance.plan(parts, 1.0, 1e-6, "auto", "add-remove")
    new = [Part("scale", 0.1, parts[1].releases), Part("em", 0.83, parts[3].releases)]
    with pytest.raises(ValueError, match="only move among"):
        before.reshared(new[:1])
    after = before.reshared(new)
    for allowance, iterations in ((before, 10), (after, 10), (after, 3), (after, 20)):
        squares = [allowance.multiplier(name) ** -2 for name in ("count", "scale", "place")]
        squares += [allowance.multiplier("em", iterations) ** -2] * iterations
        assert sum(squares) == pytest.approx(before.base**-2, rel=1e-13)
    assert after.multiplier("count") == before.multiplier("count")  # already spent
