"""Rehearsals: the real private fit, on made-up records.

EM sees records through sums only. A source that multiplies every sum over m made-up records by n/m
answers as one with n records would, each of the m occurring n/m times. The plan of the estimator
itself runs on it, with noise as large as it will be: the choice of structure and iterations, the
start, the steps and all that comes after. What it comes to is a forecast that cannot differ from
what the fit does, for every model.

Nothing here is private, because nothing is secret: no record, no bound and no count of real data
enters. A rehearsal is no fit. It charges no ledger, is not counted, and says nothing.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..budget import Funded
from ..core import Release, Stage
from ..data.sums import LocalSource
from ..declaration import Declaration, MadeUp, Public
from ..estimator.uncertainty import Played, standard_errors
from ..estimator.warnings import at_end
from ..families import made_up
from ..fit import fund
from ..linalg import map_leaves
from ..local import OnDevices
from ..parameters import BoundsNotFound
from ..run import Tape, run

# Made-up records of each rehearsal, and so many more for each number of a mean: sampling must not
# hide what noise does. As many are held out.
USUAL_RECORDS, _EACH_NUMBER, MOST_RECORDS = 3000, 25, 20_000
# At least so many of each component, and in all.
_EACH, _FEWEST = 2, 10
# Components of made-up records, where the estimator does not say how many.
_USUAL = 3
# Draws of noise for its size on each parameter.
_DRAWS = 8


@dataclass(frozen=True)
class Repeated:
    """A source of made-up rows, each of which counts ``times``."""

    source: LocalSource
    times: float

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the query over the rows, as often as each occurs, apply the noise."""
        total = self.source.total(stage.query, private=True)
        total = map_leaves(lambda leaf: np.asarray(leaf) * self.times, total)
        return stage.noise.release(stage.query, total)


