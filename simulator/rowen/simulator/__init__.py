"""A fleet of nodes under a trace, with the scheduler's and the agent's own policies, faster than in real time."""
