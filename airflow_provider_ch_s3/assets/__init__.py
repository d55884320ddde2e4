"""Tables as assets, on which DAGs can be scheduled."""
