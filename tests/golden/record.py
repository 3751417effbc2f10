"""Make golden recordings.

From the root of the checkout whose fits are to be kept::

    PYTHONPATH=src python -m tests.golden.record               # those that are missing
    PYTHONPATH=src python -m tests.golden.record --all         # all of them, afresh
    PYTHONPATH=src python -m tests.golden.record KMeans-gg     # these, afresh

A recording says what privem did before a change. Replace one only where a method was changed on
purpose, and give the reason in the commit. How they are used: ``test_golden.py``.
"""

import sys

from .cases import CASES
from .recording import FOLDER, record, write


def main(names: list[str]) -> None:
    if names == ["--all"]:
        names = [case.name for case in CASES]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no such cases: {', '.join(sorted(unknown))}")
    for case in CASES:
        if case.name in names or not (names or (FOLDER / f"{case.name}.npz").exists()):
            stages, found = record(case)
            write(case, stages, found)
            print(f"{case.name}: {len(stages)} releases")


if __name__ == "__main__":
    main(sys.argv[1:])
