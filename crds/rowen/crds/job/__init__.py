"""OfflineJob: what a user asks for, what is said of it, and its rules."""
