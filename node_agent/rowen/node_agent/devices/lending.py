"""One device's pool of memory and the pods on the device: whose the memory is, as the API server and the kernel say."""

from collections.abc import Callable, Collection, Mapping, Sequence

from rowen.crds.harvest.node_harvest import PoolOwners
from rowen.node_agent.config import DeviceConfig
from rowen.node_agent.kubelet.pods import Placements, PodView
from rowen.node_agent.memory.fallback import Fallback
from rowen.node_agent.memory.keepers import Keepers
from rowen.node_agent.memory.lender import Lender
from rowen.node_agent.memory.loans import Borrower, Loans
from rowen.node_agent.memory.owners import memory_sample, owners
from rowen.node_agent.memory.pool_status import PoolStatus
from rowen.node_agent.memory.shortage import shortage
from rowen.node_agent.memory.terms import PodTerms
from rowen.node_agent.memory.trace import MemorySample
from rowen.node_agent.memory.withheld import Withheld


class Lending:
    """Called by the agent's loops; what a new arena may have is asked by the door's thread."""

    def __init__(
        self,
        config: DeviceConfig,
        loans: Loans,
        placements: Callable[[], Placements],
        engines: Callable[[], Mapping[int, bool]],
        withholding: Callable[[], Collection[tuple[int, int]]],
        uid_of: Callable[[int], str | None],
    ) -> None:
        """`placements`: the pods on the device, as last told.

        `engines`: processes that have come in, and whether each has memory; `uid_of`: the pod of a process.

        `withholding`: offline ones that have not handed over what they have, by slot and process id.
        """
        self.pool: PoolStatus | None = None
        self.owned: PoolOwners | None = None
        """Whose the memory is; this and the pool as last seen."""
        self._config = config
        self._loans = loans
        self._placements = placements
        self._engines = engines
        self._withholding = withholding
        self._uid_of = uid_of
        self._lender = Lender()
        self._keepers = Keepers()
        self._withheld = Withheld()
        self._fallback = Fallback()
        loans.fixed_bytes_of = self._fixed_bytes_of

    def look(self, now: float) -> tuple[PoolStatus, PoolOwners, MemorySample]:
        """One round: what everybody may have until the next. `now`: seconds, monotonic clock.

        Returns the pool as it was before, whose it was, and what the window keeps of that.
        """
        fixed = sum(pod.fixed_bytes for pod in self._placements().pods) + self._kept_beside(now)
        self.pool = self._lender.look(self._loans, fixed, self._terms_of, now)
        owned = owners(self.pool, self._config.memory_bytes)
        self.owned = owned
        return self.pool, owned, memory_sample(owned, now)

    def tokens_lost(self) -> int:
        """Tokens that offline work has to compute again for the memory that was taken from it so far."""
        return self._loans.tokens_lost()

    def keepers(self, now: float) -> dict[int, int]:
        """Slots whose pods are to be evicted for memory that they keep, and how much, in bytes."""
        # The door's thread adds and removes meanwhile.
        return self._keepers.due(self.pool, dict(self._loans.borrowers), now) if self.pool else {}

    def withheld(self, open_seconds: Sequence[float], now: float) -> list[int]:
        """Slots whose pods are to be evicted for memory that they do not hand over.

        `open_seconds`: how long the gate was open for each slot so far.
        """
        return self._withheld.due(self._withholding(), open_seconds, now)

    def shortage(self) -> tuple[PodView, str] | None:
        """The engine's pod, if the device is too small for it, and that in words for its users."""
        pod = self._placements().online
        if pod is None or not pod.pool_bytes:
            return None
        message = shortage(self._config.id, self._config.memory_bytes, pod.fixed_bytes, pod.pool_bytes)
        return (pod, message) if message is not None else None

    def _kept_beside(self, now: float) -> int:
        """Bytes of its part of the pool that the engine has in memory of its own."""
        pod = self._placements().online
        if pod is None or not pod.uid:
            return 0
        have_memory = [has for pid, has in self._engines().items() if self._uid_of(pid) == pod.uid]
        return pod.pool_bytes if self._fallback.look(pod.uid, have_memory, now) else 0

    def _fixed_bytes_of(self, borrower: Borrower) -> int | None:
        pod = self._pod_of(borrower)
        return pod.fixed_bytes if pod else None

    def _terms_of(self, borrower: Borrower) -> PodTerms | None:
        pod = self._pod_of(borrower)
        return PodTerms(pod.uid, pod.pool_bytes, pod.memory) if pod else None

    def _pod_of(self, borrower: Borrower) -> PodView | None:
        """By the API server's word, as soon as it names the pod that the process is in."""
        placed = self._placements()
        pod = placed.online if borrower.slot is None else dict(placed.slots).get(borrower.slot)
        return pod if pod is not None and pod.uid and pod.uid == self._uid_of(borrower.pid) else None
