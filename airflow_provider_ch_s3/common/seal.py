"""The seal of a record: proof that the writer could log in to ClickHouse with the reader's login.

Whoever may insert into the ledger can write any record there, but whoever finishes an interrupted commit acts with
their own rights. So a process carries out what a record orders only if the record was sealed with the process's own
login. Without the login nobody can make the seal; with the login nobody needs a record.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

SEAL = "seal"
"""The field of a record with the seal."""

# Whoever may read the ledger could try out passwords on a seal: each trial takes 50 ms and 16 MiB.
_COST, _BLOCK_SIZE = 1 << 14, 8


@dataclass(frozen=True, kw_only=True)
class Login:
    """How a connection logs in to ClickHouse.

    :param secret: the password, the token, or the key of a certificate; '' for a user without any.
    """

    user: str = ""
    secret: str = field(default="", repr=False)

    def sealed(self, detail: Mapping[str, Any], *identity: Any) -> dict[str, Any]:
        """Add the seal to the detail of a record.

        :param identity: further fields of the record for the seal to cover.
        """
        return {**detail, SEAL: self._seal(detail, identity)}

    def has_sealed(self, detail: Mapping[str, Any], *identity: Any) -> bool:
        """Whether a process with this login wrote the record, and nobody changed it."""
        return hmac.compare_digest(str(detail.get(SEAL, "")).encode(), self._seal(detail, identity).encode())

    def _seal(self, detail: Mapping[str, Any], identity: tuple[Any, ...]) -> str:
        covered = {name: value for name, value in detail.items() if name != SEAL}
        # Reading it back from JSON turns tuples into lists, and makes the keys of dicts texts.
        text = json.dumps(json.loads(json.dumps([*identity, covered])), sort_keys=True)
        return hmac.new(_derive_key(self.user, self.secret), text.encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=8)
def _derive_key(user: str, secret: str) -> bytes:
    salt = f"airflow-provider-ch-s3 ledger of {user}".encode()
    return hashlib.scrypt(secret.encode(), salt=salt, n=_COST, r=_BLOCK_SIZE, p=1)
