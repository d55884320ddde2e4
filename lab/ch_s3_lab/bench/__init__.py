"""Benchmarks: loads with this package's plan, with other settings, and with other tools."""
