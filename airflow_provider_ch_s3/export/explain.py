"""What to do about a server's error in an export."""

from __future__ import annotations

import re

_ACCESS = "check that the servers reach the store, and that the credentials may write there"
_MEMORY = "export fewer partitions at a time, or lower output_format_parquet_row_group_size_bytes"
_REMEDIES = (
    (r"already exists", "let the task try again: it takes other names"),
    (r"\(S3_ERROR\)|NETWORK_ERROR|POCO_EXCEPTION|DNS_ERROR", _ACCESS),
    (r"\(ACCESS_DENIED\)", "grant the user what docs/permissions.md lists for exports"),
    (r"memory limit exceeded", _MEMORY),
    (r"Illegal character", "let partition_by yield other values"),
)


def explain_export(message: str) -> str:
    """Return the server's message, followed by a remedy."""
    remedy = next((text for pattern, text in _REMEDIES if re.search(pattern, message)), "correct the query")
    return f"{message}; nothing was left in the folder: {remedy}"
