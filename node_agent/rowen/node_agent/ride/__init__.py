"""Brings engines and the jobs that ride in them together; what they say to each other the agent does not see."""
