"""A query over all nodes: state, progress, and waiting for the end."""
