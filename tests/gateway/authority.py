"""Certificates for tests: a root with an intermediate authority, servers' and clients' certificates, and revocations."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@attrs.define
class Issued:
    """A certificate with its key; `chain` is what its owner shows."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: bytes

    def write(self, folder: Path, name: str, password: bytes | None = None) -> tuple[str, str]:
        """The files of certificate and key."""
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        cert.write_bytes(self.chain)
        key.write_bytes(self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
        return str(cert), str(key)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """A root, and an intermediate authority below it that issues certificates."""

    def __init__(self, name: str = "tests") -> None:
        now = datetime.now(UTC)
        self.root = _made(f"root of {name}", None, now - DAY, now + 99 * DAY, authority=True)
        self.middle = _made(f"issuer of {name}", self.root, now - DAY, now + 99 * DAY, authority=True)
        self.trusted = pem(self.root.certificate)

    def issue(self, *names: x509.GeneralName, until: timedelta = DAY) -> Issued:
        """A certificate for these names, valid from the day before yesterday on, for servers and clients."""
        now = datetime.now(UTC)
        made = _made("leaf", self.middle, now - 2 * DAY, now + until, names=names)
        made.chain = pem(made.certificate) + pem(self.middle.certificate)
        return made

    def server(self) -> Issued:
        """A certificate for this machine."""
        return self.issue(x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")))

    def revocations(self, *revoked: x509.Certificate, until: timedelta = DAY) -> bytes:
        """The lists of both authorities; the intermediate one's has these certificates."""
        return _revocations(self.root, (), until) + _revocations(self.middle, revoked, until)


def _made(
    name: str,
    issuer: Issued | None,
    since: datetime,
    until: datetime,
    *,
    authority: bool = False,
    names: tuple[x509.GeneralName, ...] = (),
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(signer, hashes.SHA256())
    return Issued(made, key, pem(made))


def _revocations(issuer: Issued, revoked: tuple[x509.Certificate, ...], until: timedelta) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(now - 2 * DAY)
        .next_update(now + until)
    )
    for each in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(each.serial_number).revocation_date(now - DAY).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
