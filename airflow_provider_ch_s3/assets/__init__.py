"""Tables as assets, to schedule DAGs."""
