"""How many files a reader needs to understand one private fit (docs/all-of-privem.md)."""

import subprocess
import sys

import pytest

MOST = 40
# In a process of its own: other tests register other kinds of rows, which every fit then asks.
CODE = """
import sys, threading
from pathlib import Path
import numpy as np
import privem

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(c, 1, (2000, 2)) for c in (-5, 0, 5)])
home, found = str(Path(privem.__file__).parent), set()

def fit():
    privem.GaussianMixture(3, bounds={bounds}, random_state=0).fit(X)

def trace(frame, event, arg):
    if frame.f_code.co_filename.startswith(home):
        found.add(frame.f_code.co_filename.removeprefix(home))

fit()  # imports are not part of the walk
threading.settrace(trace)
sys.settrace(trace)
fit()
sys.settrace(None)
print(*sorted(found), sep="\\n")
"""


@pytest.mark.parametrize("bounds", ["(-10, 10)", "None"])
def test_a_private_fit_runs_through_few_files(bounds):
    code = CODE.format(bounds=bounds)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = run.stdout.split()
    assert {"/fit.py", "/em.py", "/noise/sampler.py", "/meter.py"} <= set(found)
    assert len(found) <= MOST, run.stdout
