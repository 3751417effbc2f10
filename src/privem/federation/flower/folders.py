"""The folders of a server and of a party, and the files in them.

======================  =======================================================================
``federation.json``     public, the same everywhere: the agreement, the keys of the nodes, the
                        server's address and certificate
server: ``tls.key``,    the server's certificate and its key; what its executor is known by;
``tls.pem``, ``ca.pem`` one folder per fit with its journal; how many answers each party gave
``secret``, ``runs``,
``counters``
party: ``card.json``    public: its name and public keys
party: ``state``        secret: its keys, its account, and what it said last
party: ``node.key``     secret: the key its node is known by
======================  =======================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...files import write_secret
from ..agreement import Agreement, Card
from ..errors import FederationError
from ..flower import require
from ..party.party import Party
from ..protections import names
from ..wire.codec import VERSION, encode, of_another_version
from ..wire.queries import pack, unpack
from .superlink import new_certificates, private_pem

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Terms:
    """What ``federation.json`` says: public, and the same for all.

    Parameters
    ----------
    agreement : Agreement
    nodes : dict of str to str
        By party, the public key of its node (PEM).
    address : str
        Host and port of the server.
    ca : str
        The certificate that the server's descends from (PEM).
    columns : tuple of str, optional
        Which columns of their files parties read, in this order.
    """

    agreement: Agreement
    nodes: dict[str, str]
    address: str
    ca: str
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.agreement.beside != _digest(self.nodes, self.address, self.ca, self.columns):
            raise ValueError(
                "columns, keys of nodes, address or certificate are not those that were agreed on"
            )

    def save(self, folder: Path) -> None:
        """Into ``federation.json``."""
        head = {"privem": "federation", "version": VERSION}
        body = {**head, **vars(self), "agreement": self.agreement.to_dict()}
        write_secret(folder / "federation.json", (json.dumps(body, indent=1) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Terms:
        """From ``federation.json``; raises ValueError or OSError."""
        path = folder / "federation.json"
        body = _json(path)
        try:
            if body["privem"] != "federation":
                raise KeyError
            if body["version"] != VERSION:
                raise ValueError(f"it is {of_another_version(body['version'])}")
            columns = None if body["columns"] is None else tuple(map(str, body["columns"]))
            agreement = Agreement.from_dict(body["agreement"])
            nodes = {name: str(body["nodes"][name]) for name in agreement.names}
            return cls(agreement, nodes, str(body["address"]), str(body["ca"]), columns)
        except (KeyError, TypeError):
            raise ValueError(f"{str(path)!r} is not a federation of this version") from None
        except ValueError as problem:
            raise ValueError(f"{str(path)!r}: {problem}") from None

    @property
    def keys(self) -> dict[str, bytes]:
        """By party, the public key of its node."""
        return {name: key.encode("ascii") for name, key in self.nodes.items()}

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        return split_address(self.address)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def check_name(name: str) -> str:
    """Check that a name can be a party's, and so a folder's; return it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a party's name has letters, digits and . _ -, not {name!r}")
    return name


def new_party(folder: Path, name: str) -> dict[str, str]:
    """Make a party's keys in a folder of its own; returns its card.

    Parameters
    ----------
    folder : Path
    name : str
        Letters, digits, dots, dashes and underscores.
    """
    require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "state").exists():
        raise ValueError(f"{str(folder)!r} has keys already; take another folder")
    party = Party(np.zeros((0, 1)), name)
    public = [party.card(protection) for protection in names()][-1]  # with the keys of all
    node = ec.generate_private_key(ec.SECP256R1())
    known = node.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    card = {**asdict(public), "node": known.decode("ascii")}
    write_secret(folder / "node.key", private_pem(node))
    write_secret(folder / "card.json", (json.dumps(card, indent=1) + "\n").encode())
    write_secret(folder / "state", party.state())
    return card


def read_card(path: Path) -> dict[str, str]:
    """A party's public card, with public keys of the right kinds."""
    require()
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    body = _json(path)
    check_name(str(body.get("name")))
    if set(body) != {"name", "box", "signing", "node"} or not all(
        isinstance(value, str) for value in body.values()
    ):
        raise ValueError(f"{str(path)!r} is not a card that privem federate key wrote")
    try:
        x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(body["box"]))
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(body["signing"]))
        node = load_pem_public_key(body["node"].encode("ascii"))
        if not isinstance(node, ec.EllipticCurvePublicKey) or node.curve.name != "secp256r1":
            raise ValueError
    except Exception:  # The libraries raise all kinds of errors for what is no key.
        raise ValueError(f"{str(path)!r} is broken: its keys are no keys") from None
    return body


