"""What an online service does to its devices: busy time, the gate, memory."""
