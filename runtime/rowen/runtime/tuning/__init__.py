"""LoRA fine-tuning that survives being killed: `python -m rowen.runtime.tuning`."""
