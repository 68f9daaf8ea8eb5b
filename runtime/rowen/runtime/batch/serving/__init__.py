"""vLLM as the batch worker uses it: its own API application, called without a port."""
