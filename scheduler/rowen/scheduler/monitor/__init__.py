"""What became of a placement."""
