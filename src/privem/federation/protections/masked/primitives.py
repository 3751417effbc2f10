"""The cryptography a masked sum stands on: thin functions over the ``cryptography`` package.

Nothing here is invented: Ed25519 signatures, X25519 agreement, HKDF-SHA256 for what was agreed on,
BLAKE2b with a key (RFC 7693) for what is derived from uniform keys, ChaCha20-Poly1305 boxes,
Poly1305 tags.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from .errors import Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = [
    "BOX_OVERHEAD",
    "KEY_BYTES",
    "SIGNATURE_BYTES",
    "TAG_BYTES",
    "agree",
    "agreement_key",
    "derive",
    "open_box",
    "prf",
    "public_bytes",
    "require",
    "seal_box",
    "signing_key",
    "tag",
    "tag_key",
    "verify",
    "verifying_key",
]

KEY_BYTES = 32
SIGNATURE_BYTES = 64
BOX_OVERHEAD = 16
TAG_BYTES = 16


def require() -> None:
    """Raise an error that names the extra where ``cryptography`` is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        message = "masked sums need the package cryptography: pip install 'privem[federation]'"
        raise ImportError(message) from error


def derive(secret: bytes, salt: bytes, label: bytes, n_bytes: int = KEY_BYTES) -> bytes:
    """Return ``n_bytes`` of HKDF-SHA256; keys with different labels are independent."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=n_bytes, salt=salt, info=label).derive(secret)


def prf(key: bytes, label: bytes, data: bytes = b"", n_bytes: int = KEY_BYTES) -> bytes:
    """Return ``n_bytes`` (at most 64) that nobody without the key can tell from random ones.

    What differs in key, label (at most 16 bytes), data or length is independent.
    """
    return hashlib.blake2b(data, key=key, person=label, digest_size=n_bytes).digest()


def tag(key: bytes, message: bytes) -> bytes:
    """Return the Poly1305 tag of the only message this key is ever used for."""
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    return Poly1305.generate_tag(key, message)


def tag_key(key: X25519PrivateKey, public: bytes, context: bytes, party: int) -> bytes:
    """Return what a party and the server agree on for the tags of this party's replies."""
    return derive(agree(key, public), context, b"server" + party.to_bytes(4, "little"))


def agreement_key(private: bytes) -> X25519PrivateKey:
    """Return the X25519 key made of 32 secret bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private)


def public_bytes(key: X25519PrivateKey) -> bytes:
    """Return the 32 bytes of the public half."""
    return key.public_key().public_bytes_raw()


def agree(key: X25519PrivateKey, public: bytes) -> bytes:
    """Return what both ends of an X25519 agreement know; refuse points of small order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise Refused("a public key is no usable X25519 point") from error


def signing_key(private: bytes) -> Ed25519PrivateKey:
    """Return the Ed25519 key made of 32 secret bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private)


def verifying_key(public: bytes) -> Ed25519PublicKey:
    """Return the Ed25519 key that checks signatures."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public)


def verify(key: Ed25519PublicKey, signature: bytes, message: bytes, who: str) -> None:
    """Refuse the message unless its signature is ``who``'s."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, message)
    except InvalidSignature as error:
        raise Refused(f"a message in the name of {who!r} is not signed by its key") from error


def seal_box(key: bytes, plain: bytes, context: bytes, sender: int) -> bytes:
    """Encrypt and authenticate the only message that ``sender`` ever uses this key for."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(sender.to_bytes(12, "little"), plain, context)


def open_box(key: bytes, box: bytes, context: bytes, sender: int, who: str) -> bytes:
    """Open what ``sender`` sealed, or refuse it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(sender.to_bytes(12, "little"), box, context)
    except InvalidTag as error:
        raise Refused(
            f"the sealed shares of {who!r} do not open: altered, or not its own"
        ) from error
