"""The demo: Rowen's main job in front of one's eyes, on a real cluster with live traffic."""
