"""TLS for one server: a certificate authority of its own, used once and forgotten."""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, GeneralName

__all__ = ["new_certificates"]

_DAYS = 730


def new_certificates(host: str) -> tuple[bytes, bytes, bytes]:
    """Certificate of an authority, certificate of the server, its private key (all PEM).

    The authority's key is not kept: nobody can make a second certificate that parties accept.

    Parameters
    ----------
    host : str
        Name or address by which parties reach the server; the loopback is always included.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    names = sorted({host, "localhost", "127.0.0.1", "::1"})
    ca = _signed("privem federation", authority.public_key(), None, authority, True, [])
    use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    extra = [x509.SubjectAlternativeName([_name(n) for n in names]), use]
    leaf = _signed("privem federation server", key.public_key(), ca, authority, False, extra)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    return ca.public_bytes(pem), leaf.public_bytes(pem), private


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
