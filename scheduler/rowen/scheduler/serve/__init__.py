"""What is told to others: HTTP, metrics, explanations."""
