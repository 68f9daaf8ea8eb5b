"""Fixtures that several parts' tests share."""

from apiserver import api_server, controller_manager, kube, namespace
from hypothesis import HealthCheck, settings

__all__ = ["api_server", "controller_manager", "kube", "namespace"]

# A machine that is busy with other things must not fail what is right.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
