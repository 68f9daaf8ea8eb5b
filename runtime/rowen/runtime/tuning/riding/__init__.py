"""Fine-tuning whose losses and gradients come from the engine that serves its base model."""
