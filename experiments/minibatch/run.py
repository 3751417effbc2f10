"""Would a private fit gain from mini-batches? Noise by dp-accounting, and simulated fits.

    python experiments/minibatch/run.py [--splits N] [--sets NAME ...]

In each of T iterations a private fit may sum over all records, or over a sample that each record
enters with probability q, whose sum is then multiplied by 1/q. A record that may not be in the
sample is better hidden, so less noise is needed; multiplied by 1/q, is it less? First table: the
noise of the scaled sum at the same epsilon and delta, from dp_accounting's PLD accountant, with the
sampling error beside it. Second table: held-out log-likelihood of private mixtures with that noise.

The second is a SIMULATION. Its samples and its noise are drawn by NumPy, and what the fits say they
cost is not what they would cost: nothing here is private, and no estimator can be made to do it.

Data come from the folder in PRIVEM_DATA (default ../shared/data). No set's rows are people.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import statistics
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy.optimize import brentq
from scipy.special import ndtr

from privem import GaussianMixture
from privem.core import Release, Stage
from privem.data import LocalSource, Table, read_rows, register
from privem.data.table import People
from privem.linalg import map_leaves

DATA = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
DELTA = 1e-6
RATES, EPSILONS, ITERATIONS = (1.0, 0.5, 0.1, 0.01), (0.1, 1.0, 4.0), (10, 30, 100)
# Of the sampling error: that of the number of records in one of five equal components.
RECORDS, PART = 100_000, 1 / 5


def life() -> np.ndarray:
    """Ten principal components of 26,733 compounds, in the unit ball."""
    with gzip.open(DATA / "lifesci_ds1.10.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")[:, :10] / 14.41


def gowalla() -> np.ndarray:
    """Latitude and longitude of 101,920 places, in the unit ball."""
    places = np.load(DATA / "gowalla_locations.npz")["rand_users_union_latlon"]
    return places / [90, 180] / 1.2


@cache
def gaussian(epsilon: float) -> float:
    """The mu whose Gaussian differential privacy is (epsilon, DELTA): Dong et al. 2019."""

    def over(mu: float) -> float:
        first, second = ndtr(-epsilon / mu + mu / 2), ndtr(-epsilon / mu - mu / 2)
        return float(first - math.exp(epsilon) * second - DELTA)

    return float(brentq(over, 1e-4, 30.0))


@cache
def scaled(rate: float, iterations: int, epsilon: float) -> float:
    """Noise on the scaled sum of each iteration, in sensitivities of a sum."""
    mu = gaussian(epsilon)
    if rate == 1:
        return math.sqrt(iterations) / mu

    def over(noise: float) -> float:
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        sample = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        accountant.compose(dp_accounting.SelfComposedDpEvent(sample, iterations))
        return math.log(max(accountant.get_delta(epsilon), 1e-30) / DELTA)

    low = high = 0.8 * limit(rate, iterations, epsilon) * rate
    while over(high) > 0:
        low, high = high, 1.3 * high
    return float(brentq(over, low, high, rtol=1e-3)) / rate


def limit(rate: float, iterations: int, epsilon: float) -> float:
    """The same in the central limit: mu = q sqrt(T (exp(1/s^2) - 1)), Bu et al. 2020."""
    spread = (gaussian(epsilon) / rate) ** 2 / iterations
    return 1 / math.sqrt(math.log1p(spread)) / rate


def noise_table() -> None:
    print("noise (central limit) + sampling error; total over that of full batches")
    for iterations in ITERATIONS:
        for epsilon in EPSILONS:
            cells = []
            for rate in RATES:
                noise = scaled(rate, iterations, epsilon)
                sampling = math.sqrt((1 - rate) / rate * RECORDS * PART)
                total = math.hypot(noise, sampling) / scaled(1.0, iterations, epsilon)
                near = limit(rate, iterations, epsilon)
                cells.append(f"{noise:.1f} ({near:.1f}) + {sampling:.0f}; {total:.2f}")
            # One pass: each record is in one block of N/T, and pays for that release alone.
            blocks = iterations * scaled(1.0, 1, epsilon)
            print(f"| {iterations} | {epsilon:g} |", " | ".join(cells), f"| {blocks:.1f} |")


@dataclass(frozen=True)
class Sampled:
    """Rows whose EM is answered from samples, with simulated noise. Not private."""

    X: np.ndarray
    rate: float
    rng: np.random.Generator
    iterations: int
    names = None

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def release(self, stage: Stage) -> Release[Any]:
        """EM's sums from a sample, at the price of its full sums; all else as it is."""
        if not stage.name.startswith("EM ") or self.rate == 1:
            return LocalSource(read_rows(self.X), 1).release(stage)
        (spent,) = stage.noise.price(stage.query)
        # What all iterations of EM cost together, as one Gaussian, is an epsilon at DELTA.
        mu = math.sqrt(self.iterations) * spent.sensitivity / spent.deviation
        epsilon = brentq(lambda e: gaussian(e) - mu, 1e-3, 60.0)
        more = scaled(self.rate, self.iterations, round(float(epsilon), 6)) / (
            spent.deviation / spent.sensitivity
        )
        chosen = self.X[self.rng.random(len(self.X)) < self.rate]
        sums = LocalSource(read_rows(chosen), 1).partial(stage.query, private=True).value()
        noise = more * spent.deviation

        def perturbed(leaf: np.ndarray) -> np.ndarray:
            return leaf / self.rate + noise * self.rng.standard_normal(leaf.shape)

        deviation = map_leaves(lambda leaf: np.full(leaf.shape, noise), sums)
        return Release(stage.query, map_leaves(perturbed, sums), deviation, (spent,))


def _open(X: Sampled, y: Any, weight: Any, groups: Any, policy: Any) -> Table:
    policy.estimator.n_features_in_ = X.n_features
    return Table(X, People("record", len(X.X), False), elsewhere=X)


register(lambda X: isinstance(X, Sampled), _open)


SETS = {"Life Sciences": (life, 3), "Gowalla sample": (gowalla, 5)}


def fit_table(sets: list[str], splits: int, iterations: int = 10) -> None:
    for name in sets:
        load, components = SETS[name]
        X = load()
        print(
            f"{name}, {iterations} iterations, median of {splits} splits (worst to best)",
            flush=True,
        )
        for epsilon in EPSILONS:
            cells = []
            for rate in RATES:
                found = []
                for split in range(splits):
                    order = np.random.default_rng(split).permutation(len(X))
                    test, train = np.split(X[order], [len(X) // 10])
                    model = GaussianMixture(
                        components,
                        epsilon=epsilon,
                        delta=DELTA,
                        bounds=1.0,
                        n_iter=iterations,
                        random_state=split,
                        ledger=False,
                    )
                    rows = Sampled(train, rate, np.random.default_rng(100 + split), iterations)
                    found.append(model.fit(rows).score(test))
                middle = statistics.median(found)
                cells.append(f"{middle:.2f} ({min(found):.2f} to {max(found):.2f})")
            print(f"| {epsilon:g} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    noise_table()
    fit_table(arguments.sets, arguments.splits)


if __name__ == "__main__":
    main()
