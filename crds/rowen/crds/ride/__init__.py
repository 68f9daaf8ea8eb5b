"""Riding: a job that is computed inside a serving engine, as agent, engine and job tell each other of it."""
