"""What is expected of a job on devices."""
