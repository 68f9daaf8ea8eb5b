"""NodeHarvest: what a node reports."""
