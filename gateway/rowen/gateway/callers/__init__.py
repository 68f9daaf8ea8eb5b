"""Who asks, what they may send, and how they are refused."""
