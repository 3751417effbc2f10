"""Park et al. 2016, *Practical Privacy for Expectation Maximization*: its figures, run again."""

from __future__ import annotations

import math

import numpy as np
from reproduction import FAILS, HOLDS, REPAIRED, Cell, Claim, Finding, Rows, grid, spread

from . import printed
from .clusters import clusters
from .leaks import DELTA, EPSILON, NOMINAL, advantage, impossible, parameters
from .mixtures import ADVANCED, ADVANCED_SPENT, CDP, ITERATIONS, SPENT, life, records
from .mixtures import DELTA as FIGURE_2_DELTA
from .pictures import fig1_picture, fig2_picture, fig3_picture, fig4_picture, noise_picture
from .spending import cdp_epsilon, laplace_epsilon

VERSION = 1
_SIZES = (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 256_000)
_NOMINAL = (0.01, 0.03, 0.1, 0.3, 0.9)
_LIFE = (0.03, 0.1, 0.3, 1.0, 3.0)


def fig1_cells(quick: bool) -> list[Cell]:
    """One data set of 104 people, the same without the person, and 50 times as many people."""
    many = 20 if quick else 200
    return [
        *grid(parameters, times=1, alone=[True, False], repetition=range(many)),
        *grid(parameters, times=50, alone=True, repetition=range(5 if quick else 20)),
    ]


def fig1_judge(rows: Rows) -> dict[str, Finding]:
    few, many = rows.where(times=1), rows.where(times=50)
    exact = few.where(method="exact EM", alone=True).of("distance")
    found, gains = {}, {}
    for method in ("as printed", "privem"):
        found[method] = few.where(method=method, alone=True).of("distance")
        gains[method] = advantage(
            found[method], few.where(method=method, alone=False).of("distance")
        )
    bound = math.tanh(EPSILON / 2) + DELTA
    errors = {
        (method, times): part.where(method=method, alone=True).of("error")
        for method in found
        for times, part in ((1, few), (50, many))
    }
    reps, nominal = len(found["privem"]), cdp_epsilon(NOMINAL, DELTA)
    nearer = [float(np.median(errors[m, 50])) < float(np.median(errors[m, 1])) for m in found]
    return {
        "revealed": Finding(
            HOLDS if exact.max() < 0.01 else FAILS,
            f"{exact.max():.2g} degrees between the person and the nearest mean",
            "A component of one record has that record as its mean.",
            None,
        ),
        "hidden": Finding(
            HOLDS if max(gains.values()) <= bound + 4 / math.sqrt(reps) else FAILS,
            f"distance in degrees: privem {spread(found['privem'])}, as printed "
            f"{spread(found['as printed'])}; a guesser's advantage: {gains['privem']:.2f} and "
            f"{gains['as printed']:.2f} (exact EM: 1)",
            f"privem spends epsilon {EPSILON:g} at delta {DELTA:g}, and proves an advantage of at "
            f"most {bound:.2f}. The printed noise, at the paper's 0.9 (epsilon {nominal:.1f}), "
            "hides the mean as well; its variances promise nothing (noise, below).",
            reps,
        ),
        "more": Finding(
            HOLDS if all(nearer) else FAILS,
            "degrees from a mean of EM to the nearest private one, n = 104, then 5,200: privem "
            f"{spread(errors['privem', 1])}, then {spread(errors['privem', 50])}; as printed "
            f"{spread(errors['as printed', 1])}, then {spread(errors['as printed', 50])}",
            "At 5,200 people privem finds the three large groups, but not the fourth, of 50.",
            len(errors["privem", 50]),
        ),
    }


def fig2_cells(quick: bool) -> list[Cell]:
    sizes = (500, 8000, 64_000) if quick else _SIZES
    return grid(records, n=sizes, repetition=range(3 if quick else 20))


def _needed(rows: Rows, method: str, loss: float = 0.1) -> float:
    """From how many records on the median is as near to exact EM's, interpolated."""
    sizes = sorted({row["n"] for row in rows})
    lost = [
        float(np.median(part.where(method="exact EM").of("score")))
        - float(np.median(part.where(method=method).of("score")))
        for part in (rows.where(n=n) for n in sizes)
    ]
    if lost[-1] > loss:
        return math.inf
    after = max((i + 1 for i, each in enumerate(lost) if each > loss), default=0)
    if after == 0:
        return 0.0
    part = (lost[after - 1] - loss) / (lost[after - 1] - lost[after])
    return float(sizes[after - 1] * (sizes[after] / sizes[after - 1]) ** part)


