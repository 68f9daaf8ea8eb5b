"""Failures that end the demo, told in a sentence."""


class DemoError(Exception):
    """The demo cannot go on."""

    def __init__(self, message: str, hint: str = "") -> None:
        """What went wrong, and what to do about it."""
        super().__init__(message)
        self.hint = hint
