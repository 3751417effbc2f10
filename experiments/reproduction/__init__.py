"""What ``privem reproduce`` runs: the figures and tables of the papers, and what really holds.

A paper has a folder beside this one, named by author and year, such as ``experiments/wu2021``:

``expected.json``
    What the paper says: its claims (figures and tables), and of each the statements to be tested,
    with the paper's numbers.
``run.py``
    ``CLAIMS``, which says of each claim what work it is (``Cell``), how the results are judged
    (``Finding``) and drawn; and ``VERSION``, to be raised when cells compute something else.
``printed.py``
    What the paper prints and is not private. It is nowhere else.
``README.md``
    The report. Pictures and verdicts between marks such as ``<!-- fig1 -->`` and ``<!-- end -->``
    are written by ``privem reproduce NAME --publish``.
``results/``
    What the last published run came to: one small JSON file and one picture per claim.

docs/adding-a-paper.md has an example.
"""

from .claims import (
    FAILS,
    HOLDS,
    REPAIRED,
    Cell,
    Claim,
    Finding,
    Paper,
    Rows,
    find_papers,
    grid,
    spread,
)
from .publish import publish
from .runner import Outcome, reproduce

__all__ = [
    "FAILS",
    "HOLDS",
    "REPAIRED",
    "Cell",
    "Claim",
    "Finding",
    "Outcome",
    "Paper",
    "Rows",
    "find_papers",
    "grid",
    "publish",
    "reproduce",
    "spread",
]
