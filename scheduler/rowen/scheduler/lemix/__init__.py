"""Serving and training tasks that share pipeline-parallel nodes: LeMix (section IV) as pure functions."""
