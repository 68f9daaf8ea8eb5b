"""Data, models and answers of jobs as their users have them, in object storage and through the batch gateway."""
