"""How the ClickHouse servers reach the object store."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class S3Access:
    """How the ClickHouse servers reach the bucket, and with which credentials.

    At most one of: ``access_key`` and ``secret_key`` (with ``session_token`` when temporary), ``anonymous``,
    ``named_collection``, ``role_arn``. None of them: the servers' own role.

    :param role_arn: ARN of a role that the servers assume.
    :param parameter_prefix: prefix of the query parameters that carry the secrets; random, so that no expression of
        the load can refer to them.
    """

    endpoint_url: str
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    anonymous: bool = False
    named_collection: str = ""
    role_arn: str = ""
    parameter_prefix: str = field(default_factory=lambda: f"ch_s3_{secrets.token_hex(8)}_", repr=False, compare=False)

    @property
    def parameters(self) -> dict[str, str]:
        """The secrets as query parameters, under the names that the templates use."""
        if not self.access_key:
            return {}
        keys = {"access_key": self.access_key, "secret_key": self.secret_key, "session_token": self.session_token}
        return {f"{self.parameter_prefix}{name}": value for name, value in keys.items() if value}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show; the access key is only a name, and the store's messages need it."""
        return tuple(secret for secret in (self.secret_key, self.session_token) if secret)


def object_url(access: S3Access, bucket: str, key: str) -> str:
    """The path-style address of an object, which every S3 endpoint and every ClickHouse version supports."""
    return f"{access.endpoint_url.rstrip('/')}/{bucket}/{key}"