class _MadeUpNoise:
    """Random bytes that can be had again. Nobody's records are behind this noise."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def bits(self, n_bytes: int) -> bytes:
        return self._generator.bytes(n_bytes)


def rehearse(model: Any, data: tuple[Any, ...], rows: float, seed: int) -> None:
    """Fit an estimator to made-up data as if there were so many rows of it; sets its attributes.

    Noise on people's own devices (``trust="local"``) is what all of theirs add up to.
    """
    model._check_parameters()
    table, terms = model._open_table(*data), model._terms()
    people = replace(table.people, count=round(rows))
    plan = model._private_plan(replace(table, people=people), terms)
    funded, _ = fund(plan, terms, table.rows.n_features if model._local else None)
    central: Any = funded.plan if isinstance(funded, OnDevices) else funded
    allowance = replace(central.allowance, entropy=_MadeUpNoise(seed))
    central, tape = Funded(central.plan, allowance), Tape()
    repeated = Repeated(LocalSource(table.rows, 1), rows / len(data[0]))
    with np.errstate(all="ignore"), tape.recording(repeated) as source:
        result = run(central, source)
    model.structure_ = result.structure
    model._set_private(result)
    model._played = Played(central, tape)


class Outcome(NamedTuple):
    """What a rehearsal came to."""

    score: float
    """Of a held-out record; minus infinity where the fit stopped."""
    structure: str
    """``"stopped"``: bounds were not found."""
    iterations: int
    model: Any

    @property
    def stopped(self) -> bool:
        """Whether it had no result."""
        return self.structure == "stopped"


class _Play(NamedTuple):
    """Made-up records, and how well an exact fit describes such records."""

    made: MadeUp
    fitted: tuple[Any, ...]
    held_out: tuple[Any, ...]
    exact: float


class Rehearsals:
    """Rehearsals of one estimator, each with made-up records of its own.

    Parameters
    ----------
    declared : Declaration
    estimator : estimator
        Its arguments are taken; those about its own data (bounds, ...) are replaced by those of the
        made-up records.
    features : int
    separation : float
    categories : int
        As :class:`privem.declaration.Public` has them.
    seed : int
        The same rehearsals for the same number.
    watch : callable, optional
        Called after each rehearsal with how many there were.
    """

    def __init__(
        self,
        declared: Declaration,
        estimator: Any,
        features: int,
        separation: float,
        categories: int,
        seed: int,
        watch: Callable[[int], None] | None = None,
    ) -> None:
        self.declared, self.estimator, self.features = declared, estimator, features
        self.separation, self.categories, self.seed = separation, categories, seed
        self._watch, self._done = watch or (lambda times: None), 0
        self._plays: dict[tuple[int, int], _Play] = {}
        given = None if declared.count is None else getattr(estimator, declared.count)
        self.components = given if isinstance(given, int) else None
        wanted = USUAL_RECORDS + _EACH_NUMBER * features * (self.components or _USUAL)
        self.records = declared.rehearsed or min(wanted, MOST_RECORDS)

    def outcome(self, number: int, rows: float, epsilon: float, alone: bool = False) -> Outcome:
        """Of one rehearsal; ``alone``: with one component."""
        play = self._play(number, rows)
        changes = {str(self.declared.count): 1} if alone else {}
        self._done += 1
        self._watch(self._done)
        seed = self._seed(number)
        with _silence():
            model = self._model(play.made, epsilon=epsilon, random_state=seed, **changes)
            try:
                rehearse(model, play.fitted, rows, seed)
            except BoundsNotFound:
                return Outcome(-np.inf, "stopped", 0, None)
            score = self._score(model, play.held_out)
        return Outcome(score, model.structure_, int(getattr(model, "n_iter_", 0)), model)

    def losses(
        self, times: int, rows: float, epsilon: float, alone: bool = False
    ) -> list[tuple[Outcome, float]]:
        """Outcomes of so many rehearsals, and what each loses against an exact fit."""
        found = [self.outcome(number, rows, epsilon, alone) for number in range(times)]
        return [(each, self.loss(i, rows, each.score)) for i, each in enumerate(found)]

    def median_loss(self, times: int, rows: float, epsilon: float) -> float:
        """What is lost in the middle of so many rehearsals."""
        return statistics.median(loss for _, loss in self.losses(times, rows, epsilon))

    def loss(self, number: int, rows: float, score: float) -> float:
        """What a score loses against an exact fit: nats, or a part of the squared distances."""
        exact = self._play(number, rows).exact
        return exact - score if self.declared.density else score / exact - 1

    def bounds_alone(self, times: int, rows: float) -> float:
        """What is lost by whoever knows nothing but the bounds."""
        plays = [self._play(number, rows).made.alone for number in range(times)]
        return statistics.median(self.loss(i, rows, alone) for i, alone in enumerate(plays))

    def noise(self, number: int, rows: float, outcome: Outcome) -> dict[str, float]:
        """The standard error that noise causes in each attribute, over the size of its numbers."""
        made = self._play(number, rows).made
        with _silence():
            errors = standard_errors(outcome.model, outcome.model._played, _DRAWS)
        found = {}
        for name in self.declared.results or errors:
            error = errors[name]
            size = made.sizes.get(name) or _root_mean_square(getattr(outcome.model, name))
            found[name] = _root_mean_square(error) / max(size, 1e-300)
        return found

    def _play(self, number: int, rows: float) -> _Play:
        least = max(_FEWEST, _EACH * (self.components or _USUAL))
        m = max(min(round(rows), self.records), least)
        if (number, m) not in self._plays:
            self._plays[number, m] = self._made_up(number, m)
        return self._plays[number, m]

    def _made_up(self, number: int, m: int) -> _Play:
        arguments = self.estimator.get_params(deep=False)
        public = Public(
            m + self.records,
            self.features,
            self.components or _USUAL,
            self.separation,
            self.categories,
            arguments,
        )
        made = made_up(self.declared, public, np.random.default_rng((self.seed, number, m)))
        fitted = tuple(part[:m] for part in made.data)
        held_out = tuple(part[m:] for part in made.data)
        if made.exact is not None:
            return _Play(made, fitted, held_out, made.exact)
        with _silence():
            exact = self._model(made, epsilon=None, random_state=self._seed(number))
            if "trust" in arguments:
                exact.set_params(trust="central")
            exact.fit(*fitted)
            return _Play(made, fitted, held_out, self._score(exact, held_out))

    def _model(self, made: MadeUp, **changes: Any) -> Any:
        """An estimator of made-up records like the one that is planned."""
        given = self.estimator.get_params(deep=False)
        # Arrays are about the data that nobody has looked at.
        kept = {name: value for name, value in given.items() if _plain(value)}
        instead = {n: value for n, value in made.instead.items() if given.get(n) is not None}
        quiet: dict[str, Any] = {"ledger": None, "n_jobs": 1, "verbose": 0, "warm_start": False}
        changes |= {name: value for name, value in quiet.items() if name in given}
        return type(self.estimator)(**kept | dict(made.arguments) | instead | changes)

    def _score(self, model: Any, held_out: tuple[Any, ...]) -> float:
        """Of one record."""
        score = float(model.score(*held_out))
        return score if self.declared.density else score / len(held_out[0])

    def _seed(self, number: int) -> int:
        return int(np.random.default_rng((self.seed, number)).integers(2**31))


@contextmanager
def _silence() -> Iterator[None]:
    """No rehearsal warns."""
    with warnings.catch_warnings(), at_end():
        warnings.simplefilter("ignore")
        yield


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.number))


def _root_mean_square(value: Any) -> float:
    parts = value if isinstance(value, list) else [value]
    return float(np.sqrt(np.mean(np.square(np.concatenate([np.ravel(part) for part in parts])))))
