"""Figures 1 to 5 and Theorems 2 and 3 of Wang et al. 2023, beside privem's default."""

from __future__ import annotations

from typing import Any

import numpy as np
from reproduction import Claim, grid
from reproduction.claims import Cell, Row

from privem import private_mean
from privem.accounting import registry
from privem.accounting.events import Gaussian
from privem.kernels.robust import TOP, robust_bound

from . import draw, judge, printed
from .problems import (
    KINDS,
    Array,
    Data,
    bounds,
    error,
    gradients,
    real,
    second_moment,
)
from .problems import draw as draw_data

VERSION = 1
DELTA, ZETA, CLIP = 1e-6, 0.05, 1.0
BASE = {"n": 10_000, "d": 10, "snr": 3.0, "epsilon": 0.5}
AXES = {
    "epsilon": [0.2, 0.5, 1.0, 2.0],
    "d": [5, 10, 20, 40],
    "n": [2000, 10_000, 50_000, 100_000],
    "snr": [1.0, 1.5, 3.0],
}
# Algorithms 1 and 2 are run with each of these and get credit for the best, in hindsight.
STEPS = (5, 10, 20)
# Of the pictures against iterations.
PATH, LONG = 10, 20
CLIPS = [0.1, 1.0, 5.0, 10.0]


def em(kind: str, data: Data, start: Array, steps: int) -> list[Array]:
    """Gradient EM without privacy, step size one: the start and all iterates."""
    found = [start]
    for _ in range(steps):
        found.append(found[-1] + gradients(kind, data, found[-1]).mean(axis=0))
    return found


def algorithm_1(
    kind: str, data: Data, start: Array, clip: float, steps: int, epsilon: float, rng: Any
) -> list[Array]:
    """All iterates."""

    def each(rows: Any, beta: Array) -> Array:
        return gradients(kind, tuple(a[rows] for a in data), beta)

    return printed.clipped(each, len(data[0]), start, clip, steps, epsilon, DELTA, rng)


def algorithm_2(
    kind: str, data: Data, start: Array, steps: int, epsilon: float, rng: Any
) -> list[Array]:
    """All iterates, with the true tau."""

    def each(rows: Any, beta: Array) -> Array:
        return gradients(kind, tuple(a[rows] for a in data), beta)

    tau = second_moment(kind, data, start)
    return printed.robust(each, len(data[0]), start, tau, steps, epsilon, DELTA, ZETA, rng)


def privem(kind: str, data: Data, epsilon: float | None, repetition: int, **given: Any) -> Array:
    """A private fit, or an exact one."""
    budget = {"epsilon": epsilon, "delta": DELTA, "neighbours": "replace-one"}
    more = {"random_state": repetition, "n_jobs": 1} | bounds(kind) | given
    model = KINDS[kind](**budget, **more).fit(*data)
    found: Array = model.mean_ if kind == "GMM" else model.coef_
    return found


