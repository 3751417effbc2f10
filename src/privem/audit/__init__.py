"""Privacy audits: does a mechanism keep its promise?

A proof says what should happen; an audit looks at what does happen. There are three kinds:

- *Draws*: :func:`audit_release` and :func:`audit_fit` run a release or whole fits on two
  neighbouring data sets (:func:`attacks` makes the worst ones) and look for an event that is
  likelier on one of them than the claim allows. They are sound: a correct mechanism fails with
  probability at most ``alpha``. They are not complete: passing means that nothing was found with
  these data and this number of draws.
- *Structure*: :func:`structure_checks` replays a fit from its releases alone. The result must be
  the same to the bit, so nothing else touched the data. Every released number must be a multiple
  of its grid, have its own noise and be charged.
- *Recount*: :func:`recount` computes a statement's epsilon again, independently of the code that
  calibrated the noise.

Examples
--------
>>> import numpy as np
>>> from privem import KMeans
>>> X = np.linspace(-1, 1, 40)[:, None]
>>> model = KMeans(2, epsilon=1.0, bounds=(-1, 1)).fit(X)
>>> recount(model.privacy_).passed
True
"""

from .battery import self_audit
from .curves import Claim
from .evidence import Evidence, judge
from .fits import FitAudit, Transcript, audit_fit
from .neighbours import Dataset, Pair, attacks
from .noises import check_fork, check_noise, check_residuals
from .recount import Recount, audit_model_file, recount
from .releases import ReleaseAudit, audit_release
from .report import AuditReport, Finding
from .structure import check_charged, check_lattice, check_replay, structure_checks

__all__ = [
    "AuditReport",
    "Claim",
    "Dataset",
    "Evidence",
    "Finding",
    "FitAudit",
    "Pair",
    "Recount",
    "ReleaseAudit",
    "Transcript",
    "attacks",
    "audit_fit",
    "audit_model_file",
    "audit_release",
    "check_charged",
    "check_fork",
    "check_lattice",
    "check_noise",
    "check_replay",
    "check_residuals",
    "judge",
    "recount",
    "self_audit",
    "structure_checks",
]
