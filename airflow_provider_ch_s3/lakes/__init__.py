"""Tables of a lake (Iceberg, Delta), seen as the data files that some of their snapshots have added."""
