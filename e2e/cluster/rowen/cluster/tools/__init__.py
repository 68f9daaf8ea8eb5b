"""Programs the cluster needs on this machine."""
