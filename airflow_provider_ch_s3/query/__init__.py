"""A query on all nodes: its state, its progress, waiting for it."""
