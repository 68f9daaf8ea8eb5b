"""Whether a container that does not start names its pod's own fault, from what the kubelet and the runtime say."""

import re

_PULLS = ("ErrImagePull", "ImagePullBackOff")
_MADE_AND_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_OWN = ("CrashLoopBackOff", "ErrImageNeverPull", "InvalidImageName", "PostStartHookError")

# An image's name or an address may hold any word.
_NAMES = re.compile(r'"\S*"|\S*/\S*')
# Kubelets before 1.32 do not repeat the error while they wait for the next try.
_WORDLESS = re.compile(r"\s*(Back-off pulling image)?\s*")
_REFUSED = re.compile(
    r"\bnot found\b|\bmanifest unknown\b|\bname unknown\b|(?<!permission )\bdenied\b|\bunauthorized\b|\bforbidden\b",
    re.IGNORECASE,
)
# What the runtime does not find or may not do on its own disk.
_LOCAL = re.compile(r"\bsnapshot|\bcontent digest\b", re.IGNORECASE)
_LATE = re.compile(r"\bdeadline exceeded\b|\btimed out\b|\btimeout\b", re.IGNORECASE)


def own_fault(reason: str, message: str) -> bool | None:
    """Whether the pod asks for what cannot be had, so that no node and no time helps; None where that is not said.

    What is not known to be the pod's is the node's: a registry, a network or a runtime in trouble.
    """
    words = _NAMES.sub(" ", message)
    if reason in _PULLS:
        if _WORDLESS.fullmatch(words):
            return None
        return bool(_REFUSED.search(words)) and not (_LATE.search(words) or _LOCAL.search(words))
    if reason in _MADE_AND_STARTED:
        return not _LATE.search(words)
    return reason in _OWN
