"""What the agent says of its devices: to the scheduler, and to Prometheus."""
