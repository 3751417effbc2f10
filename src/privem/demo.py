"""The demonstration: synthetic people, a mixture fitted from a file, scikit-learn beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as PeerMixture
from threadpoolctl import threadpool_limits

from .datasets import make_people
from .estimators import GaussianMixture
from .report import CannotWrite, MissingExtra, draw_pairs, write_records

__all__ = ["Clock", "Demo", "Measured", "run_demo"]

Array = NDArray[np.float64]

COMPONENTS = 5
# With threads as they are, scikit-learn may need a second for one iteration: a few must do.
_FEW = 6

_PAIRS = (("age", "income_k"), ("age", "systolic_bp"), ("income_k", "cholesterol"))
_LABELS = {
    "age": "age, years",
    "income_k": "income, thousands a year",
    "systolic_bp": "systolic blood pressure, mmHg",
    "cholesterol": "cholesterol, mg/dL",
}


@dataclass(frozen=True)
class Clock:
    """Seconds on the wall, and seconds of all processors together."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """How one library did: the same rows in memory, the same start, the same stopping rule.

    With one BLAS thread: that compares the algorithms. With more, OpenBLAS may slow scikit-learn's
    small matrix products down several times (measured here: 105 to 630 ms on two busy cores),
    which says nothing about either algorithm. So that is measured too, but apart.
    """

    library: str
    iterations: int
    whole: Clock
    """The whole fit, one thread."""
    per_iteration: Clock
    """One thread: (whole fit - fit of one iteration) / (iterations - 1); set-up does not count."""
    per_iteration_threaded: Clock
    """The same over a few iterations, with as many threads as the process has."""
    log_likelihood: float
    """Mean log-density of people neither library has seen."""


@dataclass(frozen=True)
class Demo:
    """What the demonstration found, and where it put things."""

    model: GaussianMixture
    rows: int
    held_out: int
    from_file_seconds: float
    privem: Measured
    peer: Measured
    held_out_score: float
    """Held-out log-likelihood of ``model``."""
    single: float
    """Held-out log-likelihood of one Gaussian: what a mixture has to beat."""
    difference: float
    """Largest difference between the two libraries' means, in standard deviations."""
    files: dict[str, Path]
    remark: str
    """Why something is missing; empty if nothing is."""


def run_demo(
    out: str | Path = "demo",
    rows: int = 200_000,
    random_state: int = 0,
    say: Callable[[str], object] = lambda text: None,
) -> Demo:
    """Make people, fit them from a file, compare with scikit-learn, sample, draw.

    Nothing here is private: the demo fits exactly.

    Parameters
    ----------
    out : path-like
        A folder for the results; made if it does not exist.
    rows : int, default=200_000
        How many people.
    random_state : int, default=0
        The same number gives the same people and the same model.
    say : callable
        Receives pieces of text while the work goes on.

    Returns
    -------
    Demo

    Examples
    --------
    >>> import tempfile
    >>> demo = run_demo(tempfile.mkdtemp(), rows=500)
    >>> sorted(demo.files)[:2]
    ['model', 'people']
    >>> demo.difference < 1e-6
    True
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(folder, error.strerror or str(error)) from error
    files = {
        "people": folder / "people.parquet",
        "model": folder / "model.json",
        "synthetic": folder / "synthetic.parquet",
    }
    held_out = max(rows // 5, 100)
    step = _Steps(say)

    with step(f"make {rows:,} people"):
        people = make_people(rows, random_state)
        others = make_people(held_out, random_state + 1)
        # polars gives columns one after the other; most arrays, and scikit-learn's users, do not.
        X, unseen = np.ascontiguousarray(people.to_numpy()), others.to_numpy()
        write_records(files["people"], people.columns, rows, [X])

    with step(f"fit {COMPONENTS} components, reading the file"):
        model, clock = _timed(
            lambda: GaussianMixture(COMPONENTS, random_state=random_state).fit(files["people"])
        )
        _save(model, files["model"])

    with step("fit again from memory, from a given start"):
        start = GaussianMixture(COMPONENTS, max_iter=0, random_state=random_state).fit(X)
        ours, ours_measured = _measure("privem", GaussianMixture, start, X, unseen)
    with step("the same with scikit-learn (takes longest)"):
        peer, peer_measured = _measure("scikit-learn", PeerMixture, start, X, unseen)
    with step("fit a single Gaussian, for comparison"):
        single = GaussianMixture(1).fit(X).score(unseen)

    with step(f"draw {rows:,} records from the model"):
        synthetic, _ = model.sample(rows)
        # The model draws component by component; a file's first rows should look like the rest.
        synthetic = np.random.default_rng(random_state).permutation(synthetic)
        write_records(files["synthetic"], people.columns, rows, [synthetic])

    with step("draw the picture"):
        remark = _picture(folder / "demo.png", model, people.columns, X, synthetic)
    if not remark:
        files["picture"] = folder / "demo.png"
    return Demo(
        model,
        rows,
        held_out,
        clock.wall,
        ours_measured,
        peer_measured,
        model.score(others),
        single,
        float(np.abs((ours.means_ - peer.means_) / X.std(axis=0)).max()),
        files,
        remark,
    )


class _Steps:
    """Says what is going on, and how long it took."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say

    @contextmanager
    def __call__(self, text: str) -> Iterator[None]:
        self._say(f"  {text} ".ljust(56, ".") + " ")
        start = time.perf_counter()
        try:
            yield
        except BaseException:
            self._say("failed\n")
            raise
        self._say(f"{time.perf_counter() - start:5.1f} s\n")


