"""What an engine and a job that rides in it say to each other, over a pair of sockets that the agent gave them."""
