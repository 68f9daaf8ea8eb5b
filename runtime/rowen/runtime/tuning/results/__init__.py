"""Where a fine-tuning job's checkpoints and result go."""
