"""How many files a reader needs to understand one private fit (docs/all-of-privem.md)."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import privem
from privem import GaussianMixture

MOST = 40


@pytest.mark.parametrize("bounds", [(-10, 10), None], ids=["bounds given", "bounds found"])
def test_a_private_fit_runs_through_few_files(bounds):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(c, 1, (2000, 2)) for c in (-5, 0, 5)])
    home, found = str(Path(privem.__file__).parent), set()

    def fit() -> None:
        GaussianMixture(3, bounds=bounds, random_state=0).fit(X)

    def trace(frame, event, arg):
        name = frame.f_code.co_filename
        if name.startswith(home):
            found.add(name.removeprefix(home))

    fit()  # imports are not part of the walk
    before = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        fit()
    finally:
        sys.settrace(before[0])
        threading.settrace(before[1])
    assert {"/fit.py", "/em.py", "/noise/sampler.py", "/meter.py"} <= found
    assert len(found) <= MOST, "\n".join(sorted(found))
