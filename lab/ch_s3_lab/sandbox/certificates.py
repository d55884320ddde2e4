"""Certificates of a sandbox with TLS: a separate certificate authority, and certificates signed by it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ch_s3_lab.sandbox.process import write_private

if TYPE_CHECKING:
    from trustme import CA

DAYS = 365
HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority; writes certificates as PEM files to a directory."""

    directory: Path
    authority: CA

    @classmethod
    def create(cls, directory: Path) -> Authority:
        """Create an authority; ``ca.crt`` is what clients have to trust."""
        from trustme import CA

        directory.mkdir(mode=0o700, exist_ok=True)
        authority = CA(organization_unit_name="sandbox")
        write_private(directory / "ca.crt", authority.cert_pem.bytes().decode())
        return cls(directory=directory, authority=authority)

    def issue(self, name: str, *, hosts: tuple[str, ...] = HOSTS, days: int = DAYS) -> Path:
        """Issue a certificate and a key; returns the path without ``.crt`` and ``.key``.

        :param days: days until the certificate expires; negative for an expired certificate.
        """
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        issued = self.authority.issue_cert(*hosts, common_name=name, not_after=end)
        path = self.directory / name
        write_private(path.with_suffix(".crt"), issued.cert_chain_pems[0].bytes().decode())
        write_private(path.with_suffix(".key"), issued.private_key_pem.bytes().decode())
        return path
