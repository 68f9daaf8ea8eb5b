"""How a request to the API server fails."""

import json
import re

_FORBIDDEN, _NO_RIGHT = 403, re.compile(r" cannot [a-z]+ resource ")
"""RBAC's words, whichever the verb."""
_TIMEOUT, _AHEAD = 504, "Too large resource version"
"""What API servers answer to a version above their store's; client-go goes by the same words."""

_INVALID, _UNTYPED = (400, 422), "failed to create typed patch object"
"""Of an apply, a field that its kind does not have is told with code 500."""
_ADMISSION = ("admission webhook ", "ValidatingAdmissionPolicy ")
"""What an admission policy says, whichever the code; of a webhook also that it knows no dry run."""


def is_invalid(status: int, message: str) -> bool:
    """Whether it is what was sent that is wrong, by the API server's own rules: the same is refused for ever."""
    if any(word in message for word in _ADMISSION):
        return False
    return status in _INVALID or _UNTYPED in message


class KubeError(Exception):
    """A request that failed; whether it was carried out shows in the next listing."""

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later on."""
        return False


class LoginError(KubeError):
    """What tells where the API server is and who one is cannot be used."""


class UnreachableError(KubeError):
    """No answer came, or one that nobody can read."""

    @property
    def passes(self) -> bool:
        """Always."""
        return True


class StaleListError(KubeError):
    """A listing is older than what was known before it was asked for."""


class RefusedError(KubeError):
    """The API server's answer is an error."""

    def __init__(self, status: int, reason: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status code."""
        self.reason = reason
        """In one word, as `Conflict`; empty where the answer is not the API server's own."""
        self.message = message
        """The API server's own words."""
        self.retry_after_seconds = retry_after_seconds
        """How long the server asks to be left alone."""

    @property
    def passes(self) -> bool:
        """Where the server is busy, or in trouble of its own."""
        return self.status in (408, 429) or self.status >= 500

    @property
    def invalid(self) -> bool:
        """Whether what was sent is wrong."""
        return is_invalid(self.status, self.message)

    @property
    def lacks_right(self) -> bool:
        """Whether RBAC does not let the caller do it; what admission refuses, such as a quota, is told otherwise."""
        return self.status == _FORBIDDEN and bool(_NO_RIGHT.search(self.message))

    @property
    def ahead(self) -> bool:
        """Whether a version was asked for that the server has not come to: it is late, or its store was put back."""
        return self.status == _TIMEOUT and _AHEAD in self.message


def refused(status: int, phrase: str, body: bytes, retry_after: str | None) -> RefusedError:
    """The error that an answer tells. A proxy's is no `Status`: its beginning is quoted."""
    after = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
    try:
        found = json.loads(body)
        return RefusedError(status, str(found.get("reason") or ""), str(found["message"]), after)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        text = body[:200].decode(errors="replace").strip()
        return RefusedError(status, "", f"{status} {phrase}: {text}".rstrip(": "), after)