def check_cards(cards: Sequence[dict[str, str]]) -> None:
    """Refuse two cards with the same name or the same key."""
    for word in ("name", "box", "signing", "node"):
        seen: dict[str, str] = {}
        for card in cards:
            value = card[word].strip().lower() if word != "node" else card[word].strip()
            if value in seen:
                raise ValueError(
                    f"the cards of {seen[value]!r} and {card['name']!r} have the same {word}: each "
                    "party makes its own, with privem federate key, and is named once"
                )
            seen[value] = card["name"]


def new_server(
    folder: Path,
    cards: Sequence[dict[str, str]],
    address: str,
    columns: Sequence[str] | None,
    **terms: Any,
) -> Terms:
    """Make a server's folder, and what all agree on.

    Parameters
    ----------
    folder : Path
    cards : sequence of dict
        Of all parties.
    address : str
        Host and port under which they reach the server.
    columns : sequence of str, optional
    **terms
        Of :class:`~privem.federation.Agreement`.
    """
    require()
    host, _ = split_address(address)
    if (folder / "federation.json").exists():
        raise ValueError(f"{str(folder)!r} holds a federation already; take another folder")
    members = tuple(Card(card["name"], card["box"], card["signing"]) for card in cards)
    ca, certificate, key = new_certificates(host)
    nodes = {card["name"]: card["node"] for card in cards}
    beside = (nodes, address, ca.decode("ascii"), None if columns is None else tuple(columns))
    # The seed is drawn after all keys are known.
    terms |= {"seed": os.urandom(32).hex(), "beside": _digest(*beside)}
    found = Terms(Agreement(members, **terms), *beside)
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / "ca.pem", ca)
    write_secret(folder / "tls.pem", certificate)
    write_secret(folder / "tls.key", key)
    write_secret(folder / "secret", os.urandom(32).hex().encode("ascii"))
    found.save(folder)
    return found


class PartyFolder:
    """A party's folder: its state between messages and between processes.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.terms = Terms.load(folder)
        if not (folder / "card.json").exists():
            raise ValueError(f"{str(folder)!r} is not the folder of a party")
        self.name = read_card(folder / "card.json")["name"]
        self.key = (folder / "node.key").read_bytes()
        self._kept = b""

    def party(
        self,
        rows: Any,
        epsilon: float | str | None = None,
        delta: float | None = None,
        *,
        despite_exact_answers: bool = False,
        **options: Any,
    ) -> Party:
        """The party as it was left, with the limits its owner sets now.

        With ``None``, ``epsilon`` and ``delta`` stay as they were; ``epsilon="none"`` lifts the
        limit. ``despite_exact_answers``: see :meth:`~privem.federation.Party.limit_to`.
        """
        stored = (self.folder / "state").read_bytes()
        body = unpack(stored, "party", own=True)
        party = Party(rows, self.name, **options)
        old = body["agreement"]
        same = old is not None and Agreement.from_dict(old).hash == self.terms.agreement.hash
        body |= {"agreement": old if same else None}
        party.restore(pack("party", body))
        limit = party.limit if epsilon is None else None if epsilon == "none" else float(epsilon)
        party.limit_to(limit, delta, despite_exact_answers=despite_exact_answers)
        if not same:
            party.join(self.terms.agreement)
        if party.state() != stored:
            self.keep(party.state())
        party.store = self.keep
        return party

    def keep(self, state: bytes) -> None:
        """Store a state for good."""
        if state != self._kept:
            write_secret(self.folder / "state", state)
            self._kept = state


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder against a second process; the lock ends with the process, however it ends."""
    import fcntl

    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FederationError(f"{what} of {str(folder)!r} runs already") from None
        yield


def _digest(nodes: dict[str, str], address: str, ca: str, columns: tuple[str, ...] | None) -> str:
    """Digest of what an agreement over Flower has besides the agreement."""
    body = {"nodes": nodes, "address": address, "ca": ca, "columns": columns}
    return hashlib.sha256(encode("beside", body)).hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{str(path)!r} is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError(f"{str(path)!r} is not what it should be")
    return body
