"""What a recording of a fit holds, and the one place where a recording enters a fit.

A recording is a file of plain arrays that knows nothing of how privem is built inside: what each
release said and cost, and what the fit came to. It holds no record and no sum before its noise.
"""

import importlib
import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privem.core import Release, Stage
from privem.linalg import ravel, unravel
from privem.meter import Statement
from privem.run import _in_use

from .cases import Case, data

FOLDER = Path(__file__).parent / "recordings"
LONG = 1000
# What a fitted estimator says of records, and of records with their targets.
OF_RECORDS = ("predict", "predict_proba", "transform", "score_samples", "predict_components")
OF_TARGETS = ("predict_sign", "component_proba", "log_likelihood")
STATEMENT = ("epsilon", "delta", "spent", "unit", "neighbours", "accountant", "failure", "trust")


@contextmanager
def answering(change: Callable[[Stage, Release[Any]], Release[Any]]) -> Iterator[None]:
    """Every release of every fit passes through ``change`` on its way to the plan.

    This is the seam. A fit gets its releases from :func:`privem.run.drive`, whoever answers: rows
    in this process, persons, devices or a federation. Releases are changed after the meter, the
    sums and the noise, which all run as ever. A fit that is played again, for standard errors, is
    left alone.
    """
    run = importlib.import_module("privem.run")
    drive = run.drive

    def changed(questions: Any, answer: Callable[[Any], Any]) -> Any:
        def answered(question: Any) -> Any:
            reply = answer(question)
            tape = _in_use.get()
            again = tape is not None and tape._playing is not None
            return change(question, reply) if isinstance(question, Stage) and not again else reply

        return drive(questions, answered)

    run.drive = changed
    try:
        yield
    finally:
        run.drive = drive


@dataclass(frozen=True)
class Recorded:
    """One private release, as plain numbers; of an exact one only the name."""

    name: str
    spent: list[dict[str, Any]]
    statistics: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, stage: Stage, release: Release[Any]) -> "Recorded":
        """What there is to keep of a release."""
        if not release.spent:
            return cls(stage.name, [], np.empty(0), np.empty(0))
        spent = [asdict(group) for group in release.spent]
        statistics, deviation = ravel(release.statistics), ravel(release.deviation)
        if statistics.size > LONG:
            # The last digits of a histogram of thousands of bins, all of them noise, take room.
            step = 2.0 ** np.floor(np.log2(deviation / 4))
            statistics = np.rint(statistics / step) * step
        return cls(stage.name, spent, statistics, deviation)

    def put_into(self, release: Release[Any]) -> Release[Any]:
        """The release with the recorded numbers in place of its own."""
        if not self.spent:
            return release
        numbers = unravel(release.statistics, self.statistics)
        noise = unravel(release.statistics, self.deviation)
        return replace(release, statistics=numbers, deviation=noise)

    def widest(self) -> np.ndarray:
        """How far a fresh release of the same sums may be from the recorded one, number by number.

        Ten deviations of the difference of two Gaussians, 40 scales of two Laplace: it is further
        away with probability below 1e-16. Whom a release about a cell is about is drawn afresh.
        """
        if any(group["cell"] is not None for group in self.spent):
            return np.full(self.statistics.size, np.inf)
        factors = [
            np.full(group["dimension"], 10.0 if group["kind"] == "gaussian" else 20.0)
            for group in self.spent
        ]
        return np.concatenate(factors) * math.sqrt(2.0) * self.deviation


def fitted(case: Case) -> tuple[Any, ...]:
    """Fit a case; what it warns of is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.fit()


def record(case: Case) -> tuple[list[Recorded], dict[str, np.ndarray]]:
    """Fit a case; its releases and what came out."""
    kept: list[Recorded] = []

    def keep(stage: Stage, release: Release[Any]) -> Release[Any]:
        kept.append(Recorded.of(stage, release))
        return kept[-1].put_into(release)

    with answering(keep):
        results = fitted(case)
    return kept, outcome(case, results)


def outcome(case: Case, results: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """All fitted attributes, and what the methods say of a few records, by name."""
    found: dict[str, np.ndarray] = {}
    model, *score = results
    if case.estimator == "private_mean":
        for name in ("value", "deviation", "bias", "privacy"):
            _flatten(name, getattr(model, name), found)
        return found
    for name in sorted(vars(model)):
        if name.endswith("_") and not name.startswith("_"):
            _flatten(name, getattr(model, name), found)
    few = [array[:12] for array in data(case.data)]
    calls = [(name, few[:1]) for name in OF_RECORDS] + [(name, few) for name in OF_TARGETS]
    calls.append(("sample", [12] if len(few) == 1 else few[:1]))
    for name, given in calls:
        if hasattr(model, name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # names of features that an array does not have
                said = getattr(model, name)(*given)
            if name != "predict" or said.dtype.kind == "f":  # labels depend on ties
                _flatten(f"{name}()", said, found)
    for result in score:
        for name in ("value", "deviation", "limits", "privacy"):
            _flatten(f"score.{name}", getattr(result, name), found)
    return found


def _flatten(name: str, value: Any, into: dict[str, np.ndarray]) -> None:
    if isinstance(value, Statement):
        for part in STATEMENT:
            _flatten(f"{name}.{part}", getattr(value, part), into)
        if value.shares is not None:
            _flatten(f"{name}.shares", list(asdict(value.shares).values()), into)
        return
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        for i, item in enumerate(value):
            _flatten(f"{name}.{i}", item, into)
        return
    array = np.asarray(value)
    into[name] = array.astype(str) if array.dtype.kind == "O" else array


def write(case: Case, stages: list[Recorded], found: dict[str, np.ndarray]) -> None:
    """Keep a recording."""
    about = {
        "case": case.about(),
        "stages": [{"name": stage.name, "spent": stage.spent} for stage in stages],
    }
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about))}
    # One after the other: an array each would be mostly headers.
    arrays["statistics"] = np.concatenate([stage.statistics for stage in stages])
    arrays["deviation"] = np.concatenate([stage.deviation for stage in stages])
    arrays |= {f"fitted {name}": value for name, value in found.items()}
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{case.name}.npz", **arrays)


def read(case: Case) -> tuple[dict[str, Any], list[Recorded], dict[str, np.ndarray]]:
    """How a recorded fit was made, its releases, and what came out."""
    with np.load(FOLDER / f"{case.name}.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        kept = about["stages"]
        ends = np.cumsum([sum(group["dimension"] for group in stage["spent"]) for stage in kept])
        statistics, deviation = (
            np.split(file[name], ends[:-1]) for name in ("statistics", "deviation")
        )
        stages = [
            Recorded(stage["name"], stage["spent"], *numbers)
            for stage, *numbers in zip(kept, statistics, deviation, strict=True)
        ]
        found = {
            name.removeprefix("fitted "): file[name]
            for name in file.files
            if name.startswith("fitted ")
        }
    return about["case"], stages, found
