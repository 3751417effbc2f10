"""The figures of Wu 2021 with methods that are private, and what the printed one gives away.

cells.py does the work, printed.py has the paper's own algorithm.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from reproduction import FAILS, HOLDS, REPAIRED, Cell, Claim, Finding, Rows, grid, spread
from reproduction.pictures import LOOKS, legend, line, logarithmic, panels
from scipy.stats import mannwhitneyu, wilcoxon

from privem.kernels.robust import TOP

from . import printed
from .calculations import priced, truncated, variance_ratio
from .cells import CLIPS, SNR, STEPS, attack, errors, noises, thresholds

VERSION = 1
Base = dict[str, Any]
LOW: Base = {"n": 2_000, "d": 10, "epsilon": 0.5}
HIGH: Base = {"n": 2_000, "d": 100, "epsilon": 0.5}
EPSILONS, RECORDS = [0.5, 0.8, 1.0], [2_000, 5_000, 10_000]
VARIED_LOW: Base = {"epsilon": EPSILONS, "d": [5, 10, 20], "n": RECORDS}
VARIED_HIGH: Base = {"epsilon": EPSILONS, "d": [40, 80, 160], "n": RECORDS}
# In pictures: what a method is called, and its look.
NAMES = {
    "as printed": ("DG-EM as printed: not private", "as printed"),
    "lattice": ("DG-EM on a lattice", "other"),
    "repaired": ("robust gradients of privem", "repaired"),
    "clipped": ("clipped, C = 2", "clipped"),
    "privem": ("privem's default", "privem"),
    "exact EM": ("gradient EM, exact", "exact EM"),
    "algorithm 2": ("Wang et al. 2023, Algorithm 2", "another"),
}
AXES = {"epsilon": "epsilon", "d": "dimension d", "n": "records n", "steps": "iterations T"}
CURVES = ("privem", "as printed", "clipped", "repaired", "other")
SURE = 0.01  # p-value below which two sets of errors differ


def repetitions(quick: bool, full: int = 20) -> range:
    return range(5 if quick else full)


def best(rows: Rows) -> Rows:
    """Rows of the number of iterations that is best by the median, in hindsight."""
    return min((g for _, g in rows.groups("steps")), key=lambda g: float(np.median(g.of("error"))))


def below(lower: Rows, upper: Rows) -> bool:
    """Whether errors are surely smaller."""
    test = mannwhitneyu(lower.of("error"), upper.of("error"), alternative="less")
    return bool(test.pvalue < SURE)


def said(rows: Rows) -> str:
    return f"{spread(rows.of('error'), '.2g')} at T = {rows[0]['steps']}"


# Figure 1


def fig1_cells(quick: bool) -> list[Cell]:
    return grid(thresholds, n=1_000, d=20, epsilon=[0.2, 0.5, 1.0], repetition=repetitions(quick))


def fig1_judge(rows: Rows) -> dict[str, Finding]:
    falls, chosen, holds = [], [], True
    for epsilon, group in rows.groups("epsilon"):
        ends = {clip: best(each) for clip, each in group.groups("clip")}
        clip = min(ends, key=lambda c: float(np.median(ends[c].of("error"))))
        end, start = ends[clip], group.where(clip=clip, steps=1)
        holds &= below(end, start)
        falls.append(f"epsilon {epsilon:g}: {said(start)}, {said(end)}")
        # Thresholds that cannot be told from the best one.
        near = [c for c, each in ends.items() if not below(end, each)]
        chosen.append((clip, near))
    found = ", ".join(f"{clip:g}" for clip, _ in chosen)
    ties = "; ".join(" or ".join(f"{c:g}" for c in near) for _, near in chosen)
    same = [clip for clip, _ in chosen] == [1, 2, 2]
    within = all(clip in near for clip, (_, near) in zip([1, 2, 2], chosen, strict=True))
    count = len({row["repetition"] for row in rows})
    return {
        "falls": Finding(
            HOLDS if holds else FAILS,
            "; ".join(falls),
            "With the best C. More iterations than these add more noise than they gain.",
            count,
        ),
        "best": Finding(
            HOLDS if same or within else FAILS,
            f"C = {found}, each with its best T",
            f"Not to be told apart from the best: C = {ties}. The paper's are "
            f"{'among them' if within else 'not all among them'}. A larger C needs fewer "
            "iterations, and the best one is as hard to find as the paper says.",
            count,
        ),
    }


def fig1_picture(rows: Rows) -> Any:
    groups = list(rows.groups("epsilon"))
    figure, axes = panels([f"epsilon {epsilon:g}" for epsilon, _ in groups], sharey=True)
    for each, (_, group) in zip(axes, groups, strict=True):
        for look, clip in zip(CURVES, CLIPS, strict=True):
            line(each, group.where(clip=clip), "steps", "error", f"C = {clip:g}", look)
        each.set(xlabel=AXES["steps"], ylabel="distance from theta", xticks=[1, 5, 10, 15])
        logarithmic(each)
    legend(figure, axes)
    return figure


# Figures 2 and 3


def figure_cells(base: Base, varied: Base, more: list[Base], full: int, quick: bool) -> list[Cell]:
    """One thing varied at a time."""
    settings = [{**base, name: value} for name, values in varied.items() for value in values]
    return [
        cell
        for setting in [*settings, *more]
        for cell in grid(errors, **setting, repetition=repetitions(quick, full))
    ]


def varied(rows: Rows, base: Base, name: str, values: list[Any], method: str) -> list[Rows]:
    """A method's errors, with its best T, for each value of what is varied."""
    return [best(rows.where(**{**base, name: value}, method=method)) for value in values]


