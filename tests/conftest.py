"""Fixtures that several parts' tests share."""

from apiserver import api_server, controller_manager, kube, namespace

__all__ = ["api_server", "controller_manager", "kube", "namespace"]
