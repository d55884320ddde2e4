"""What any program could use."""
