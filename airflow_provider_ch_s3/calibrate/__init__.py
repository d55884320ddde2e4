"""Measures loads on a cluster, and finds the constants that plans for it should use."""