def _timed(work: Callable[[], Any]) -> tuple[Any, Clock]:
    with warnings.catch_warnings():
        # Stopping at the cap is part of the plan here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        return result, Clock(time.perf_counter() - wall, time.process_time() - cpu)


def _measure(
    library: str, kind: Any, start: GaussianMixture, X: Array, unseen: Array
) -> tuple[Any, Measured]:
    """Fit from the parameters of ``start`` until both libraries' common rule says stop."""

    def fit(max_iter: int, tol: float = 1e-3) -> Any:
        mixture = kind(
            COMPONENTS,
            tol=tol,
            max_iter=max_iter,
            weights_init=start.weights_,
            means_init=start.means_,
            precisions_init=start.precisions_,
        )
        return mixture.fit(X)

    # privem follows BLAS, so this holds both to one thread.
    with threadpool_limits(limits=1):
        _, once = _timed(lambda: fit(1))
        model, whole = _timed(lambda: fit(100))
        score = float(model.score(unseen))
    iterations = int(model.n_iter_)
    _, once_threaded = _timed(lambda: fit(1))
    _, few = _timed(lambda: fit(_FEW, tol=0.0))
    return model, Measured(
        library,
        iterations,
        whole,
        _per_iteration(whole, once, iterations),
        _per_iteration(few, once_threaded, _FEW),
        score,
    )


def _per_iteration(whole: Clock, once: Clock, iterations: int) -> Clock:
    def each(whole: float, once: float) -> float:
        if iterations > 1 and whole > once:
            return (whole - once) / (iterations - 1)
        # On very few rows the clock may see no difference: then the average has to do.
        return max(whole, 1e-6) / iterations

    return Clock(each(whole.wall, once.wall), each(whole.cpu, once.cpu))


def _save(model: GaussianMixture, path: Path) -> None:
    try:
        model.save(path)
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from error


def _picture(
    path: Path, model: GaussianMixture, names: list[str], real: Array, synthetic: Array
) -> str:
    """Draw, or say why not."""
    try:
        draw_pairs(
            path,
            model,
            {name: real[:, j] for j, name in enumerate(names)},
            {name: synthetic[:, j] for j, name in enumerate(names)},
            _PAIRS,
            labels=_LABELS,
            title="People who do not exist, and a mixture that describes them",
        )
    except MissingExtra as error:
        return f"no picture: {error}"
    return ""
