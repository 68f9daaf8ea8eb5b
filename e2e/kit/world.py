"""Where the tests of a session live."""

from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """A namespace with its claims, a service in it, and the images."""

    namespace: str
    runtime_image: str
    model: str
    """Path of the model on the claim `models`."""
    url: str
    """The service's URL as reached from the tests."""
    service: str
    local: bool
    """Whether this is the local cluster, whose nodes the tests may stop."""
