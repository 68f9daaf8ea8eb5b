"""What runs inside tenants: the vLLM plugin of online engines and the workers of offline jobs."""
