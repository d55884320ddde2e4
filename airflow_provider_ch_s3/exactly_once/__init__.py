"""The exactly-once protocol: ledger, lock, staging tables, commit."""