def falling(rows: Rows, base: Base, name: str, values: list[Any]) -> Finding:
    """Whether errors fall from the first value to the last."""
    ends = {m: varied(rows, base, name, values, m) for m in ("as printed", "lattice", "repaired")}
    verdicts = {m: below(each[-1], each[0]) for m, each in ends.items()}
    ours = "; ".join(
        f"{NAMES[m][0]}: {spread(each[0].of('error'), '.2g')} at {name} {values[0]:,}, "
        f"{spread(each[-1].of('error'), '.2g')} at {values[-1]:,}"
        for m, each in ends.items()
        if m != "as printed"
    )
    repaired = verdicts["repaired"] or verdicts["lattice"]
    sure = [NAMES[m][0] for m, each in verdicts.items() if each]
    reason = (
        f"With the best T in hindsight. Significant (Mann-Whitney, p below {SURE:g}) for "
        f"{', '.join(sure) or 'none of the versions'}."
    )
    return Finding(REPAIRED if repaired else FAILS, ours, reason, len(ends["repaired"][0]))


def wins(rows: Rows, base: Base, settings: list[Base], rival: str) -> dict[str, int]:
    """In how many settings each version of DG-EM is surely better, both with their best T."""
    found = {"as printed": 0, "lattice": 0, "repaired": 0}
    for setting in settings:
        at = rows.where(**{**base, **setting})
        theirs = best(at.where(method=rival))
        for method in found:
            found[method] += below(best(at.where(method=method)), theirs)
    return found


def counted(found: dict[str, int]) -> str:
    return ", ".join(f"{NAMES[method][0]} in {count}" for method, count in found.items())


def against(
    rows: Rows, base: Base, settings: list[Base], rival: str, beside: tuple[str, ...], why: str
) -> Finding:
    """Whether any version of DG-EM is better than a rival, each with its best T."""
    found, at = wins(rows, base, settings, rival), rows.where(**base)
    shown = [
        f"{NAMES[m][0]} {spread(best(at.where(method=m)).of('error'), '.2g')}"
        for m in (rival, "repaired", "lattice", "as printed", *beside)
    ]
    private = max(found["lattice"], found["repaired"])
    verdict = REPAIRED if private == len(settings) else FAILS
    reason = (
        f"Best T in hindsight. Significantly better (Mann-Whitney, p below {SURE:g}), of "
        f"{len(settings)} settings: {counted(found)}. {why}"
    )
    return Finding(verdict, "; ".join(shown), reason, len(best(at.where(method=rival))))


