"""What a plan holds on to when its noise is drawn anew, and what it does again."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privem.core import Release, Stage
from privem.noise.exact import Exact
from privem.run import NotAsRecorded, Tape, given, held, run, settled


@dataclass(frozen=True)
class Number:
    value: Any


class Counting:
    """A source that answers 1, 2, 3, ..."""

    def __init__(self) -> None:
        self.asked = 0

    def release(self, stage: Stage) -> Release[Number]:
        self.asked += 1
        return Release(stage.query, Number(np.asarray(float(self.asked))))


def ask(name: str) -> Generator[Stage, Release[Number], float]:
    release = yield Stage(None, Exact(), name)  # type: ignore[arg-type]
    return float(release.statistics.value)


class Plan:
    """Two stages, of which the first is given; and one that follows the number it is told."""

    def __init__(self) -> None:
        self.computed, self.more = 0, 0

    def _once(self, value: float) -> float:
        self.computed += 1
        return value

    def stages(self) -> Generator[Stage, Release[Any], dict[str, float]]:
        first = yield from given(self._twice())
        seen = yield from ask("seen")
        kept = held(lambda: self._once(seen))
        moved = settled(lambda: self._once(10 * seen), lambda before: before + seen)
        for _ in range(self.more):
            yield from ask("more")
        return {"first": first, "seen": seen, "kept": kept, "moved": moved}

    def _twice(self) -> Generator[Stage, Release[Any], float]:
        return held(lambda: 100.0) + (yield from ask("first")) + (yield from ask("second"))


def plus_a_half(release: Release[Number]) -> Release[Number]:
    return Release(release.query, Number(release.statistics.value + 0.5))


def recorded() -> tuple[Plan, Tape, dict[str, float]]:
    plan, tape, source = Plan(), Tape(), Counting()
    with tape.recording(source) as recording:
        found = run(plan, recording)
    assert source.asked == 3
    return plan, tape, found


def test_what_is_given_stays_and_the_rest_is_done_again():
    plan, tape, found = recorded()
    assert found == {"first": 103.0, "seen": 3.0, "kept": 3.0, "moved": 30.0}
    for _ in range(2):
        with tape.playing(plus_a_half) as source:
            again = run(plan, source)
        assert again == {"first": 103.0, "seen": 3.5, "kept": 3.0, "moved": 33.5}
    assert plan.computed == 2


def test_without_a_tape_nothing_is_held():
    plan = Plan()
    assert run(plan, Counting()) == recorded()[2]
    assert run(plan, Counting()) == recorded()[2]
    assert plan.computed == 4


def test_a_plan_that_does_something_else_is_found_out():
    plan, tape, _ = recorded()
    plan.more = 1
    with pytest.raises(NotAsRecorded, match="ended"), tape.playing(plus_a_half) as source:
        run(plan, source)
    with pytest.raises(NotAsRecorded, match="given"), tape.playing(plus_a_half) as source:
        source.release(Stage(None, Exact(), "too soon"))  # type: ignore[arg-type]
    with tape.playing(plus_a_half):
        held(lambda: 0)
        with pytest.raises(NotAsRecorded, match="a release"):
            held(lambda: 0)
    # And it can still be played.
    plan.more = 0
    with tape.playing(lambda release: release) as source:
        assert run(plan, source)["seen"] == 3.0
