"""OnlineService: its workload and what is said of it."""
