"""Batch inference that writes each row once: `python -m rowen.runtime.batch`."""
