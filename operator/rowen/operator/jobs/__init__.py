"""OfflineJob: its pod, its attempts, its end."""
