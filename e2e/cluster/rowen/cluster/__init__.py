"""A real Kubernetes cluster on this machine, for development and end-to-end tests."""
