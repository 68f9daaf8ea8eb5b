"""The one error a user sees."""


class ClusterError(Exception):
    """Something the user can act on; printed as one line, without a traceback."""
