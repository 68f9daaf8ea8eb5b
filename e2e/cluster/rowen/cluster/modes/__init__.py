"""The kinds of cluster the commands work on."""
