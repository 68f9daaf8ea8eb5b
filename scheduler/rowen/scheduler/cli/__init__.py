"""`kubectl rowen`."""
