"""How the two ends of a relay across the network know each other.

The host's end has a certificate that it makes when it starts; its SHA-256 stands in the database, which both ends trust, and the web
process's end accepts no other. The web process's end then shows that it knows the fleet's master key, by a code over that certificate: it
is worth nothing on any other connection than one to the same process of the same host. The host's process leaves a mark of each master key
that it takes in the database, by which those who have the key know that it is the same (workers/relay/trust.py).
"""

import hashlib
import hmac
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PROOF_BYTES = 32
_PROOF, _MARK = b"keepstate relay proof 1", b"keepstate relay mark 1"
_LIFE = timedelta(days=3650)  # nobody asks a clock about it: it goes with its process


def fingerprint(certificate: bytes) -> str:
    """Of a certificate in DER: its SHA-256 in hex digits."""
    return hashlib.sha256(certificate).hexdigest()


def proof(master: bytes, print_: str) -> bytes:
    """What only a process with the master key can show to the holder of that certificate."""
    return _code(_PROOF, master, print_)


def mark(master: bytes, print_: str) -> str:
    """What the holder of that certificate leaves of a master key, in hex digits: it opens nothing, and whoever has the key too knows it."""
    return _code(_MARK, master, print_).hex()


def is_proof(shown: bytes, masters: Sequence[bytes], print_: str) -> bool:
    """Under any of the master keys: while they are exchanged there are two."""
    return any(hmac.compare_digest(shown, proof(master, print_)) for master in masters)


def _code(purpose: bytes, master: bytes, print_: str) -> bytes:
    return hmac.digest(hmac.digest(master, purpose, "sha256"), bytes.fromhex(print_), "sha256")


def host_side(directory: Path) -> tuple[ssl.SSLContext, str]:
    """A context with a new certificate, and its fingerprint. The key lies in `directory`, which is private, for as long as it is loaded."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "KeepState relay")])
    now = datetime.now(UTC)
    certificate = (x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - _LIFE, now + _LIFE)).sign(
        key, hashes.SHA256()
    )
    encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile(dir=directory, prefix="relay-key.") as file:
        file.write(encoded + certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    return context, fingerprint(certificate.public_bytes(serialization.Encoding.DER))


def web_side() -> ssl.SSLContext:
    """No authority vouches for the certificate: whoever uses this compares its fingerprint before a byte is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
