"""A message of Flower's in one piece.

Flower cuts a message into three pieces, each pushed and pulled by a request of its own, and a
fourth says that all have come: with three parties, 38 to 42 requests an exchange, at more than four
milliseconds of the SuperLink's processor time each. Its announcement of a message has room for the
content, and the SuperLink passes that on. So ours goes with the announcement, and no pieces follow.

What the SuperLink keeps for pieces that never come (1.3 kB a message, nothing of its content) goes
when the run has ended and the next one starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app import Message

__all__ = ["pack", "unpack"]


def pack(message: Message) -> dict[str, Any]:
    """A message as the fields of a request that pushes it."""
    from flwr.common.serde import message_to_proto
    from flwr.proto.message_pb2 import ObjectTree

    message.metadata.__dict__["_message_id"] = number = message.object_id
    return {
        "messages_list": [message_to_proto(message)],
        "message_object_trees": [ObjectTree(object_id=number)],
    }


def unpack(found: Any) -> list[Message]:
    """Messages in the answer to a request that pulls them."""
    from flwr.common.serde import message_from_proto

    return [message_from_proto(announced) for announced in found.messages_list]
