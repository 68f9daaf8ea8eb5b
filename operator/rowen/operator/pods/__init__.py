"""Pods: what is read from them and what all of them share."""
