"""Processes of the cluster: started, held, asked and ended."""