def everything(
    kind: str, data: Data, truth: Array, start: Array, epsilon: float, repetition: int, seed: Any
) -> list[Row]:
    """The error of every method in one setting."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []

    def add(method: str, found: Array, steps: int | None = None) -> None:
        rows.append({"method": method, "steps": steps, "error": error(kind, found, truth)})

    add("start", start)
    known = {"init": start, "noise_variance": 1.0}
    add("exact EM", privem(kind, data, None, repetition, **known))
    for steps in STEPS:
        add("clipped", algorithm_1(kind, data, start, CLIP, steps, epsilon, rng)[-1], steps)
        add("as printed", algorithm_2(kind, data, start, steps, epsilon, rng)[-1], steps)
    # Algorithm 2's truncation and scale; exact noise, all records in each of five steps, and the
    # mean of the last iterates.
    kept = {"method": "gradient", "mechanism": "robust", "n_iter": 5, "failure": ZETA}
    tau = second_moment(kind, data, start)
    add("repaired", privem(kind, data, epsilon, repetition, **known, **kept, tau=tau))
    add("privem", privem(kind, data, epsilon, repetition, **known))
    add("privem, nothing given", privem(kind, data, epsilon, repetition))
    return rows


def errors(
    kind: str, n: int, d: int, snr: float, epsilon: float, start: str, repetition: int
) -> list[Row]:
    """A setting of figures 2 to 4."""
    data, truth, first = draw_data(kind, n, d, snr, start, repetition)
    seed = [1, n, d, round(1000 * snr), round(1000 * epsilon), repetition]
    return everything(kind, data, truth, first, epsilon, repetition, seed)


def on_real_data(name: str, epsilon: float, repetition: int) -> list[Row]:
    """A budget of figure 5. Starts and noise differ from repetition to repetition, not records."""
    data, truth, first = real(name, repetition)
    seed = [2, round(1000 * epsilon), repetition]
    about = {"n": len(data[0]), "length": float(np.linalg.norm(truth))}
    rows = everything("GMM", data, truth, first, epsilon, repetition, seed)
    return [row | about for row in rows]


def paths(kind: str, n: int, d: int, snr: float, epsilon: float, repetition: int) -> list[Row]:
    """The error against the iteration; of privem's fits, against how many they have."""
    data, truth, start = draw_data(kind, n, d, snr, "near", repetition)
    rng = np.random.default_rng([3, n, d, round(1000 * epsilon), repetition])
    known = {"init": start, "noise_variance": 1.0}
    found = {
        "exact EM": em(kind, data, start, PATH),
        "clipped": algorithm_1(kind, data, start, CLIP, PATH, epsilon, rng),
        "as printed": algorithm_2(kind, data, start, PATH, epsilon, rng),
        "privem": [
            start,
            *(
                privem(kind, data, epsilon, repetition, **known, n_iter=t)
                for t in range(1, PATH + 1)
            ),
        ],
    }
    return [
        {"method": method, "t": t, "error": error(kind, beta, truth)}
        for method, path in found.items()
        for t, beta in enumerate(path)
    ]


def thresholds(kind: str, n: int, d: int, snr: float, epsilon: float, repetition: int) -> list[Row]:
    """Figure 1: Algorithm 1 with each threshold, against the iteration."""
    data, truth, start = draw_data(kind, n, d, snr, "near", repetition)
    rng = np.random.default_rng([4, repetition])
    found: dict[float | None, list[Array]] = {
        clip: algorithm_1(kind, data, start, clip, LONG, epsilon, rng) for clip in CLIPS
    }
    found[None] = em(kind, data, start, LONG)
    return [
        {"clip": clip, "t": t, "error": error(kind, beta, truth)}
        for clip, path in found.items()
        for t, beta in enumerate(path)
    ]


def means(n: int, epsilon: float, repetition: int) -> list[Row]:
    """Theorem 2: errors of private means of skewed, heavy-tailed numbers.

    Pareto with shape 2.5: the mean is 5/3, the second moment 5, the third does not exist.
    """
    rng = np.random.default_rng([5, n, round(1000 * epsilon), repetition])
    x = rng.pareto(2.5, n) + 1
    tau, truth = 5.0, 5 / 3
    budget = {"epsilon": epsilon, "delta": DELTA, "tau": tau, "failure": ZETA, "n_jobs": 1}
    central = budget | {"neighbours": "replace-one"}
    local = budget | {"trust": "local"}
    found = {
        ("central", "exact EM"): x.mean(),
        ("central", "as printed"): private_mean(x, method="theorem 2", **central).value,
        ("central", "lemma 1"): private_mean(x, method="lemma 1", **central).value,
        ("central", "privem"): private_mean(x, **central).value,
        ("local", "exact EM"): x.mean(),
        ("local", "as printed"): printed.local_mean(x, tau, epsilon, DELTA, ZETA, rng),
        ("local", "lemma 1"): private_mean(x, method="lemma 1", **local).value,
        ("local", "privem"): private_mean(x, **local).value,
    }
    return [
        {"trust": trust, "method": method, "error": abs(float(value) - truth)}
        for (trust, method), value in found.items()
    ]


