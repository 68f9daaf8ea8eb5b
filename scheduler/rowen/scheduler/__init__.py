"""The cluster scheduler: places offline jobs on harvested devices by predicted throughput."""
