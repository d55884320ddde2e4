"""The cluster as values: what the connection declares, and what loads are planned for."""