def unstable(rows: Rows) -> Finding:
    """Whether the error at the smallest budget is large, and does not fall with iterations."""
    at = rows.where(**LOW)
    ends = {
        m: [at.where(method=m, steps=steps) for steps in (STEPS[0], STEPS[-1])]
        for m in ("as printed", "lattice")
    }
    falls = any(below(last, first) for first, last in ends.values())
    ours = "; ".join(
        f"{NAMES[m][0]}: {said(first)}, {said(last)}" for m, (first, last) in ends.items()
    )
    reason = "epsilon 0.5: with more iterations the noise of each grows, and errors with it."
    return Finding(FAILS if falls else HOLDS, ours, reason, len(ends["lattice"][0]))


def settings_of(values: Base) -> list[Base]:
    return [{name: value} for name, each in values.items() for value in each]


def fig2_judge(rows: Rows) -> dict[str, Finding]:
    return {
        "epsilon": falling(rows, LOW, "epsilon", EPSILONS),
        "n": falling(rows, LOW, "n", RECORDS),
        "d": falling(rows, LOW, "d", VARIED_LOW["d"][::-1]),
        "unstable": unstable(rows),
        "clipped": against(
            rows,
            LOW,
            settings_of(VARIED_LOW),
            "clipped",
            ("privem",),
            "Coordinates that are bounded one by one need sqrt(d) times the noise of a clipped "
            "vector.",
        ),
    }


def fig3_judge(rows: Rows) -> dict[str, Finding]:
    many = rows.where(**{**HIGH, "n": RECORDS[-1]})
    first = many.where(method="repaired", steps=1)
    last, end = best(many.where(method="repaired")), many.where(method="repaired", steps=STEPS[-1])
    plain = many.where(method="as printed")
    printed_falls = below(best(plain), plain.where(steps=1))
    versions = ("as printed", "lattice", "repaired")
    low, high = (rows.where(n=RECORDS[-1], d=d, epsilon=0.5) for d in (LOW["d"], HIGH["d"]))
    ends = {m: [best(at.where(method=m)).of("error") for at in (low, high)] for m in versions}
    exact = [float(np.median(best(at.where(method="exact EM")).of("error"))) for at in (low, high)]
    ours = "; ".join(
        f"{NAMES[m][0]}: {spread(few / exact[0], '.3g')} times the error of exact EM at d = 10, "
        f"{spread(much / exact[1], '.3g')} times at d = 100"
        for m, (few, much) in ends.items()
    )
    # As near to exact EM as in low dimension, and nearer to the truth than an estimate of zero.
    as_good = {
        m: np.median(much) / exact[1] < 1.25 * np.median(few) / exact[0] and np.median(much) < SNR
        for m, (few, much) in ends.items()
    }
    return {
        "n": Finding(
            REPAIRED if below(last, first) else FAILS,
            f"n = 10,000: {said(first)}, {said(last)}, {said(end)}",
            "For privem's robust gradients: it falls, and then rises with the noise. The printed "
            f"version {'falls' if printed_falls else 'only rises'}: {said(plain.where(steps=1))}, "
            f"{said(plain.where(steps=STEPS[-1]))}.",
            len(first),
        ),
        "high": Finding(
            HOLDS
            if as_good["as printed"]
            else REPAIRED
            if as_good["lattice"] or as_good["repaired"]
            else FAILS,
            ours,
            "n = 10,000, epsilon 0.5, best T in hindsight. At d = 100 the errors are "
            + ", ".join(f"{np.median(much):.2g}" for _, much in ends.values())
            + f" (medians); that of an estimate of zero is {SNR:g}. The noise of all d coordinates "
            "together grows with d, as its size and their number both grow with sqrt(d).",
            len(first),
        ),
        "wang": against(
            rows,
            HIGH,
            settings_of(VARIED_HIGH),
            "algorithm 2",
            ("clipped", "privem"),
            "Better than clipping: "
            f"{counted(wins(rows, HIGH, settings_of(VARIED_HIGH), 'clipped'))}. Algorithm 2 uses "
            "each record in one step of T.",
        ),
    }


