"""docs/install.md speaks of every value."""

from typing import Any

import yaml
from helm import CHART

from rowen.crds.generate import REPOSITORY

_ALIKE = ("scheduler", "agent", "batchApi")
_PLACEMENT = ("priorityClassName", "nodeSelector", "tolerations", "affinity", "extraEnv", "resources")


def _paths(values: dict[str, Any], prefix: str = "") -> list[str]:
    paths = []
    for name, value in values.items():
        path = f"{prefix}{name}"
        nested = isinstance(value, dict) and value and name not in ("nodeSelector", "resources")
        paths += _paths(value, f"{path}.") if nested else [path]
    return paths


def test_every_value_is_documented() -> None:
    text = (REPOSITORY / "docs" / "install.md").read_text()
    for path in _paths(yaml.safe_load((CHART / "values.yaml").read_text())):
        part, last = path.split(".")[0], path.split(".")[-1]
        if part in _ALIKE and last in _PLACEMENT:
            continue  # described once, for the operator
        assert f"`{path}`" in text or f"`.{last}`" in text, path
