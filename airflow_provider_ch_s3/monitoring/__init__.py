"""A query over all nodes: its state, its progress, waiting for it."""
