"""What the end-to-end tests share. They see the cluster as a user does: through kubectl."""
