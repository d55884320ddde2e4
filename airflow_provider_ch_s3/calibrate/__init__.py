"""Measure loads on a cluster, and find the constants that plans for it should use."""
