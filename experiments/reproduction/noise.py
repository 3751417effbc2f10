"""Noise from a seed, so that a reproduction comes out the same again. It hides nobody.

For public or made-up records alone. Nothing but numbers leaves a cell. A model that was fitted with
such noise has no statement, and the statements of all else (selections, means, scores) say that it
is no promise. No ledger is charged. Other threads have noise of the operating system, as always.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any
from unittest import mock

import numpy as np

from privem import fit
from privem.meter import Statement

_NO_PROMISE = "from a seed that is no secret: nobody is protected"


@contextmanager
def insecure_seeded_noise(seed: bytes) -> Iterator[None]:
    """All noise inside is from a seed. Private fits get ``spent_`` in place of ``privacy_``."""
    generator, thread, urandom = np.random.default_rng(list(seed)), get_ident(), os.urandom
    fit_privately = fit.fit_privately

    def seeded(size: int) -> bytes:
        return generator.bytes(size) if get_ident() == thread else urandom(size)

    def without_statement(estimator: Any, table: Any) -> None:
        fit_privately(estimator, table)
        estimator.spent_ = vars(estimator).pop("privacy_").spent

    of = Statement.of

    def no_promise(*args: Any, **more: Any) -> Statement:
        statement = of(*args, **more)
        statement.public["noise"] = _NO_PROMISE
        return statement

    state = np.random.get_state()  # noqa: NPY002
    # Of whatever is given no random_state.
    np.random.seed(generator.integers(2**32))  # noqa: NPY002
    try:
        with (
            mock.patch("os.urandom", seeded),
            mock.patch.object(fit, "ledger_of", return_value=None),
            mock.patch.object(fit, "fit_privately", without_statement),
            mock.patch.object(Statement, "of", no_promise),
        ):
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
