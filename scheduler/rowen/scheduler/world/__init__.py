"""The cluster as the policies see it, and what is written back."""
