"""What the demo does to a cluster: reads by rowen.kube, writes by kubectl."""
