"""What a server writes down, so that a run goes on after the server was killed.

Given the replies, everything a server and a plan do is determined. So it is enough to keep the
opened sum of each finished round, and the replies of each exchange of the current round. A fit that
is started again with the same journal and the same parameters (``random_state`` too) makes the same
requests, bit by bit. Finished rounds are answered from the journal. The exchange that was
interrupted is sent again, and a party that had answered gives the same answer. An exchange that too
few parties answered is forgotten and sent again too: the round stays the same sum (a party that has
opened its shares takes part in no other).

``rounds``: what was opened, appended once per round. ``state-N``: what the server keeps after N
rounds; only the last is there. ``current``: replies of the current round, emptied when it is over.
``counters``: how many answers each party has given (:class:`Counters`). Entries carry their
length and a checksum; a torn last entry is dropped. They hold nothing but what the server sees
anyway, and its own key of a masked run.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...files import append_secret, write_secret
from ..errors import FederationError, OlderState
from ..protections import Mail, Opened
from ..wire.codec import BadMessage, decode, encode
from ..wire.messages import Request


class Counters:
    """How many answers each party has given, as far as the server has heard, and the last request.

    A party numbers its answers. A lower number than before, or the same number for another request,
    means that a party was restored from a backup or that two processes answer in its name. This
    finds accidents only: whoever means harm can number as they like.

    Parameters
    ----------
    path : Path, optional
        Where they are kept; by default nowhere, and they last as long as the object.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._last: dict[str, tuple[int, str]] = {}
        if path is not None and path.exists():
            self._last = decode(path.read_bytes(), own=True)[1]
        self._kept = dict(self._last)

    def hear(self, name: str, request: Request, reply: bytes) -> None:
        """Record the number of a party's reply; raises :class:`OlderState` if it is too low.

        Anything but a reply to the request, such as an old reply sent again, is ignored.
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


class Journal:
    """The journal of one run, in a folder.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    counters : path-like, optional
        The file in which the server keeps, for all its runs, how many answers each party has
        given; one of the run's own by default.

    Examples
    --------
    >>> import tempfile
    >>> journal = Journal(tempfile.mkdtemp())
    >>> journal.rounds  # that are finished
    0
    """

    def __init__(
        self, folder: str | os.PathLike[str], counters: str | os.PathLike[str] | None = None
    ) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        entries = self._load("rounds")
        if not entries:
            entries = [("run", {"run": uuid.uuid4().hex})]
            self._append("rounds", *entries[0])
        self.counters = Counters(self._folder / "counters" if counters is None else Path(counters))
        self.run: str = entries[0][1]["run"]
        self.began: dict[str, Any] | None = next(
            (b for kind, b in entries if kind == "began"), None
        )
        self._rounds = [body for kind, body in entries if kind == "round"]
        self._replies = {body["mail"]: body["replies"] for _, body in self._load("current")}

    @property
    def rounds(self) -> int:
        """How many rounds are finished."""
        return len(self._rounds)

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Keep what was learnt when the run was opened."""
        self.began = dict(facts)
        self._append("rounds", "began", self.began)

    def finished(self, number: int, question: bytes) -> Opened | None:
        """What a round opened; ``None`` if it has not ended."""
        if number > len(self._rounds):
            return None
        body = self._rounds[number - 1]
        if body["question"] != hashlib.sha256(question).digest():
            raise FederationError(
                f"the journal is of another fit: round {number} asked something else; use the "
                "same parameters and random_state, or a new folder"
            )
        return Opened(body["numbers"], body["parties"], body["refused"])

    def state(self) -> bytes:
        """The server's state after the last finished round."""
        path = self._state_file(len(self._rounds))
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise FederationError(
                f"the journal has no {path.name}: part of it is gone, or it is of another version; "
                "begin a new fit in a new folder"
            ) from None

    def _state_file(self, number: int) -> Path:
        return self._folder / f"state-{number}"

    def finish(self, question: bytes, opened: Opened, state: bytes) -> None:
        """Keep what a round opened; its exchanges are over."""
        body = {
            "question": hashlib.sha256(question).digest(),
            "numbers": opened.numbers,
            "parties": opened.parties,
            "refused": opened.refused,
        }
        # The state is there before the round is over, and the one before until it is.
        number = len(self._rounds) + 1
        write_secret(self._state_file(number), state)
        self._append("rounds", "round", body)
        self._rounds.append(body)
        self._replies = {}
        (self._folder / "current").write_bytes(b"")
        self._state_file(number - 1).unlink(missing_ok=True)

    def fail(self) -> None:
        """Too few answered: forget the last exchange, so that it is sent again, byte for byte."""
        if not self._replies:
            return
        mail, replies = self._replies.popitem()
        path = self._folder / "current"
        with open(path, "r+b") as file:
            entry = _entry("exchange", {"mail": mail, "replies": replies})
            file.truncate(path.stat().st_size - len(entry))
            os.fsync(file.fileno())

    def replies(self, mail: Mail) -> Mail | None:
        """The replies to this very mail, if it was answered before."""
        return self._replies.get(_digest(mail))

    def keep(self, mail: Mail, replies: Mail) -> None:
        """Keep the replies to some mail."""
        digest = _digest(mail)
        self._append("current", "exchange", {"mail": digest, "replies": replies})
        self._replies[digest] = replies

    def _append(self, name: str, kind: str, body: Mapping[str, Any]) -> None:
        append_secret(self._folder / name, _entry(kind, body))

    def _load(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        path = self._folder / name
        raw = path.read_bytes() if path.exists() else b""
        found, at = [], 0
        while at + 40 <= len(raw):
            size = int.from_bytes(raw[at : at + 8], "little")
            entry = raw[at + 40 : at + 40 + size]
            if len(entry) < size or hashlib.sha256(entry).digest() != raw[at + 8 : at + 40]:
                break
            found.append(decode(entry, own=True))
            at += 40 + size
        if at < len(raw):  # a torn end: what was being written when the server was killed
            with open(path, "r+b") as file:
                file.truncate(at)
        return found


def _entry(kind: str, body: Mapping[str, Any]) -> bytes:
    entry = encode(kind, body)
    return len(entry).to_bytes(8, "little") + hashlib.sha256(entry).digest() + entry


def _digest(mail: Mail) -> bytes:
    return hashlib.sha256(encode("mail", mail)).digest()
