"""How many files a reader needs to understand one private fit (docs/all-of-privem.md)."""

import re
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
home, calls = str(Path(privem.__file__).parent), {{}}

def fit():
    privem.GaussianMixture(3, bounds={bounds}, random_state=0).fit(X)

def trace(frame, event, arg):
    code = frame.f_code
    if code.co_filename.startswith(home):
        calls[code.co_filename.removeprefix(home), code.co_qualname] = None

fit()  # imports are not part of the walk
threading.settrace(trace)
sys.settrace(trace)
fit()
sys.settrace(None)
for file, name in calls:
    print(file, name)
"""


def walked(bounds):
    """The file and the name of every function that a private fit calls, in the order of calls."""
    code = CODE.format(bounds=bounds)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [line.split() for line in run.stdout.splitlines()]


@pytest.mark.parametrize("bounds", ["(-10, 10)", "None"])
def test_a_private_fit_runs_through_few_files(bounds):
    found = {file for file, _ in walked(bounds)}
    assert {"/fit.py", "/em.py", "/noise/sampler.py", "/meter.py"} <= found
    assert len(found) <= MOST, sorted(found)


def test_the_walk_of_the_docs_is_that_of_a_fit(root):
    """At most eight steps, and each is a function that a fit comes to after the one before."""
    text = (root / "docs" / "all-of-privem.md").read_text("utf-8")
    walk = text.partition("## From `fit` to a model file")[2].partition("\nAn exact fit ")[0]
    steps = re.findall(r"^\d\. \*\*(.+?)\*\*", walk, re.MULTILINE)
    assert "eight steps" in walk
    assert len(steps) == 8
    named = [step.strip("`") for step in steps if step.startswith("`")]
    assert len(named) == 7  # the other one is the plan, which is made of generators
    calls = [
        file.removesuffix(".py").replace("/", ".") + f".{name}"
        for file, name in walked("(-10, 10)")
    ]
    found = [next(at for at, call in enumerate(calls) if call.endswith(f".{n}")) for n in named]
    assert found == sorted(found)
