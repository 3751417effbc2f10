"""The SuperLink of a federation: Flower's own, with TLS and a gate, for the agreed nodes only.

It keeps its state in memory. Nothing of a fit is lost with it: parties remember what they said, the
fit has its journal, and both find their way back to a SuperLink that is started again. Flower's
database on disk takes more than twice the processor time (36 s against 16 s for ten masked rounds
of three parties), and would keep what passes through.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..flower import require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName

_DAYS = 730  # that a certificate is valid
# Flower's Control API needs no account: whoever reaches the port could unregister nodes, whose keys
# are then refused for good, stop a fit, or register keys of their own. So a gate stands in front of
# it. Nodes may make the five requests that nodes of privem make, which Flower accepts from
# registered keys only. Flower knows a fit by the secret in the server's folder, and its task by a
# token. For everything else, whoever asks must prove that they have that secret too. Nodes are
# asked to wait until all keys are registered, so that Flower sees none that it does not know yet.
_NODES = (
    "/v1/fleet/activate-node",
    "/v1/fleet/deactivate-node",
    "/v1/fleet/send-node-heartbeat",
    "/v1/fleet/pull-messages",
    "/v1/fleet/push-messages",
)
_FITS = "/v1/runtime/"
_HEADER = "privem-proof"

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def serve_link(
    folder: Path, address: str, host: str, port: int, nodes: Mapping[str, bytes]
) -> None:
    """Run ``flower-superlink`` in this process until it is stopped.

    Parameters
    ----------
    folder : Path
        Holds ``tls.pem``, ``tls.key``, ``ca.pem`` and ``secret``.
    address : str
        Host and port by which this machine reaches it.
    host, port
        Where to listen.
    nodes : mapping of str to bytes
        By party, the public key of its node; nobody else is let in.
    """
    require()
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    ca, secret = (folder / "ca.pem").read_bytes(), (folder / "secret").read_bytes()
    known = threading.Event()
    gate = Middleware(Gate, secret=secret, ready=known.is_set)
    extensions.get_middleware = lambda: (gate,)
    for other in ("FLWR_INTERNAL_GRPC_CONTROL_API", "FLWR_INTERNAL_GRPC_FLEET_API"):
        os.environ.pop(other, None)  # ways in that have no gate

    def register() -> None:
        _register(address, ca, secret, nodes)
        known.set()

    threading.Thread(target=register, daemon=True).start()
    # fmt: off
    sys.argv = [
        "flower-superlink",
        "--host", host, "--port", str(port),
        "--ssl-certfile", str(folder / "tls.pem"),
        "--ssl-keyfile", str(folder / "tls.key"),
        "--ssl-ca-certfile", str(folder / "ca.pem"),
        "--enable-supernode-auth",
        # The fit is executed by `privem federate run`, which knows the secret; by nobody else.
        "--isolation", "process",
        "--superexec-auth-secret-file", str(folder / "secret"),
        "--disable-runtime-dependency-installation",
    ]
    # fmt: on
    flower_superlink()


def _register(address: str, ca: bytes, secret: bytes, nodes: Mapping[str, bytes]) -> None:
    """Tell the SuperLink the parties' keys, as ``flwr supernode register`` does, once it is up."""
    import httpx
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    with ControlHttpClient.from_server_address(address, False, ca, [Shown(secret)]) as client:
        for name, key in nodes.items():
            while True:
                try:
                    client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
                    break
                except httpx.HTTPError:
                    time.sleep(0.1)


def proof(secret: bytes) -> str:
    """Proves possession of the server's secret without giving it away."""
    return hmac.new(secret.strip(), b"privem control", hashlib.sha256).hexdigest()


class Shown:
    """Adds the proof to every request of one of Flower's clients."""

    def __init__(self, secret: bytes) -> None:
        self._proof = proof(secret)

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """Send the request with the proof."""
        context.request.headers[_HEADER] = self._proof
        return call_next(context)


class Gate:
    """In front of the SuperLink's app (ASGI).

    Parameters
    ----------
    app : callable
    secret : bytes
    ready : callable
        Whether all keys are registered.
    """

    def __init__(self, app: App, secret: bytes, ready: Callable[[], bool]) -> None:
        self._app, self._proof, self._ready = app, proof(secret).encode("ascii"), ready

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it here."""
        refused = self._refuse(scope) if scope["type"] != "lifespan" else 0
        if not refused:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": refused, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def _refuse(self, scope: Scope) -> int:
        """The status of a refusal; 0 lets the request pass."""
        path = scope["path"] if scope["type"] == "http" else ""
        if path in _NODES:
            return 0 if self._ready() else 503
        if path.startswith(_FITS):
            return 0
        shown = dict(scope.get("headers", ())).get(_HEADER.encode("ascii"), b"")
        return 0 if hmac.compare_digest(shown, self._proof) else 403


def new_certificates(host: str) -> tuple[bytes, bytes, bytes]:
    """Certificate of an authority, certificate of the server, private key of the server (all PEM).

    The authority's key is not kept: nobody can make a second certificate that parties accept.

    Parameters
    ----------
    host : str
        Name or address by which parties reach the server; the loopback is always included.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    names = sorted({host, "localhost", "127.0.0.1", "::1"})
    ca = _signed("privem federation", authority.public_key(), None, authority, True, [])
    use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    extra = [x509.SubjectAlternativeName([_name(n) for n in names]), use]
    leaf = _signed("privem federation server", key.public_key(), ca, authority, False, extra)
    return ca.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM), private_pem(key)


def private_pem(key: EllipticCurvePrivateKey) -> bytes:
    """A private key as it is stored."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    title: str, public: Any, issuer: Certificate | None, key: Any, ca: bool, extra: list[Any]
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    now = datetime.datetime.now(datetime.UTC)
    signer = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False
        )
    )
    for extension in extra:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, SHA256())
