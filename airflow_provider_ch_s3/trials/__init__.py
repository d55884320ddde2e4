"""Loads that are only measured: of a sample, into a table that is dropped afterwards."""
