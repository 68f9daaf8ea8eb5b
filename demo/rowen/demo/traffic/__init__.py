"""Traffic of the demo: an excerpt of a public trace, its scaling, and an open-loop replayer."""
