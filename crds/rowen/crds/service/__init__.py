"""OnlineService."""
