"""Which pod is in which slot, as its own processes show it, or the kubelet tells."""

import hashlib
import threading
from pathlib import Path
from typing import Protocol

from rowen.node_agent.attach.cgroup import Cgroups, PodCgroup
from rowen.node_agent.attach.entrance import AttachRefused
from rowen.node_agent.devices.counts import DeviceCounts


class Gate(Protocol):
    """A device as far as its guests are concerned."""

    def counts(self) -> DeviceCounts:
        """State and counters now."""

    def set_pod(self, slot: int, pod: int, freezer: Path, cpuacct: Path | None, cpu: Path | None) -> None:
        """Which pod has the slot, and its cgroup. Raises `OSError`."""


def pod_number(uid: str) -> int:
    """What a pod is known by to every device, as a number of 64 bits."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "little")


class Guests:
    """The pods in one device's slots. Called by the door's thread and by the agent's loops."""

    def __init__(self, gate: Gate, cgroups: Cgroups) -> None:
        self._gate = gate
        self._cgroups = cgroups
        self._pods: dict[int, PodCgroup] = {}
        self._lock = threading.Lock()

    def vet(self, slot: int, pid: int) -> None:
        """Whether a process may come in through the slot's socket. Raises `AttachRefused`, `OSError`.

        The first one says whose slot it is; until the slot is cleared nobody else comes in while one of them runs.
        """
        pod = self._cgroups.of_process(pid)
        if pod is None:
            raise AttachRefused("the process is in no pod's cgroup: what cannot be stopped from outside may not run")
        with self._lock:
            known = self._pods.get(slot)
            if known is not None and known.uid == pod.uid:
                return
            if known is not None and self._gate.counts().tenants[slot].attached:
                raise AttachRefused("the slot belongs to another pod, whose processes still run", pod=known.uid)
            self._enter(slot, pod)

    def learn(self, slot: int, uid: str) -> None:
        """The kubelet has given the slot to a pod, of which perhaps no process ever attaches. Raises `OSError`."""
        with self._lock:
            if slot in self._pods:
                return
            pod = self._cgroups.of_uid(uid)
            if pod is not None:
                self._enter(slot, pod)

    def _enter(self, slot: int, pod: PodCgroup) -> None:
        self._gate.set_pod(slot, pod_number(pod.uid), pod.directory, pod.cpuacct, pod.cpu)
        self._pods[slot] = pod

    def forget(self, slot: int) -> None:
        """The slot was cleared."""
        with self._lock:
            self._pods.pop(slot, None)

    def pod(self, slot: int) -> PodCgroup | None:
        """The slot's pod, where it is known."""
        with self._lock:
            return self._pods.get(slot)
