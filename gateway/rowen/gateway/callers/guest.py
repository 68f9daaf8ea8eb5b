"""Who asks. The gateway has no rights of its own: what it does in the cluster it does with its caller's token."""

import re
from typing import Any

from fastapi import Request

from rowen.gateway.callers.errors import ApiError
from rowen.kube.client import Client
from rowen.kube.kinds import OFFLINE_JOBS, SELF_REVIEWS
from rowen.kube.objects import create
from rowen.kube.resource import Resource

MANAGER = "rowen.dev/gateway"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(rf"system:serviceaccount:({_NAMESPACE.pattern}):.+")
_ACCESS = Resource("SelfSubjectAccessReview", "authorization.k8s.io/v1", "selfsubjectaccessreviews")


class Guest:
    """A caller, in a namespace."""

    def __init__(self, kube: Client, namespace: str) -> None:
        self.kube = kube
        """Carries the caller's token."""
        self.namespace = namespace

    async def need(self, verb: str) -> None:
        """Whether the caller may do this to the namespace's jobs, and so to their files. Raises `ApiError`, 403."""
        what = {"group": "rowen.dev", "resource": OFFLINE_JOBS.plural, "verb": verb, "namespace": self.namespace}
        status = await self._review(_ACCESS, {"spec": {"resourceAttributes": what}})
        if status.get("allowed") is not True:
            words = f"you may not {verb} offlinejobs.rowen.dev in namespace {self.namespace}"
            raise ApiError(403, words, code="Forbidden")

    async def home(self) -> str:
        """The namespace of the caller's service account. Raises `ApiError` where it is none."""
        status = await self._review(SELF_REVIEWS, {})
        match = _ACCOUNT.fullmatch(str((status.get("userInfo") or {}).get("username")))
        if match is None:
            words = "name the namespace in the base URL, /namespaces/NAMESPACE/v1: this is no service account's token"
            raise ApiError(400, words, code="no_namespace")
        return match[1]

    async def _review(self, resource: Resource, question: dict[str, Any]) -> dict[str, Any]:
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, **question}
        found = await create(self.kube, resource, review, manager=MANAGER)
        return dict(found.get("status") or {})


class Door:
    """Lets in who has a token; whether it is anybody's, the API server says."""

    def __init__(self, stranger: Client) -> None:
        self._stranger = stranger

    async def __call__(self, request: Request) -> Guest:
        """Raises `ApiError`, 401 without a token and 404 for what is no namespace."""
        namespace = request.path_params.get("namespace")
        if namespace is not None and not _NAMESPACE.fullmatch(namespace):
            raise ApiError(404, f"{namespace[:64]!r} is no name of a namespace")
        guest = Guest(self._stranger.bearing(_token(request)), namespace or "")
        if namespace is None:
            guest.namespace = await guest.home()
        return guest


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError(401, "a bearer token of the cluster is needed, in Authorization", code="invalid_api_key")
    if not _TOKEN.fullmatch(token.strip()):
        raise ApiError(401, "this is no token", code="invalid_api_key")
    return token.strip()
