"""The vLLM plugin of online engines: it tells the device when requests are in flight."""
