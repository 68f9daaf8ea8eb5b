"""HTTP: OpenAI's routes."""
