"""What arrives at each online service over the simulated time, made from a trace or made up."""
