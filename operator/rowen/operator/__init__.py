"""Rowen's operator: reconciles OnlineService and OfflineJob."""
