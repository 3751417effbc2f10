"""A transport over a Flower grid."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ServerAway
from ..flower import MESSAGE_TYPE
from .pace import Pace

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["GridTransport"]

# After how many seconds a message is sent again, at first; then twice as long, up to the other.
_AGAIN, _RARELY = 2.0, 30.0
# After how many seconds a party that has never been there is looked for again.
_LATER = 0.5


class GridTransport:
    """Sends each party's message to its node and collects the replies.

    Flower gives a message to a node once: if the node is killed before it answers, the message is
    lost. So a message that is not answered is sent again, the same bytes; a party that had answered
    says the same, and whatever comes twice or too late is left lying.

    Parameters
    ----------
    grid : Grid
    nodes : mapping of str to bytes
        By party, the public key its node is registered with.
    patience : float
        Seconds after which a party that does not answer has dropped out.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, bytes], patience: float) -> None:
        self._grid, self._patience = grid, patience
        self._names = {key.strip(): name for name, key in nodes.items()}
        self._ids: dict[str, int] = {}
        self._pace = Pace()

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """Replies by party; whoever is silent for too long is missing."""
        import httpx
        from flwr.supercore.run import RunNotRunningException

        try:
            return self._exchange(mail)
        except (httpx.HTTPError, RunNotRunningException) as problem:
            raise ServerAway(f"the server carries no messages any more ({problem})") from None

    def _exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        replies: dict[str, bytes] = {}
        sent: dict[str, str] = {}
        due = dict.fromkeys(mail, 0.0)
        gap = dict.fromkeys(mail, _AGAIN)
        took = 0.0
        end = time.monotonic() + self._patience
        self._pace.begin()
        while (now := time.monotonic()) < end:
            late = {n: mail[n] for n in mail if n not in replies and due[n] <= now}
            for name, number in self._send(late).items():
                if not number:  # not there yet
                    due[name] = now + _LATER
                    continue
                sent[number] = name
                due[name], gap[name] = now + gap[name], min(2 * gap[name], _RARELY)
            self._pace.pause(took)
            begun = time.monotonic()
            came = self._collect(sent)
            took = time.monotonic() - begun
            replies |= came
            if len(replies) == len(mail):
                self._pace.came()
                break
            sent = {number: name for number, name in sent.items() if name not in came}
        return replies

    def _send(self, mail: Mapping[str, bytes]) -> dict[str, str]:
        """Numbers of the messages, by party; none where a party has never been there."""
        from flwr.app import Message

        from .app import content

        found = dict.fromkeys(mail, "")
        here = [name for name in mail if self._node(name) is not None]
        if here:
            out = [Message(content(mail[name]), self._ids[name], MESSAGE_TYPE) for name in here]
            numbers = self._grid.push_messages(out)
            found |= {name: number or "" for name, number in zip(here, numbers, strict=True)}
        return found

    def _node(self, name: str) -> int | None:
        """A party's node: known once it has been there."""
        if name not in self._ids:
            for node in self._grid.get_nodes():
                found = self._names.get(node.public_key.strip())
                if found is not None:
                    self._ids[found] = node.node_id
        return self._ids.get(name)

    def _collect(self, sent: dict[str, str]) -> dict[str, bytes]:
        """What has come; an error of Flower's is no reply, and its message is not asked for."""
        from .app import payload

        found: dict[str, bytes] = {}
        for message in self._grid.pull_messages(list(sent)) if sent else ():
            name = sent.pop(message.metadata.reply_to_message_id, None)
            if name is not None and not message.has_error():
                found[name] = payload(message)
        return found
