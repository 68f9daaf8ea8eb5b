"""Fine-tuning that rides in vLLM's steps, and is worked through between them and while the engine is idle."""
