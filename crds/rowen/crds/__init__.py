"""Rowen's API (`rowen.dev/v1alpha1`): the pydantic models are its single source."""
