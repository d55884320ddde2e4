"""The protocol: ledger, lock, staging tables, commit."""
