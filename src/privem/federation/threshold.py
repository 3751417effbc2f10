"""Threshold BFV on OpenFHE: not in this version, and a message that says why."""

from __future__ import annotations

__all__ = ["require"]


def require() -> None:
    """Raise: there is no OpenFHE to run on, or no protocol built on it yet."""
    try:
        import openfhe  # noqa: F401
    except ImportError:
        raise ImportError(
            "protection='threshold' needs OpenFHE, whose wheels import on Python 3.10 and 3.12 "
            "only; use protection='masked', which gives the same guarantee"
        ) from None
    raise NotImplementedError(
        "protection='threshold' is not built in this version; use protection='masked', which "
        "gives the same guarantee"
    )
