"""Readers of workload traces, one for each format."""