def figure_picture(base: Base, values: Base, rows: Rows) -> Any:
    words = {
        "n": f"n = {base['n']:,}",
        "d": f"d = {base['d']}",
        "epsilon": f"epsilon {base['epsilon']}",
    }
    titles = [", ".join(text for k, text in words.items() if k != name) for name in values]
    figure, axes = panels([*titles, ", ".join(words.values())])
    for method, (label, look) in NAMES.items():
        for each, (name, at) in zip(axes, values.items(), strict=False):
            points = Rows(row for group in varied(rows, base, name, at, method) for row in group)
            line(each, points, name, "error", label, look)
            each.set(xlabel=AXES[name], ylabel="distance, best T", xticks=at)
        line(axes[-1], rows.where(**base, method=method), "steps", "error", label, look)
        axes[-1].set(xlabel=AXES["steps"], ylabel="distance from theta", xticks=[1, 5, 10, 15])
    for each in axes:
        logarithmic(each)
    legend(figure, axes, 2)
    return figure


# What is wrong with the printed version


def leak_judge(rows: Rows) -> dict[str, Finding]:
    plain, lattice = (rows.where(method=m) for m in ("as printed", "lattice"))
    shown = [
        f"{name}: the record found with relative error {spread(each.of('error'), '.1g')}, told "
        f"from another in {each.of('right').mean():.0%} of cases"
        for name, each in (("printed", plain), ("on a lattice", lattice))
    ]
    private = plain.of("right").mean() < 0.75 and np.median(plain.of("error")) > 1
    reason = (
        "Integers on real numbers leave the fractional parts as they are: whoever knows the other "
        f"records reads this one off the first of ten releases, with noise of deviation "
        f"{plain[0]['deviation']:.2g}. Rounding to a lattice first takes that away."
    )
    return {"private": Finding(HOLDS if private else FAILS, "; ".join(shown), reason, len(plain))}


def leak_picture(rows: Rows) -> Any:
    figure, axes = panels(["as printed", "on a lattice"])
    for each, method, look in zip(
        axes, ("as printed", "lattice"), ("as printed", "other"), strict=True
    ):
        powers = np.log10(rows.where(method=method).of("error"))
        each.hist(powers, bins=np.arange(-14, 5, 0.5), color=LOOKS[look][0])
        each.axvline(0, color="black", linestyle=":")
        each.set(
            xlabel="log10 of the relative error",
            ylabel=f"attempts, of {len(powers)}",
            ylim=(0, None),
        )
        each.annotate(
            "no idea ", (0, 0.92), xycoords=("data", "axes fraction"), ha="right", fontsize=12
        )
    return figure


def noise_judge(rows: Rows) -> dict[str, Finding]:
    ratio = np.log(rows.of("discrete") / rows.of("continuous"))
    mean, deviation = float(ratio.mean()), float(ratio.std(ddof=1) / math.sqrt(len(ratio)))
    smaller = wilcoxon(ratio, alternative="less").pvalue < SURE
    variances = "; ".join(f"{1 - variance_ratio(s):.1g} at sigma {s:g}" for s in (0.3, 0.5, 1.0))
    return {
        "variance": Finding(
            HOLDS,
            f"smaller by this part of sigma^2: {variances}",
            "True, and no gain: from sigma 1 on the two are the same to seven digits, and below "
            "0.3 the noise is zero almost always, which protects nobody.",
            None,
        ),
        "error": Finding(
            HOLDS if smaller else FAILS,
            f"discrete {spread(rows.of('discrete'))}, continuous {spread(rows.of('continuous'))}; "
            f"ratio {math.exp(mean):.2f}, within a factor of {math.exp(2 * deviation):.2f}",
            "With the noise that the promise needs, no difference is to be seen.",
            len(rows),
        ),
    }


