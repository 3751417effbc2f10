"""Noise from a seed, so that a reproduction comes out the same again. It hides nobody.

For public or made-up records alone. Nothing but numbers leaves a cell, and a model that was fitted
with such noise has no statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from privem import fit


@contextmanager
def insecure_seeded_noise(seed: bytes) -> Iterator[None]:
    """All noise inside is from a seed. Private fits get ``spent_`` in place of ``privacy_``."""
    generator = np.random.default_rng(list(seed))
    fit_privately = fit.fit_privately

    def without_statement(estimator: Any, table: Any) -> None:
        fit_privately(estimator, table)
        estimator.spent_ = vars(estimator).pop("privacy_").spent

    state = np.random.get_state()  # noqa: NPY002
    # Of whatever is given no random_state.
    np.random.seed(generator.integers(2**32))  # noqa: NPY002
    try:
        with (
            mock.patch("os.urandom", generator.bytes),
            mock.patch.object(fit, "fit_privately", without_statement),
        ):
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