def _say(n: float) -> str:
    if n == 0:
        return f"at most {min(_SIZES)}"
    return f"{float(f'{n:.2g}'):,.0f}" if math.isfinite(n) else "more than there are"


def fig2_judge(rows: Rows) -> dict[str, Finding]:
    most, reps = max(row["n"] for row in rows), len({row["repetition"] for row in rows})
    need = {name: _needed(rows, name) for name, _ in rows.groups("method")}
    last = rows.where(n=most)
    far = {
        name: np.median(last.where(method=name).of("score")) for name, _ in last.groups("method")
    }
    strict = printed.advanced_share(NOMINAL, FIGURE_2_DELTA, ITERATIONS * 7)
    tight = _share_for(NOMINAL, FIGURE_2_DELTA)
    shown = ("exact EM", "CDP as printed", "CDP repaired", "advanced repaired", "privem")
    return {
        "budget": Finding(
            FAILS,
            f"CDP {SPENT:.2f}, advanced {ADVANCED_SPENT:.2f}, at delta {FIGURE_2_DELTA:g}",
            "The paper says which budget is of which kind. As (epsilon, 0.01)-DP they are these "
            "two: the budget of CDP is rho of zCDP. Both are told as if Gamma noise were Laplace "
            "noise.",
            None,
        ),
        "less-data": Finding(
            REPAIRED if 1.1 * need["CDP repaired"] < need["advanced repaired"] else FAILS,
            f"records needed to lose 0.1 nats to exact EM, medians, printed: CDP "
            f"{_say(need['CDP as printed'])}, advanced {_say(need['advanced as printed'])}; both "
            f"at epsilon {NOMINAL:g}: CDP {_say(need['CDP repaired'])}, advanced "
            f"{_say(need['advanced repaired'])}; privem {_say(need['privem'])}",
            f"At equal epsilon CDP shrinks the printed noise by {tight / strict:.1f}, not by "
            f"{CDP / ADVANCED:.1f}. Repaired, advanced composition also has the better form of the "
            "theorem (3.20 in place of corollary 3.21), which makes up for half of that.",
            reps,
        ),
        "converge": Finding(
            HOLDS if all(far[name] > far["exact EM"] - 0.05 for name in shown) else FAILS,
            f"n = {most:,}: "
            + ", ".join(f"{m} {spread(last.where(method=m).of('score'))}" for m in shown),
            "Medians. The lowest ones are local maxima: the starts do not read the data.",
            reps,
        ),
    }


def _share_for(target: float, delta: float) -> float:
    """epsilon' whose 70 Laplace releases really cost so much."""
    low, high = 1e-4, 1.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        spent = laplace_epsilon(middle, ITERATIONS * 7, delta)
        low, high = (middle, high) if spent <= target else (low, middle)
    return low


def fig3_cells(quick: bool) -> list[Cell]:
    return grid(
        clusters,
        nominal=(0.01, 0.1) if quick else _NOMINAL,
        repetition=range(3 if quick else 20),
    )


def fig3_judge(rows: Rows) -> dict[str, Finding]:
    at, reps = rows.where(nominal=0.01), len({row["repetition"] for row in rows})
    values = {name: part.of("nicv") for name, part in at.groups("method")}
    medians = {name: float(np.median(found)) for name, found in values.items()}
    told = ("CDPlap as printed", "CDPgau as printed", "DPLloyd as printed")
    spent = ("CDPlap, spent", "CDPgau, spent", "DPLloyd linear, spent", "DPLloyd zCDP, spent")
    say = lambda names: "; ".join(f"{name} {spread(values[name])}" for name in names)  # noqa: E731
    epsilon = cdp_epsilon(0.01, 1e-4)
    gap = min(medians[spent[0]], medians[spent[1]]) / min(medians[spent[2]], medians[spent[3]])
    return {
        "nominal": Finding(
            HOLDS if max(medians[m] for m in told[:2]) < medians[told[2]] else FAILS,
            say(told),
            f"As plotted, at a budget of 0.01: that is epsilon {epsilon:.2f} at delta 1e-4 for "
            "CDP, and epsilon 0.01 for DPLloyd.",
            reps,
        ),
        "equal": Finding(
            REPAIRED if gap < 1 / 1.1 else FAILS,
            say(spent),
            f"All at the epsilon of {epsilon:.2f} that CDP spends: the difference is gone."
            if gap >= 1 / 1.1
            else f"All at the epsilon of {epsilon:.2f} that CDP spends.",
            reps,
        ),
        "ours": Finding(
            HOLDS if medians["privem, spent"] < 1.05 * medians["exact"] else FAILS,
            f"exact {spread(values['exact'])}; privem at {epsilon:.2f} "
            f"{spread(values['privem, spent'])}, at 0.01 {spread(values['privem, nominal'])}",
            "A noisy grid, clustered after its release, in place of noisy iterations.",
            reps,
        ),
    }