def arithmetic() -> list[Row]:
    """What needs no data: Algorithm 2's noise, bound and closed form, Algorithm 1's constant."""
    rows: list[Row] = []
    for epsilon in (0.2, 0.5, 1.0):
        mu = printed.spent_mu(epsilon, DELTA, ZETA)
        spent = registry.epsilon(Gaussian(1 / mu), DELTA)
        constant = printed.least_constant(epsilon, DELTA)
        rows.append({"epsilon": epsilon, "spent": spent, "constant": constant})
    first, second = printed.variances(1000, 10, 2.0, 0.5, DELTA, ZETA)
    beta = printed.scale(1000, 2.0, 0.5, DELTA, ZETA)[1]
    places = np.geomspace(1, 1e8, 2001)
    found = np.abs([printed.closed_form(a, a / np.sqrt(beta)) for a in places])
    rows.append(
        {
            "forms": second / first,
            "bound": TOP,
            "supremum": robust_bound(beta),
            "closed": float(found.max()),
            "at": float(places[found.argmax()]),
            "right_up_to": float(places[np.argmax(found > TOP)]),
        }
    )
    return rows


def repeated(kind: str, quick: bool) -> range:
    """Repetitions: data sets, starts and noise."""
    return range(3 if quick else 15 if kind == "GMM" else 10)


def figure(kind: str, quick: bool) -> list[Cell]:
    """Figures 2, 3 and 4."""
    repetitions = repeated(kind, quick)
    settings = [BASE | {name: value} for name, values in AXES.items() for value in values]
    if quick:
        settings = [each for each in settings if each["n"] <= 50_000 and each["d"] <= 20]
    cells = [
        cell
        for each in settings
        for cell in grid(errors, kind=kind, **each, start="near", repetition=repetitions)
    ]
    far = BASE | {"n": 50_000}
    cells += grid(errors, kind=kind, **far, start="random", repetition=repetitions)
    return cells + grid(paths, kind=kind, **BASE, repetition=repetitions)


def fig1_cells(quick: bool) -> list[Cell]:
    return grid(thresholds, kind=list(KINDS), **BASE, repetition=range(3 if quick else 25))


def fig2_cells(quick: bool) -> list[Cell]:
    return figure("GMM", quick)


def fig3_cells(quick: bool) -> list[Cell]:
    return figure("MRM", quick)


def fig4_cells(quick: bool) -> list[Cell]:
    return figure("RMC", quick)


def adult_cells(quick: bool) -> list[Cell]:
    repetitions = range(3 if quick else 10)
    return grid(on_real_data, name="Adult", epsilon=AXES["epsilon"], repetition=repetitions)


def ipums_cells(quick: bool) -> list[Cell]:
    repetitions = range(3 if quick else 10)
    return grid(on_real_data, name="IPUMS", epsilon=AXES["epsilon"], repetition=repetitions)


def thm2_cells(quick: bool) -> list[Cell]:
    repetitions = range(10 if quick else 100)
    cells = grid(means, n=[1000, 10_000, 100_000], epsilon=1.0, repetition=repetitions)
    cells += grid(means, n=10_000, epsilon=[0.1, 0.3], repetition=repetitions)
    return cells if quick else cells + grid(means, n=1_000_000, epsilon=1.0, repetition=range(20))


def alg2_cells(quick: bool) -> list[Cell]:
    return grid(arithmetic)


CLAIMS = {
    "fig1": Claim(fig1_cells, judge.fig1, draw.fig1),
    "fig2": Claim(fig2_cells, judge.figure, draw.figure),
    "fig3": Claim(fig3_cells, judge.figure, draw.figure),
    "fig4": Claim(fig4_cells, judge.figure, draw.figure),
    "fig5-adult": Claim(adult_cells, judge.real, draw.real),
    "fig5-ipums": Claim(ipums_cells, judge.real, draw.real),
    "thm2": Claim(thm2_cells, judge.thm2, draw.thm2),
    "alg2": Claim(alg2_cells, judge.alg2),
}
