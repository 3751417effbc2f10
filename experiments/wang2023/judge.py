"""What holds of each statement, from what the cells found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from reproduction import FAILS, HOLDS, REPAIRED, Finding, Rows, spread

from privem.linalg import Array

# The setting in the middle of all axes.
MIDDLE = {"n": 10_000, "d": 10, "snr": 3.0, "epsilon": 0.5}
# Algorithm 2 as printed and repaired, which verdicts are about; privem's default is another one.
SHOWN = ("as printed", "repaired", "privem")
# "Nearly the same" as EM: at most this many times the error.
NEARLY = 1.5
# "Quite well" from a random start: most data sets end nearer than the near start was.
NEAR, MOST = 0.75, 0.9


def median(rows: Rows) -> float:
    """Of the errors."""
    return float(np.median(rows.of("error")))


def best(rows: Rows, method: str) -> Rows:
    """A method's rows in one setting, with the number of steps that turned out best."""
    return min((found for _, found in rows.where(method=method).groups("steps")), key=median)


def settings(rows: Rows) -> list[Rows]:
    """Rows of final errors, by setting."""
    found: dict[tuple[object, ...], Rows] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("n", "d", "snr", "epsilon", "start"))
        found.setdefault(key, Rows()).append(row)
    return list(found.values())


def ratio(rows: Rows, method: str, other: str) -> Array:
    """Errors of one method over those of another, data set by data set."""
    over, under = best(rows, method), best(rows, other)
    by = {row["repetition"]: row["error"] for row in under}
    return np.array([row["error"] / by[row["repetition"]] for row in over])


def times(values: Array) -> str:
    return f"{spread(values, '.2f')} times"


