"""What loads did, for people."""
