"""What runs once per cluster, beside the nodes."""
