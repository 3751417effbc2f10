"""Sealed boxes between parties: what the server carries and cannot open or forge.

X25519 twice, HKDF-SHA256, ChaCha20-Poly1305. The key comes from an ephemeral key and the
recipient's (so that only the recipient can open, also if the sender's key leaks later), and from
the sender's and the recipient's (so that only the two can have made it). Every box has a key of its
own, hence the constant nonce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["BoxError", "new_key", "open_box", "public", "require", "seal"]


class BoxError(ValueError):
    """A box that does not open: not for this party, not by that one, or changed on the way."""


def require() -> None:
    """Raise if the extra is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ImportError(
            "sealed boxes need the cryptography library: pip install 'privem[federation]'"
        ) from None


def new_key() -> bytes:
    """A private key: 32 bytes from the operating system."""
    require()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def _private(key: bytes) -> X25519PrivateKey:
    require()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(key)


def public(private: bytes) -> str:
    """The public key, hexadecimal."""
    return _private(private).public_key().public_bytes_raw().hex()


def _box_key(
    ephemeral: bytes, static: bytes, sender: str, recipient: str, ephemeral_public: bytes
) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"privem sealed box v1" + ephemeral_public
    info += bytes.fromhex(sender) + bytes.fromhex(recipient)
    return HKDF(SHA256(), 32, salt=None, info=info).derive(ephemeral + static)


def seal(content: bytes, sender: bytes, recipient: str, purpose: bytes) -> bytes:
    """Seal ``content`` with the sender's private key for a public key.

    ``purpose`` is bound to the box: it opens for the same purpose only.

    Examples
    --------
    >>> ours, theirs = new_key(), new_key()
    >>> box = seal(b"secret", ours, public(theirs), b"example")
    >>> open_box(box, theirs, public(ours), b"example")
    b'secret'
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    to = X25519PublicKey.from_public_bytes(bytes.fromhex(recipient))
    own, fresh = _private(sender), _private(new_key())
    head = fresh.public_key().public_bytes_raw()
    key = _box_key(fresh.exchange(to), own.exchange(to), public(sender), recipient, head)
    return head + ChaCha20Poly1305(key).encrypt(bytes(12), content, purpose)


def open_box(box: bytes, recipient: bytes, sender: str, purpose: bytes) -> bytes:
    """The content of a box made by ``sender`` for the holder of ``recipient``."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    own = _private(recipient)
    head = box[:32]
    try:
        one = own.exchange(X25519PublicKey.from_public_bytes(head))
        two = own.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(sender)))
        key = _box_key(one, two, sender, public(recipient), head)
        return ChaCha20Poly1305(key).decrypt(bytes(12), box[32:], purpose)
    except (InvalidTag, ValueError):
        raise BoxError("a sealed box does not open") from None
