"""Parties in processes and on machines of their own: Flower carries the messages.

A :class:`~privem.federation.Party` answers inside a Flower ``ClientApp`` (:mod:`.app`), at a node
that takes part in Flower's Fleet API with TLS and a registered key (:mod:`.node`); the fit runs
inside a ``ServerApp`` and reaches the parties through a Flower ``Grid`` (:mod:`.grid`,
:mod:`.driver`); in between is an ordinary SuperLink (:mod:`.link`). Nothing here knows what the
bytes mean. Guide: ``docs/federation.md``.

What a stock SuperNode does is done otherwise in two respects. It runs whatever app the server
ships, beside the party's rows: a node of privem runs the privem that its owner installed and never
fetches code. And it asks for messages every three seconds, whereas a round has up to five
exchanges: a node of privem asks as often as messages come.
"""

from __future__ import annotations

__all__ = ["MESSAGE_TYPE", "require"]

MESSAGE_TYPE = "query.privem"


def require() -> None:
    """Raise if the extra is not installed; see to it that Flower itself reports nothing home."""
    import os

    # Read when flwr is imported: usage statistics, and a question whether there is a new version.
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("FLWR_LOG_LEVEL", "ERROR")
    try:
        import cryptography  # noqa: F401
        import flwr  # noqa: F401
    except ImportError:
        raise ImportError("deployment needs Flower: pip install 'privem[flower]'") from None
