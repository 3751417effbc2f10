"""Taking a message from a SuperLink, piece by piece.

Flower announces a message before all its pieces have arrived, and by default looks again for a
missing one after a second; here, after some milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from flwr.app import Message

__all__ = ["take"]

_SOON, _LATER, _GIVE_UP = 0.02, 0.5, 30.0


def take(client: Any, node: Any, run: int, tree: Any) -> Message | None:
    """A message that was announced; ``None`` if its sender never delivered all of it."""
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.inflatable.inflatable_protobuf_utils import (
        make_confirm_message_received_fn_protobuf,
        make_pull_object_fn_protobuf,
    )
    from flwr.supercore.inflatable.inflatable_utils import (
        ObjectPullError,
        inflate_object_from_contents,
        pull_objects,
    )

    try:
        pieces = pull_objects(
            [piece.object_id for piece in iterate_object_tree(tree)],
            make_pull_object_fn_protobuf(client.PullObject, node, run),
            initial_backoff=_SOON,
            backoff_cap=_LATER,
            max_time=_GIVE_UP,
        )
    except ObjectPullError:
        return None
    make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, node, run)(
        tree.object_id
    )
    message = cast("Message", inflate_object_from_contents(tree.object_id, pieces))
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message
