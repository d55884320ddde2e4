"""Lake tables (Iceberg, Delta), seen as the data files added by some of their snapshots."""