def fig4_cells(quick: bool) -> list[Cell]:
    return grid(life, nominal=(0.1, 1.0) if quick else _LIFE, repetition=range(2 if quick else 10))


def fig4_judge(rows: Rows) -> dict[str, Finding]:
    reps = len({row["repetition"] for row in rows})
    at = rows.where(nominal=1.0)
    values = {name: part.of("score") for name, part in rows.where(nominal=0.1).groups("method")}
    later = {name: part.of("score") for name, part in at.groups("method")}
    medians = {name: float(np.median(found)) for name, found in values.items()}
    K, J = 3, ITERATIONS
    return {
        "cdp": Finding(
            REPAIRED if medians["CDP repaired"] > medians["advanced repaired"] else FAILS,
            f"budget 0.1, printed: CDP {spread(values['CDP as printed'])}, advanced "
            f"{spread(values['advanced as printed'])}; both repaired at epsilon 0.1: "
            f"{spread(values['CDP repaired'])}, {spread(values['advanced repaired'])}",
            f"The printed CDP spends epsilon {cdp_epsilon(0.1, 1e-4):.1f} at delta 1e-4.",
            reps,
        ),
        "ours": Finding(
            HOLDS
            if np.median(later["privem"]) > np.median(later["single Gaussian"])
            and medians["privem"] > max(medians["CDP repaired"], medians["CDP as printed"])
            else FAILS,
            f"epsilon 0.1: {spread(values['privem'])}; 1: {spread(later['privem'])}; exact EM "
            f"{spread(values['exact EM'])}, one Gaussian {spread(values['single Gaussian'])}",
            "At the printed budget of 1 the printed method has "
            f"{spread(later['CDP as printed'])}, less than one Gaussian.",
            reps,
        ),
        "delta": Finding(
            FAILS,
            f"J delta' + delta_1 = {J * 0.001 + 0.01:g}; J K delta' + delta_1 = "
            f"{J * K * 0.001 + 0.01:g}",
            "Each iteration releases K means, each with its own delta'.",
            None,
        ),
    }


def noise_cells(quick: bool) -> list[Cell]:
    several = range(5 if quick else 20)
    return [
        *grid(impossible, kind="Gamma", share=[0.01, 0.03, 0.1, 0.3, 1.0], d=2, repetition=several),
        *grid(
            impossible, kind="Wishart", share=[0.01, 0.03, 0.1, 0.3, 1.0], d=10, repetition=several
        ),
    ]


def noise_judge(rows: Rows) -> dict[str, Finding]:
    def one(kind: str) -> Finding:
        at = rows.where(kind=kind, share=0.1)
        found, formula = at.of("delta"), at.of("formula")[0]
        run = 1 - (1 - np.median(found)) ** (ITERATIONS * 3)
        return Finding(
            FAILS if rows.where(kind=kind).of("least").max() > 1e-3 else HOLDS,
            f"epsilon' = 0.1: delta {spread(found)}, at any epsilon; 1 - exp(-epsilon') is "
            f"{formula:.4f}. In the 30 releases of a fit (K = 3, J = 10): {run:.2f}",
            "The noise has one side: below the exact statistic lies nothing, and without the "
            "record there does.",
            len(found),
        )

    return {"gamma": one("Gamma"), "wishart": one("Wishart")}


CLAIMS = {
    "fig1": Claim(fig1_cells, fig1_judge, fig1_picture),
    "fig2": Claim(fig2_cells, fig2_judge, fig2_picture),
    "fig3": Claim(fig3_cells, fig3_judge, fig3_picture),
    "fig4": Claim(fig4_cells, fig4_judge, fig4_picture),
    "noise": Claim(noise_cells, noise_judge, noise_picture),
}
