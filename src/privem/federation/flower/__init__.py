"""Parties in processes and on machines of their own: Flower carries the messages.

A :class:`~privem.federation.Party` answers inside a Flower ``ClientApp``, at a node that takes part
in Flower's Fleet API with TLS and a registered key (:mod:`.node`). The fit runs inside a
``ServerApp`` (:mod:`.driver`) and reaches the parties through a Flower ``Grid``
(:mod:`.transport`). In between is an ordinary SuperLink (:mod:`.superlink`). Nothing here knows
what the bytes mean. Guide: ``docs/federation.md``.

A node of privem differs from a stock SuperNode in two respects. A SuperNode runs whatever app the
server ships, beside the party's rows; a node of privem runs the privem that its owner installed and
never fetches code. A SuperNode asks for messages every three seconds, although a round has up to
five exchanges; a node of privem asks as often as messages come.
"""

from __future__ import annotations

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
