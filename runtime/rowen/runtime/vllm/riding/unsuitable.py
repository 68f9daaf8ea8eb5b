"""What an engine is that nothing can ride in."""


class UnsuitableError(Exception):
    """The message is for people: why nothing rides in this engine. It serves on."""
