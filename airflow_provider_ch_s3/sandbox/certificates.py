"""Certificates of a sandbox with TLS: a certificate authority of its own, and the certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ch_s3.sandbox.process import write_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType, GeneralName, Name

DAYS = 365
HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority, which writes its certificates as PEM files to a directory."""

    directory: Path
    name: Name
    key: EllipticCurvePrivateKey

    @classmethod
    def create(cls, directory: Path, name: str = "ca") -> Authority:
        """Create an authority; ``<name>.crt`` is what clients have to trust."""
        from cryptography import x509

        directory.mkdir(mode=0o700, exist_ok=True)
        authority = cls(directory=directory, name=_name(f"{name} of a sandbox"), key=_new_key())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = authority._sign(authority.name, authority.key, constraints, days=DAYS)
        write_private(directory / f"{name}.crt", _pem(certificate))
        return authority

    def issue(self, name: str, *, hosts: tuple[str, ...] = HOSTS, days: int = DAYS) -> Path:
        """Issue a certificate and its key; returns the path without ``.crt`` and ``.key``.

        :param days: days until the certificate expires; negative if it has expired already.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = _new_key()
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        path = self.directory / name
        write_private(path.with_suffix(".crt"), _pem(self._sign(_name(name), key, names, days=days)))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(path.with_suffix(".key"), private.decode())
        return path

    def _sign(
        self, subject: Name, key: EllipticCurvePrivateKey, extension: ExtensionType, *, days: int
    ) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256

        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - datetime.timedelta(days=2 * DAYS))
            .not_valid_after(end)
            .add_extension(extension, critical=False)
        )
        return builder.sign(self.key, SHA256())


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _host(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
