"""Exact streams: one pass of ``partial_fit`` against a fit of all records, held out.

    python experiments/minibatch/streams.py [--splits N] [--cases TEXT]

Four fifths of the records, in random order, come in blocks; the first is fitted, each other one is
looked at once. Scores are those of the other fifth, per record: log-likelihood, or for k-means the
mean squared distance. Beside the full fit stands EM on all records from where the first block's fit
ended: what it loses is the start's doing, and no stream from there can gain it back. Other
exponents of the steps than the library's are set from outside, to see what they would do.

Data come from the folder in PRIVEM_DATA (default ../shared/data), or are made up.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from run import DATA, gowalla, life

from privem import CategoricalMixture, FactorAnalysis, GaussianMixture, KMeans, PoissonMixture, em
from privem.datasets import make_people

EXPONENTS = (0.51, 0.6, 0.7, 0.8, 1.0)


def birch() -> np.ndarray:
    """A hundred groups in the plane, 100,000 records (Franti and Sieranoja 2018)."""
    return np.load(DATA / "sipu_benchmarks.npz")["birch1"] / 1e5


def people() -> np.ndarray:
    """Made-up people in five overlapping groups."""
    return make_people(40_000, 0).to_numpy()


def counts() -> np.ndarray:
    """Made-up counts in four groups."""
    rng = np.random.default_rng(0)
    rates = rng.gamma(2.0, 3.0, size=(4, 6))
    return rng.poisson(rates[rng.choice(4, 40_000, p=[0.4, 0.3, 0.2, 0.1])])


def answers() -> np.ndarray:
    """Made-up answers to ten questions, of three kinds of people."""
    rng = np.random.default_rng(0)
    likes = rng.beta(1.0, 1.0, size=(3, 10))
    return (rng.random((40_000, 10)) < likes[rng.choice(3, 40_000)]).astype(int)


Make = Callable[[], Any]
CASES: list[tuple[str, Callable[[], np.ndarray], Make, tuple[int, ...]]] = [
    ("GaussianMixture(3), Life Sciences", life, lambda: GaussianMixture(3), (250, 1000, 4000)),
    ("GaussianMixture(5), Gowalla sample", gowalla, lambda: GaussianMixture(5), (250, 1000, 4000)),
    ("GaussianMixture(5), made-up people", people, lambda: GaussianMixture(5), (250, 1000, 4000)),
    ("KMeans(100), birch1", birch, lambda: KMeans(100), (1000, 4000)),
    ("KMeans(8), Life Sciences", life, lambda: KMeans(8), (250, 1000, 4000)),
    ("PoissonMixture(4), made-up counts", counts, lambda: PoissonMixture(4), (250, 1000)),
    (
        "CategoricalMixture(3), made-up answers",
        answers,
        lambda: CategoricalMixture(3, categories=[0, 1], random_state=0),
        (250, 1000),
    ),
    ("FactorAnalysis(3), Life Sciences", life, lambda: FactorAnalysis(3), (250, 1000)),
]


def score(model: Any, test: np.ndarray) -> float:
    """Per record; of k-means as a share, so that it does not depend on units."""
    value = float(model.score(test))
    return value / len(test) if isinstance(model, KMeans) else value


def stream(make: Make, train: np.ndarray, size: int, exponent: float) -> Any:
    """A model of blocks of so many records."""
    em._DECAY = exponent
    model = make().set_params(epsilon=None, n_jobs=1)
    for at in range(0, len(train), size):
        model.partial_fit(train[at : at + size])
    return model


def from_there(make: Make, train: np.ndarray, size: int) -> Any:
    """All records, from where a fit of the first block ended; ``None`` where it cannot be said."""
    first = make().set_params(epsilon=None, n_jobs=1)
    if isinstance(first, GaussianMixture):
        return first.set_params(warm_start=True).fit(train[:size]).fit(train)
    if isinstance(first, KMeans):
        centres = first.fit(train[:size]).cluster_centers_
        return first.set_params(init=centres).fit(train)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--cases", default="", help="those whose name holds this")
    arguments = parser.parse_args()
    splits = arguments.splits
    warnings.simplefilter("ignore")
    print(
        "| model and data | full fit | block | from there |", " | ".join(map(str, EXPONENTS)), "|"
    )
    for name, load, make, sizes in (case for case in CASES if arguments.cases in case[0]):
        X, whole, found = load(), [], {}
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(X))
            test, train = np.split(X[order], [len(X) // 5])
            full = score(make().set_params(epsilon=None, n_jobs=1).fit(train), test)
            whole.append(full)
            unit = abs(full) if isinstance(make(), KMeans) else 1.0
            for size in sizes:
                same = from_there(make, train, size)
                reached = [float("nan") if same is None else score(same, test)]
                reached += [score(stream(make, train, size, a), test) for a in EXPONENTS]
                losses = [(value - full) / unit for value in reached]
                found.setdefault(size, []).append(losses)
        for size, rows in found.items():
            each = zip(*rows, strict=True)
            cells = [f"{statistics.median(c):+.4f} ({min(c):+.3f})" for c in each]
            print(f"| {name} | {statistics.median(whole):.4f} | {size} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
