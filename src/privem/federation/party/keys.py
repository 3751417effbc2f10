"""A party's secret keys, made as protections need them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import boxes
from ..agreement import Card
from ..protections.kinds import KINDS, PROTECTIONS

__all__ = ["Keys"]


@dataclass(frozen=True)
class Keys:
    """What a party opens boxes and signs with. Secret."""

    box: bytes = b""
    """X25519."""
    signing: bytes = b""
    """Ed25519."""

    def for_protection(self, protection: str) -> Keys:
        """These, and those that the protection needs besides."""
        kind = KINDS.get(protection)
        if kind is None:
            raise ValueError(f"protection must be one of {PROTECTIONS}, got {protection!r}")
        keys = self
        if kind.boxes and not keys.box:
            keys = replace(keys, box=boxes.new_key())
        if kind.masks and not keys.signing:
            from ..protections.masked import Identity

            keys = replace(keys, signing=Identity.new().private_bytes())
        return keys

    def card(self, name: str) -> Card:
        """The public halves, under a party's name."""
        signing = ""
        if self.signing:
            from ..protections.masked import Identity

            signing = Identity(self.signing).public.hex()
        return Card(name, boxes.public(self.box) if self.box else "", signing)
