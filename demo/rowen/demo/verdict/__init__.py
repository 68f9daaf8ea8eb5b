"""What a run has shown, from evidence alone. Pure."""
