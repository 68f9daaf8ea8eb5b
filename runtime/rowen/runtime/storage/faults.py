"""What an error of a storage library means to the job. The libraries agree on little but OSError."""

import errno
from enum import Enum

_WRONG_ADDRESSES = ("InvalidBucketName", "AuthorizationHeaderMalformed", "PermanentRedirect", "KeyTooLongError")
# The last one is versitygw's InvalidAccessKeyId, which comes as a 404.
_DENIED_CODES = (
    "AccessDenied", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "XAdminUserNotFound",
)  # fmt: skip
_EXPIRED_CODES = ("ExpiredToken", "RequestTimeTooSkewed")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "RefreshError")
_NO_REPOSITORIES = ("HfUriError", "HFValidationError")
_NO_COPY = "LocalEntryNotFoundError"
"""The hub did not give it, and there is no older copy: its cause tells why."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Fault(Enum):
    """What went wrong."""

    MISSING = "missing"
    """There is no such object, bucket or repository."""
    DENIED = "denied"
    """The credentials are refused, or there are none."""
    EXPIRED = "expired"
    """The credentials were good once, or a worker stood still with what it had signed."""
    EXISTS = "exists"
    """What was to be created is there already."""
    ADDRESS = "address"
    """There can be no such address."""
    DISK = "disk"
    """The local disk is full."""
    PASSING = "passing"
    """Anything else: a network, a busy server."""


def fault_of(error: BaseException) -> Fault:
    """Looks at the error, and then at what it says it was raised from."""
    link: BaseException | None = error
    # s3fs makes it a PermissionError, as if it were refused for good.
    if error.__cause__ is not None and _told(error.__cause__) is Fault.EXPIRED:
        return Fault.EXPIRED
    while link is not None:
        if type(link).__name__ != _NO_COPY and (fault := _told(link) or _by_type(link)) is not None:
            return fault
        link = link.__cause__
    return Fault.PASSING


def _told(error: BaseException) -> Fault | None:
    """By what the server answered."""
    response = getattr(error, "response", None)
    code, status = _code_and_status(error, response)
    if code in _EXPIRED_CODES:
        return Fault.EXPIRED
    if code in _WRONG_ADDRESSES:
        return Fault.ADDRESS
    if code in _DENIED_CODES or status in (401, 403):
        return Fault.DENIED
    return {404: Fault.MISSING, 412: Fault.EXISTS}.get(status)


def _by_type(error: BaseException) -> Fault | None:
    if type(error).__name__ in _NO_CREDENTIALS or isinstance(error, PermissionError):
        return Fault.DENIED
    # Of one part alone the hub's library says it with a bare ValueError.
    if type(error).__name__ in _NO_REPOSITORIES or str(error).startswith("Repository id must be"):
        return Fault.ADDRESS
    if isinstance(error, FileNotFoundError):
        return Fault.MISSING
    if isinstance(error, FileExistsError):
        return Fault.EXISTS
    if isinstance(error, OSError) and error.errno in _FULL:
        return Fault.DISK
    # gcsfs raises a plain OSError for a 403.
    return Fault.DENIED if isinstance(error, OSError) and str(error).startswith("Forbidden:") else None


def _code_and_status(error: BaseException, response: object) -> tuple[str, int]:
    """Of botocore's errors (a dict), the hub's (a response of httpx) and gcsfs's (`code` is the status)."""
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata") or {}
        return str((response.get("Error") or {}).get("Code", "")), int(metadata.get("HTTPStatusCode", 0))
    status = str(getattr(response, "status_code", None) or getattr(error, "code", None))
    return "", int(status) if status.isdigit() else 0
