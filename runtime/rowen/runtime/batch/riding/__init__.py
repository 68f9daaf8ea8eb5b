"""Batches whose rows ride in a serving engine, as requests of that engine."""
