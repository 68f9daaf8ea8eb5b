"""Whose fault a container is that does not start, from the words of kubelets and of container runtimes."""

import pytest

from rowen.operator.pods.container_fault import own_fault

PULL = 'rpc error: code = Unknown desc = failed to pull and unpack image "registry.test/app:1": '
RESOLVE = PULL + 'failed to resolve reference "registry.test/app:1": '
TOKEN = "failed to authorize: failed to fetch anonymous token: "

REFUSED = [
    "rpc error: code = NotFound desc = failed to pull and unpack image: registry.test/app:1: not found",
    RESOLVE + "registry.test/app:1: not found",
    RESOLVE + "pull access denied, repository does not exist or may require authorization: server message: "
    "insufficient_scope: authorization failed",
    RESOLVE + "denied: requested access to the resource is denied",
    RESOLVE + "unexpected status from HEAD request to https://registry.test/v2/app/manifests/1: 401 Unauthorized",
    RESOLVE + TOKEN + 'unexpected status from GET request to "https://registry.test/token": 403 Forbidden',
    "initializing source docker://registry.test/app:1: reading manifest 1 in registry.test/app: manifest unknown",
    "Error response from daemon: manifest for registry.test/app:1 not found",
    "reading manifest 1 in registry.test/app: name unknown: no such repository",
    # An image's name is no word.
    'failed to pull image "timeout:1-snapshot": failed to resolve docker.io/library/timeout:1-snapshot: Not found',
]
TROUBLE = [
    RESOLVE + 'failed to do request: Head "https://registry.test/v2/": dial tcp 10.0.0.1:443: i/o timeout',
    RESOLVE + 'Head "https://registry.test/v2/": dial tcp: lookup registry.test on 10.0.0.10:53: no such host',
    RESOLVE + "dial tcp 10.0.0.1:443: connect: connection refused",
    RESOLVE + "unexpected status from HEAD request to https://registry.test/v2/app: 503 Service Unavailable",
    RESOLVE + "429 Too Many Requests: toomanyrequests: You have reached your unauthenticated pull rate limit",
    RESOLVE + TOKEN + "401 Unauthorized: context deadline exceeded",
    RESOLVE + "unauthorized: the token service timed out",
    RESOLVE + "denied: upstream timeout",
    RESOLVE + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
    PULL + "mkdir /var/lib/containerd/tmp: permission denied",
    PULL + "failed to prepare extraction snapshot: parent snapshot sha256:1 does not exist: not found",
    PULL + "content digest sha256:1: not found",
    "write /var/lib/containerd/ingest/1: no space left on device",
    'failed to pull image "registry.test/denied:1": connection reset by peer',
    'failed to pull image "unauthorized": EOF',
]


@pytest.mark.parametrize("before", ["", 'Back-off pulling image "registry.test/app:1": ErrImagePull: '])
@pytest.mark.parametrize(("words", "own"), [(w, True) for w in REFUSED] + [(w, False) for w in TROUBLE])
def test_an_image_is_the_pods_fault_where_a_registry_refuses_it(words: str, own: bool, before: str) -> None:
    assert own_fault("ImagePullBackOff" if before else "ErrImagePull", before + words) is own


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
@pytest.mark.parametrize("words", ["", 'Back-off pulling image "registry.test/denied:1"'])
def test_a_pull_without_words_tells_nothing(reason: str, words: str) -> None:
    assert own_fault(reason, words) is None


MADE_AND_STARTED = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"]


@pytest.mark.parametrize("reason", MADE_AND_STARTED)
@pytest.mark.parametrize(
    ("words", "own"),
    [
        ('configmap "none" not found', True),
        ('exec: "none": executable file not found in $PATH', True),
        ("", True),
        ("context deadline exceeded", False),
        ("failed to sync configmap cache: timed out waiting for the condition", False),
        ("timeout", False),
        ('exec: "timeout": executable file not found in $PATH', True),
    ],
)
def test_a_container_is_the_pods_fault_unless_it_came_too_late(reason: str, words: str, own: bool) -> None:
    assert own_fault(reason, words) is own


@pytest.mark.parametrize(
    ("reason", "own"),
    [
        ("InvalidImageName", True),
        ("ErrImageNeverPull", True),
        ("CrashLoopBackOff", True),
        ("PostStartHookError", True),
        ("ImageInspectError", False),
        ("RegistryUnavailable", False),
        ("SignatureValidationFailed", False),
    ],
)
@pytest.mark.parametrize("words", ["", "not found", "timed out"])
def test_other_reasons_speak_for_themselves(reason: str, own: bool, words: str) -> None:
    """Their words may be a program's own."""
    assert own_fault(reason, words) is own
