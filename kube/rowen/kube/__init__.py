"""The one way to talk to Kubernetes: requests, local copies, leader election."""
