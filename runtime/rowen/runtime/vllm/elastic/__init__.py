"""A key-value cache in memory whose owner changes."""
