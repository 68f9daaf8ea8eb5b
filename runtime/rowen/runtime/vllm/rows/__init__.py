"""Batch rows that ride: requests of the serving engine that take what its online requests leave of each step."""