def range_of(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def figure(rows: Rows) -> dict[str, Finding]:
    """Figures 2 to 4."""
    ends = Rows(row for row in rows if "start" in row)
    near = ends.where(start="near")
    found = {name: _falls(near, name) for name in ("epsilon", "d", "n")}
    found["converges"] = _converges(near)
    found["ahead"] = ahead(near, "settings")
    found["random"] = _random(ends.where(**MIDDLE | {"n": 50_000}))
    return found


def _falls(near: Rows, name: str) -> Finding:
    """Whether Algorithm 2's median falls along an axis (with d: rises), others in the middle."""
    rows = near.where(**{key: value for key, value in MIDDLE.items() if key != name})
    each = {
        value: best(rows.where(**{name: value}), "as printed")
        for value in sorted({r[name] for r in rows})
    }
    medians = [median(found) for found in each.values()]
    steps = np.diff(medians) if name == "d" else -np.diff(medians)
    ours = [median(best(rows.where(**{name: value}), "privem")) for value in each]
    said = ", ".join(spread(found.of("error")) for found in each.values())
    at = ", ".join(f"{value:,}" for value in each)
    return Finding(
        HOLDS if (steps > 0).all() else FAILS,
        f"{said} at {at}; privem {', '.join(f'{value:.3g}' for value in ours)}",
        "Errors of Algorithm 2 with the best of 5, 10 and 20 steps.",
        min(len(found) for found in each.values()),
    )


def _converges(near: Rows) -> Finding:
    """Whether errors are nearly those of EM without privacy."""
    middle = near.where(**MIDDLE)
    theirs, repaired, ours = (ratio(middle, name, "exact EM") for name in SHOWN)
    ranges = [
        range_of([float(np.median(ratio(each, name, "exact EM"))) for each in settings(near)])
        for name in SHOWN
    ]
    verdict = FAILS
    if np.median(theirs) <= NEARLY:
        verdict = HOLDS
    elif np.median(repaired) <= NEARLY:
        verdict = REPAIRED
    return Finding(
        verdict,
        f"the error of EM {times(theirs)}; repaired {times(repaired)}; privem's default "
        f"{times(ours)}",
        f"In the middle setting; up to {NEARLY} counts as nearly the same. Medians of all "
        f"{len(settings(near))} settings: {ranges[0]}; repaired {ranges[1]}; privem's default "
        f"{ranges[2]}. A step of size one replaces the estimate by that of n/T records with "
        "noise, so nothing averages out.",
        len(theirs),
    )


def ahead(rows: Rows, of: str) -> Finding:
    """Whether Algorithm 2 has smaller errors than Algorithm 1, setting by setting."""
    all_of, count, said = settings(rows), {}, {}
    for name in SHOWN:
        ratios = [ratio(each, name, "clipped") for each in all_of]
        count[name] = sum(float(np.median(each)) < 1 for each in ratios)
        said[name] = times(np.concatenate(ratios))
    won = count["as printed"]
    verdict = FAILS
    if won >= MOST * len(all_of):
        verdict = HOLDS
    elif count["repaired"] >= MOST * len(all_of):
        verdict = REPAIRED
    places = [
        label(each) for each in all_of if float(np.median(ratio(each, "as printed", "clipped"))) < 1
    ]
    where = f" Algorithm 2 is ahead at {', '.join(places)}." if 0 < won < len(all_of) else ""
    return Finding(
        verdict,
        f"smaller in {won} of {len(all_of)} {of}: {said['as printed']} the error; repaired in "
        f"{count['repaired']}: {said['repaired']}; privem's default in {count['privem']}: "
        f"{said['privem']}",
        "Of medians; both algorithms have the best of 5, 10 and 20 steps in hindsight." + where,
        min(len(best(each, "as printed")) for each in all_of),
    )


def label(rows: Rows) -> str:
    """What sets a setting apart from the middle."""
    return (
        " ".join(
            f"{'|b*|/sigma' if name == 'snr' else name} = {rows[0][name]:,g}"
            for name, value in MIDDLE.items()
            if rows[0].get(name, value) != value
        )
        or "the middle setting"
    )


def _random(rows: Rows) -> Finding:
    """Whether results from a random start are near."""
    far, clean, ours = (
        best(rows.where(start="random"), method).of("error")
        for method in ("as printed", "exact EM", "privem, nothing given")
    )
    near = best(rows.where(start="near"), "as printed").of("error")
    arrived = int((far < NEAR).sum())
    return Finding(
        HOLDS if arrived >= MOST * len(far) else FAILS,
        f"{spread(far)}; from a near start {spread(near)}; privem with no start {spread(ours)}",
        f"n = 50,000, the other settings in the middle. {arrived} of {len(far)} end within |b|/4, "
        f"where the near start is; EM without privacy comes to {spread(clean)}.",
        len(far),
    )


def fig1(rows: Rows) -> dict[str, Finding]:
    """Clipping thresholds."""
    last = max(row["t"] for row in rows)
    clips = sorted({row["clip"] for row in rows} - {None})
    ends = {
        kind: {clip: found.where(clip=clip, t=last) for clip in clips}
        for kind, found in rows.groups("kind")
    }
    number = min(len(found) for each in ends.values() for found in each.values())

    def said(clip: float) -> str:
        return ", ".join(f"{kind} {spread(each[clip].of('error'))}" for kind, each in ends.items())

    def all_above(*which: float) -> bool:
        return all(median(each[c]) > median(each[1.0]) for each in ends.values() for c in which)

    lowest = {kind: min(each, key=lambda clip: median(each[clip])) for kind, each in ends.items()}
    first = rows.where(clip=1.0, t=0)
    shares = {
        kind: each[1.0].of("error") / first.where(kind=kind).of("error")
        for kind, each in ends.items()
    }
    falls = all(np.median(share) < 0.9 for share in shares.values())
    return {
        "small": Finding(
            HOLDS if all_above(0.1) else FAILS,
            f"C = 0.1: {said(0.1)}; C = 1: {said(1.0)}",
            "Errors after 20 steps.",
            number,
        ),
        "large": Finding(
            HOLDS if all_above(10.0) else FAILS,
            f"C = 5: {said(5.0)}; C = 10: {said(10.0)}",
            "At 10 errors are above those at 1 in all models. With missing covariates (RMC), "
            "clipping at 1 is biased by more than the noise at 5.",
            number,
        ),
        "best": Finding(
            HOLDS if set(lowest.values()) == {1.0} else FAILS,
            ", ".join(f"{kind}: C = {clip:g}" for kind, clip in lowest.items()),
            "The threshold with the lowest median of the four, by model.",
            number,
        ),
        "flat": Finding(
            FAILS if falls else HOLDS,
            "error after 20 steps over that of the start: "
            + ", ".join(f"{kind} {spread(share, '.2f')}" for kind, share in shares.items()),
            "At C = 1 it falls, for some ten steps, and then stays.",
            number,
        ),
    }


def real(rows: Rows) -> dict[str, Finding]:
    """Figure 5."""
    found, start = ahead(rows, "budgets"), median(rows.where(method="start"))
    about = (
        f" The fits start at {start:.3g} from EM's estimate, whose length is "
        f"{rows[0]['length']:.2f} deviations of the noise; n = {rows[0]['n']:,}. What repetitions "
        "vary is start and noise."
    )
    return {"ahead": replace(found, reason=found.reason + about)}


def thm2(rows: Rows) -> dict[str, Finding]:
    """Rates of private means."""
    number = min(len(f) for _, f in rows.where(trust="local", method="privem").groups("n"))

    def rate(trust: str, method: str) -> tuple[float, str]:
        slopes = _slopes(rows.where(trust=trust, method=method, epsilon=1.0))
        low, high = np.quantile(slopes, (0.025, 0.975))
        return float(np.median(slopes)), f"n^{np.median(slopes):.2f} ({low:.2f} to {high:.2f})"

    central, said_central = rate("central", "as printed")
    local, said_local = rate("local", "as printed")
    flat, said_flat = rate("local", "lemma 1")
    low, high = (rows.where(trust="central", n=10_000, epsilon=e) for e in (0.1, 1.0))
    (at_low, gain), (at_high, said_high) = _gain(low), _gain(high)
    how = "Slope of the root mean squared error, with its 95% interval of the bootstrap."
    return {
        "rate": Finding(
            HOLDS if central < -0.45 else FAILS,
            f"{said_central}; privem {rate('central', 'privem')[1]}",
            how,
            number,
        ),
        "epsilon": Finding(
            HOLDS if at_low > 2 * at_high else FAILS,
            f"{gain} times smaller at epsilon 0.1, {said_high} at 1; privem "
            f"{_gain(low, 'privem')[1]} at 0.1",
            "Root mean squared errors, n = 10,000, with 95% intervals of the bootstrap. At 1 only "
            "the constants differ.",
            number,
        ),
        "local": Finding(
            HOLDS if local < -0.2 else FAILS,
            f"{said_local}; privem {rate('local', 'privem')[1]}",
            f"{how} The scale s is Theorem 2's with sqrt(n) for n, as the bound is. Noise falls as "
            "n^-0.25, the bias from this tail as n^-0.375.",
            number,
        ),
        "lemma1": Finding(HOLDS if flat > -0.1 else FAILS, said_flat, how, number),
    }


def _resampled(errors: Array, seed: int) -> Array:
    """Root mean squared errors of 400 samples of the repetitions."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(errors, (400, len(errors)))
    return np.asarray(np.sqrt(np.mean(drawn**2, axis=1)))


def _slopes(rows: Rows) -> Array:
    ns = sorted({row["n"] for row in rows})
    logs = np.log([_resampled(rows.where(n=n).of("error"), n) for n in ns])
    return np.asarray(np.polyfit(np.log(ns), logs, 1)[0])


def _gain(rows: Rows, method: str = "as printed") -> tuple[float, str]:
    """How much smaller errors are than with Lemma 1's scale."""
    over = _resampled(rows.where(method="lemma 1").of("error"), 1)
    gains = over / _resampled(rows.where(method=method).of("error"), 2)
    low, high = np.quantile(gains, (0.025, 0.975))
    return float(np.median(gains)), f"{np.median(gains):.1f} ({low:.1f} to {high:.1f})"


def alg2(rows: Rows) -> dict[str, Finding]:
    """What needs no data."""
    budgets = [row for row in rows if "spent" in row]
    (about,) = [row for row in rows if "forms" in row]
    spends = ", ".join(f"{row['spent']:.3f} of {row['epsilon']:g}" for row in budgets)
    constants = ", ".join(f"{row['constant']:.2f} at {row['epsilon']:g}" for row in budgets)
    return {
        "private": Finding(
            HOLDS if all(row["spent"] <= row["epsilon"] for row in budgets) else FAILS,
            f"spends {spends}",
            "It spends less than it says, with the first form of its noise. The partition and tau "
            "must not depend on the data.",
            None,
        ),
        "forms": Finding(
            HOLDS if abs(about["forms"] - 1) < 1e-9 else FAILS,
            f"the second is {about['forms']:.2f} times the first",
            "With the s of step 1 the second form has beta^4, not beta^2: log(1/zeta) times as "
            "much at zeta = 0.05.",
            None,
        ),
        "bound": Finding(
            HOLDS if about["supremum"] <= about["bound"] else FAILS,
            f"supremum {about['supremum']:.4f} at beta = 1.73",
            "(2 sqrt(2)/3)(2 Phi(sqrt(beta)) - 1): smoothed by multiplication, the bound is lower.",
            None,
        ),
        "closed": Finding(
            HOLDS if about["closed"] <= about["bound"] else REPAIRED,
            f"{about['closed']:.3g} at a = {about['at']:.2g}; above the bound from a = "
            f"{about['right_up_to']:.2g}",
            "Right in exact arithmetic; in floating point its terms cancel, and one record moves "
            "the sum by more than noise is made for. privem uses three stable forms, clamped.",
            None,
        ),
        "constant": Finding(
            HOLDS,
            f"c = {constants}",
            "The least c by exact Gaussian composition, delta = 1e-6.",
            None,
        ),
    }
