"""Where an engine takes riders in: a thread that does all the talking, and checks all that is said."""
