"""Pods of jobs and engines, and what their users may add to them."""
