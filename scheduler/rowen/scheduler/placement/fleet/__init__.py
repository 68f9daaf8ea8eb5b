"""The working copy of the cluster for one pass: who holds what."""
