"""Which protections there are, and what the rest of the federation must know of each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "PROTECTIONS", "Kind"]


@dataclass(frozen=True)
class Kind:
    """What a protection is like. ``protections.py`` has its code."""

    trust: str
    """What it hides from the server, in words."""
    masks: bool = False
    """Pairs share masks: parties sign, integers alone are added, noise is shared."""
    encrypts: bool = False
    """Integers modulo a prime can be added under one key of all parties (``cipher.Whole``)."""
    boxes: bool = False
    """Parties send each other sealed boxes."""
    noise: bool = True
    """Whether there are private fits under it."""


KINDS = {
    "masked": Kind(
        "The server learns the total and nothing else, also when it breaks the protocol, as long "
        "as no more parties work with it than were declared. No party learns another's numbers.",
        masks=True,
    ),
    "encrypted": Kind(
        "The server sees ciphertexts, and the total that a party opens for it; it holds no secret "
        "key. All parties hold one key: the server together with any one party can open every "
        "upload, and a server that does not follow the protocol can have every upload opened as "
        "if it were the total.",
        encrypts=True,
        boxes=True,
    ),
    "plain": Kind("The server sees each party's own numbers in every round."),
    "ckks": Kind(
        "As paper 001 prints it, for comparison. The server sees ciphertexts and the totals as "
        "CKKS decrypts them, whose errors give the secret key away to it (Li and Micciancio 2021): "
        "take it for no protection against the server. The server together with any one party "
        "can open every upload.",
        boxes=True,
        noise=False,
    ),
}
PROTECTIONS = tuple(KINDS)
