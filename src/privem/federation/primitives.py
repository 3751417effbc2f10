"""The cryptography that a federation stands on: thin functions over the ``cryptography`` package.

Nothing here is invented: Ed25519 signatures, X25519 agreement, HKDF-SHA256 for what was agreed on,
BLAKE2b with a key (RFC 7693) for what is derived from uniform keys, ChaCha20 as a generator,
ChaCha20-Poly1305 boxes, Poly1305 tags.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .errors import Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64
BOX_OVERHEAD = 16
TAG_BYTES = 16

Words = NDArray[np.uint64]


def require() -> None:
    """Raise an error that names the extra where ``cryptography`` is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ImportError(
            "protected sums need the package cryptography: pip install 'privem[federation]'"
        ) from None


# Signatures -------------------------------------------------------------------------------------


class Identity:
    """A party's long-lived Ed25519 key. Make it on the party's own machine and keep it there.

    Examples
    --------
    >>> me = Identity.new()
    >>> Identity(me.private_bytes()).public == me.public
    True
    """

    def __init__(self, private: bytes) -> None:
        require()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._private = bytes(private)
        self._key = Ed25519PrivateKey.from_private_bytes(self._private)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Identity:
        """Draw a key from the operating system's generator."""
        return cls(os.urandom(KEY_BYTES))

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, to be stored where only this party can read them."""
        return self._private

    def sign(self, message: bytes) -> bytes:
        """The signature (64 bytes)."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}…)"


@lru_cache(maxsize=4096)
def verifying_key(public: bytes) -> Ed25519PublicKey:
    """The Ed25519 key that checks signatures."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public)


def verify(key: Ed25519PublicKey, signature: bytes, message: bytes, who: str) -> None:
    """Refuse the message unless its signature is ``who``'s."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, message)
    except InvalidSignature as error:
        raise Refused(f"a message in the name of {who!r} is not signed by its key") from error


# Agreement and derivation -----------------------------------------------------------------------


def agreement_key(private: bytes) -> X25519PrivateKey:
    """The X25519 key made of 32 secret bytes."""
    require()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private)


def public_bytes(key: X25519PrivateKey) -> bytes:
    """The 32 bytes of the public half."""
    return key.public_key().public_bytes_raw()


def agree(key: X25519PrivateKey, public: bytes) -> bytes:
    """What both ends of an X25519 agreement know; refuses points of small order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise Refused("a public key is no usable X25519 point") from error


def derive(secret: bytes, salt: bytes, label: bytes, n_bytes: int = KEY_BYTES) -> bytes:
    """``n_bytes`` of HKDF-SHA256; keys with different labels are independent."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=n_bytes, salt=salt, info=label).derive(secret)


def prf(key: bytes, label: bytes, data: bytes = b"", n_bytes: int = KEY_BYTES) -> bytes:
    """``n_bytes`` (at most 64) that nobody without the key can tell from random ones.

    What differs in key, label (at most 16 bytes), data or length is independent.
    """
    return hashlib.blake2b(data, key=key, person=label, digest_size=n_bytes).digest()


def tag_key(key: X25519PrivateKey, public: bytes, context: bytes, party: int) -> bytes:
    """What a party and the server agree on for the tags of this party's replies."""
    return derive(agree(key, public), context, b"server" + party.to_bytes(4, "little"))


def tag(key: bytes, message: bytes) -> bytes:
    """The Poly1305 tag of the only message this key is ever used for."""
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    return Poly1305.generate_tag(key, message)


# Streams ----------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _few_zeros(n_bytes: int) -> bytes:
    return bytes(n_bytes)


def stream(seed: bytes, n_bytes: int) -> bytes:
    """The first ``n_bytes`` of the ChaCha20 key stream of a 32-byte seed.

    Counter and nonce are zero: every seed is used for one stream only.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    zeros = _few_zeros(n_bytes) if n_bytes <= 2**20 else bytes(n_bytes)
    return Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor().update(zeros)


def expand(seed: bytes, size: int) -> Words:
    """``size`` words of the key stream: a vector of integers modulo 2^64.

    Examples
    --------
    >>> first = expand(bytes(32), 3)
    >>> first.dtype.name, bool((first == expand(bytes(32), 5)[:3]).all())
    ('uint64', True)
    """
    return np.frombuffer(stream(seed, 8 * size), dtype="<u8").astype(np.uint64, copy=False)


# Boxes under a key that two peers share for one round --------------------------------------------


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


# Boxes between long-lived keys ------------------------------------------------------------------
#
# The key of a box comes from an ephemeral key and the recipient's (so that only the recipient can
# open it, also if the sender's key leaks later), and from the sender's and the recipient's (so that
# only the two can have made it). Every box has a key of its own, hence the constant nonce.


def new_key() -> bytes:
    """A private X25519 key: 32 bytes from the operating system."""
    require()
    return os.urandom(KEY_BYTES)


def public(private: bytes) -> str:
    """The public key, hexadecimal."""
    return public_bytes(agreement_key(private)).hex()


def _sealing_key(
    ephemeral: bytes, static: bytes, sender: str, recipient: str, head: bytes
) -> bytes:
    info = b"privem sealed box v1" + head + bytes.fromhex(sender) + bytes.fromhex(recipient)
    return derive(ephemeral + static, b"", info)


def seal(content: bytes, sender: bytes, recipient: str, purpose: bytes) -> bytes:
    """Seal ``content`` with the sender's private key for a public key.

    ``purpose`` is bound to the box: it opens for the same purpose only.

    Examples
    --------
    >>> ours, theirs = new_key(), new_key()
    >>> box = seal(b"secret", ours, public(theirs), b"example")
    >>> unseal(box, theirs, public(ours), b"example")
    b'secret'
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    to, own, fresh = bytes.fromhex(recipient), agreement_key(sender), agreement_key(new_key())
    head = public_bytes(fresh)
    key = _sealing_key(agree(fresh, to), agree(own, to), public(sender), recipient, head)
    return head + ChaCha20Poly1305(key).encrypt(bytes(12), content, purpose)


def unseal(box: bytes, recipient: bytes, sender: str, purpose: bytes) -> bytes:
    """The content of a box made by ``sender`` for the holder of ``recipient``.

    Refuses a box that is not for this party, not by that one, or was changed on the way.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    own, head = agreement_key(recipient), box[:32]
    try:
        one, two = agree(own, head), agree(own, bytes.fromhex(sender))
        key = _sealing_key(one, two, sender, public(recipient), head)
        return ChaCha20Poly1305(key).decrypt(bytes(12), box[32:], purpose)
    except (InvalidTag, ValueError):
        raise Refused("a sealed box does not open") from None
