"""Inspect what a load works with: the cluster, the table, the files, the parts."""
