"""What a party remembers between messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Memory"]


@dataclass(frozen=True)
class Memory:
    """What a party remembers of the run it is in."""

    run: str = ""
    plan: str = ""
    failure: float = 0.0
    round: int = 0
    step: int = 0
    private: bool | None = None
    question: bytes = b""
    numbers: Any = None
    """What the party said in this round: noise is drawn once, however often it is asked for."""
    cells: bytes = b""
    """Where records draw their cells from in this run; secret."""
    partition: int = 0
    """Into how many cells; 0 until the first question about one."""
    runs: tuple[str, ...] = ()
    """Those in which it said something, and this one: none of them is begun again."""
    last: bytes = b""
    """Digest of the last request, and the reply to it."""
    last_reply: bytes = b""
