"""Everything `up` and the tests need installed, step by step."""

import os
import shutil

from rowen.cluster.console import step
from rowen.cluster.layout import Layout
from rowen.cluster.tools import debian, gobuild
from rowen.cluster.tools.gobuild import Group

ENVTEST_GROUPS = (gobuild.KUBECONFORM, gobuild.HELM, gobuild.VERSITYGW, gobuild.SERVERS)


def ensure(layout: Layout, *, only_envtest: bool = False) -> None:
    """Install and build what is missing."""
    layout.make()
    programs = debian.ENVTEST if only_envtest else {**debian.ENVTEST, **debian.CLUSTER}
    with step("Debian packages") as now:
        packages = debian.missing(programs)
        if packages:
            now.note = ", ".join(packages)
            debian.install(packages)
        else:
            now.skip("installed")
    for group in groups(only_envtest):
        with step(f"Go: {', '.join(group.programs)}") as now:
            if gobuild.built(layout, group):
                now.skip("built")
            else:
                gobuild.build(layout, group)
    # The programs of the cache come after the machine's own, for this process and its children.
    os.environ["PATH"] = f"{os.environ['PATH']}:{layout.bin}"


def groups(only_envtest: bool) -> tuple[Group, ...]:
    """What has to be built on this machine."""
    kubectl = (gobuild.KUBECTL,) if shutil.which("kubectl") is None else ()
    return ENVTEST_GROUPS if only_envtest else (*ENVTEST_GROUPS, gobuild.NODE, gobuild.COREDNS, *kubectl)
