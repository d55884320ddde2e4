"""Measurements: a load by this package, by other settings, and by what users do instead."""
