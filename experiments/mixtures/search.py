"""Does it help that private EM looks for groups with more components than are asked for?

    python experiments/mixtures/search.py [--only NAME ...] [--fits 10] [--check]

Each fit with and without it (`searching` in models/gaussian_mixture/start.py), with wide public
bounds, delta = 1e-6, on up to 20,000 records: the mean held-out log-likelihood per record of so
many fits, and the tenth part of them that is worst. The sets in ``FRESH`` (sets.py) had not been
looked at when the method was chosen. Cells whose noise allows no search are left out, since both
fits are the same there. ``--check`` ends with 1 where the mean falls by more than 0.05 nats and two
standard errors.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import math
import sys
import time
import warnings
from unittest import mock

import numpy as np
from sets import FRESH, SETS, load, sizes, split

from privem import GaussianMixture
from privem.models.gaussian_mixture import private_plan

LOOKED_AT = ("gowalla", "life", "flights", "gvhd", "plane")
COMPONENTS, EPSILONS = (3, 8), (1.0, 4.0)


def scores(name: str, k: int, epsilon: float, fits: int, search: bool) -> tuple[list[float], float]:
    """Held-out log-likelihoods of fits of one split each, and the CPU time of one."""
    _, low, high = load(name)
    rule = private_plan.searching if search else lambda components, structure: components
    found, before = [], time.process_time()
    with mock.patch.object(private_plan, "searching", rule):
        for seed in range(fits):
            train, test = split(name, sizes(name)[-1], seed)
            model = GaussianMixture(k, bounds=(low, high), epsilon=epsilon, random_state=seed)
            found.append(float(model.fit(train).score(test)))
    return found, (time.process_time() - before) / fits


def searches(name: str, k: int, epsilon: float) -> bool:
    """Whether the noise allows a search: whether the first iterations ask of more components."""
    _, low, high = load(name)
    train, _ = split(name, sizes(name)[-1], 0)
    model = GaussianMixture(k, bounds=(low, high), epsilon=epsilon).fit(train)
    asked = [r.groups[0].dimension for r in model.privacy_.releases if r.name.startswith("EM ")]
    return bool(asked) and asked[0] > asked[-1]


def main() -> int:
    """Print a line for each cell."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[*LOOKED_AT, *FRESH], metavar="NAME")
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    unknown = {*options.only} - {*SETS, *FRESH}
    if unknown:
        parser.error(f"no data sets: {', '.join(sorted(unknown))}")
    print("| data | columns | K | epsilon | mean | gain | worst tenth, gain | CPU |")
    print("|---|---|---|---|---|---|---|---|")
    worse = 0
    for name, k, epsilon in itertools.product(options.only, COMPONENTS, EPSILONS):
        if not searches(name, k, epsilon):
            continue
        plain, slow = scores(name, k, epsilon, options.fits, search=False)
        found, fast = scores(name, k, epsilon, options.fits, search=True)
        differences = np.array(found) - np.array(plain)
        gain, error = differences.mean(), differences.std(ddof=1) / math.sqrt(options.fits)
        low = float(np.quantile(found, 0.1) - np.quantile(plain, 0.1))
        columns = load(name)[0].shape[1]
        print(
            f"| {name} | {columns} | {k} | {epsilon:g} | {np.mean(found):.2f} | {gain:+.3f} "
            f"({error:.3f}) | {low:+.3f} | {fast / slow:.2f} |",
            flush=True,
        )
        worse += bool(gain < -0.05 - 2 * error)
    print(f"{worse} cells are worse by more than 0.05 nats and two standard errors")
    return int(options.check and worse > 0)


if __name__ == "__main__":
    sys.exit(main())