def budget_judge(rows: Rows) -> dict[str, Finding]:
    costs, deltas = rows.where(what="budget"), rows.where(what="tails")
    argued = ", ".join(f"{value:.2f}" for value in costs.of("argued"))
    exact = ", ".join(f"{value:.3f}" for value in costs.of("exact"))
    ratios = deltas.of("true") / deltas.of("said")
    kept = bool(np.all(costs.of("argued") <= costs.of("epsilon")))
    return {
        "sigma": Finding(
            HOLDS if kept else FAILS,
            f"{argued} by the paper's argument; {exact} by exact accounting",
            "The constant is 16, not 8: sigma^2 is half of what concentrated differential privacy "
            "asks for. Exact accounting makes up for most of it, were the noise on a lattice.",
            None,
        ),
        "delta": Finding(
            HOLDS if ratios.max() <= 1 else FAILS,
            f"the true delta is {ratios.min():.2g} to {ratios.max():.2g} times as large",
            "It is Pr(Y > epsilon sigma^2/D - D/2) - e^epsilon Pr(Y > epsilon sigma^2/D + D/2), "
            "for one coordinate and one release (sigma 1, 3, 10; epsilon 0.5, 0.8, 1).",
            None,
        ),
    }


def budget_cells(quick: bool) -> list[Cell]:
    costs = grid(priced, what="budget", epsilon=EPSILONS, sigma=0.0)
    return costs + grid(priced, what="tails", epsilon=EPSILONS, sigma=[1.0, 3.0, 10.0])


def eq14_judge(rows: Rows) -> dict[str, Finding]:
    most = np.abs(rows.of("printed")).max()
    off = np.abs(rows.of("right") - rows.of("integral")).max()
    reason = (
        "T3 is proportional to E+ - E-, and T4 has V+ E+ + V- E-. With these signs the formula is "
        f"the integral to {off:.0e}."
    )
    ours = f"up to {most:.3g} (a below 10, beta = log(d/gamma), d = 10)"
    return {"bounded": Finding(HOLDS if most <= TOP else FAILS, ours, reason, None)}


def eq14_picture(rows: Rows) -> Any:
    figure, (axes,) = panels(["the mean of h(a (1 + o)), beta = 5.3"])
    for name, label, look in (
        ("printed", "equation 14 as printed", "as printed"),
        ("right", "signs of T3 and T4 mended", "repaired"),
        ("integral", "the integral", "exact EM"),
    ):
        line(axes, rows.where(), "a", name, label, look, markevery=45)
    axes.axhline(TOP, color="#7a7a7a", linewidth=1)
    axes.set(xlabel="a", ylabel="mean", xlim=(0, 10), ylim=(0, 3.5))
    axes.legend(loc="upper left")
    return figure


CLAIMS = {
    "fig1": Claim(fig1_cells, fig1_judge, fig1_picture),
    "fig2": Claim(
        partial(figure_cells, LOW, VARIED_LOW, [], 20),
        fig2_judge,
        partial(figure_picture, LOW, VARIED_LOW),
    ),
    "fig3": Claim(
        partial(figure_cells, HIGH, VARIED_HIGH, [{**LOW, "n": RECORDS[-1]}], 12),
        fig3_judge,
        partial(figure_picture, HIGH, VARIED_HIGH),
    ),
    "leak": Claim(
        lambda quick: grid(attack, **LOW, steps=10, repetition=repetitions(quick, 200)),
        leak_judge,
        leak_picture,
    ),
    "noise": Claim(
        lambda quick: grid(
            noises, n=10_000, d=10, epsilon=0.5, steps=5, repetition=repetitions(quick, 100)
        ),
        noise_judge,
    ),
    "budget": Claim(budget_cells, budget_judge),
    "eq14": Claim(
        lambda quick: grid(truncated, beta=math.log(10 / printed.GAMMA)), eq14_judge, eq14_picture
    ),
}
