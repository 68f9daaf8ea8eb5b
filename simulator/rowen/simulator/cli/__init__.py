"""The program `rowen`."""
