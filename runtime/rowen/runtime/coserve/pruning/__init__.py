"""Which activations a way back needs (FlexLLM, Algorithm 1)."""
