"""How many answers each party has given, as far as a server has heard.

A party numbers its answers. Who numbers one lower than before, or gives the same number to another
question, is not the party that answered before: it was restored from a backup, or there are two of
it. That is noticed here, by accident only: whoever means harm can number as they like.
"""

from __future__ import annotations

from pathlib import Path

from ...files import write_secret
from ..errors import OlderState
from ..wire.codec import BadMessage, decode, encode
from ..wire.messages import Request

__all__ = ["Counters"]


class Counters:
    """The last number heard of each party, and of which request.

    Parameters
    ----------
    path : Path, optional
        Where they are kept; by default nowhere, and they last as long as the object.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._last: dict[str, tuple[int, str]] = {}
        if path is not None and path.exists():
            known = decode(path.read_bytes(), own=True)[1]
            self._last = {name: (count, asked) for name, (count, asked) in known.items()}
        self._kept = dict(self._last)

    def hear(self, name: str, request: Request, reply: bytes) -> None:
        """Take note of a party's reply; raises :class:`OlderState` if it cannot be its next.

        What is no reply to the request, such as an old one that was sent again, counts as none.
        """
        try:
            kind, body = decode(reply)
        except BadMessage:
            return
        if not isinstance(body, dict) or kind not in ("reply", "refusal"):
            return
        count = body.get("count")
        if type(count) is not int or body | request.head(name) != body:
            return
        last, before = self._last.get(name, (0, ""))
        asked = f"{request.run} {request.round} {request.step}"
        if count < last or (count == last and kind == "reply" and asked != before):
            raise OlderState(name)
        if kind == "reply":
            self._last[name] = (count, asked)

    def keep(self) -> None:
        """Store them, if they have changed."""
        if self._path is not None and self._last != self._kept:
            write_secret(self._path, encode("counters", self._last))
            self._kept = dict(self._last)
