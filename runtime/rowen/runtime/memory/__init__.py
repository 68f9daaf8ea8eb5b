"""Memory whose owner changes while this process runs."""
