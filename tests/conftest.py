"""Fixtures that several parts' tests share."""

from apiserver import api_server, controller_manager, kube, namespace
from hypothesis import HealthCheck, settings
from s3 import bucket, s3_server

__all__ = ["api_server", "bucket", "controller_manager", "kube", "namespace", "s3_server"]

# A machine that is busy with other things must not fail what is right. The same examples each time, too: what fails,
# fails for who changed it. `pytest --hypothesis-profile=random` looks for others.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", _PATIENT)
settings.register_profile("same", _PATIENT, derandomize=True)
settings.load_profile("same")
