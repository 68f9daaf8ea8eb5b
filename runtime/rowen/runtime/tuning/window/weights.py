"""The layers' frozen weights: those needed next are loaded, those needed last make way."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from rowen.runtime.memory.ledger import Ledger
from rowen.runtime.memory.shortage import Shortage
from rowen.runtime.tuning.window.handles import Handles
from rowen.runtime.tuning.window.places import Place
from rowen.runtime.tuning.window.schedule import Phase, Position, cost_tokens, distances

_WAIT_SECONDS = 0.1
"""Between two looks at what is waited for."""


@dataclass(frozen=True)
class Ticket:
    """Says which memory a pass of a layer computes on."""

    layer: int
    taken: int
    serials: tuple[int | None, ...]


@dataclass
class Counts:
    """What happened so far."""

    loads: int = 0
    """Handles whose content was copied into them."""
    prefetches: int = 0
    """Those of them that were loaded in the background."""
    waits: int = 0
    """Looks at the grant in vain."""
    repeats: int = 0
    """Passes that were lost and computed again."""
    recoveries: int = 0
    """Passes that were computed again for an input that was lost."""


@dataclass(frozen=True)
class _Load:
    layer: int
    serials: dict[int, int]
    """Mapped handles to be filled, by their mappings' numbers."""


class Weights:
    """Brings a layer into memory for each pass of it; one thread computes, another one prefetches."""

    def __init__(
        self,
        handles: Handles,
        places: Sequence[Place],
        ledger: Ledger | None,
        *,
        prefetch: bool,
        yield_memory: Callable[[], None],
    ) -> None:
        """`yield_memory` gives back what else this process holds of the arena, for when one layer has no room."""
        self.counts = Counts()
        self._handles = handles
        self._places = places
        self._ledger = ledger
        self._yield_memory = yield_memory
        self._distances = distances(Position(Phase.EVALUATION, 0), len(places))
        self._loaded: dict[int, int] = {}
        """Of handles that were filled, the number of the mapping."""
        self._loading: set[int] = set()
        self._shortage = Shortage("no layer fits into the memory that is granted; the job waits")
        self._limit = Shortage("no layer fits into what the pod's memory limit leaves of the grant; the job waits")
        self._thread = ThreadPoolExecutor(1, "rowen-prefetch") if prefetch else None
        self._closed = False
        self._prefetching = False
        self._prefetched: Future[None] | None = None
        if ledger is not None:
            for layer, place in enumerate(places):
                ledger.add(_owner(layer), place.handles)

    def enter(self, position: Position, pass_tokens: int) -> Ticket:
        """Waits until the layer is in memory, where it stays until the next call unless it is taken away.

        Raises `RuntimeError` after `close`.
        """
        with self._handles.lock:
            if self._closed:
                raise RuntimeError("a pass of a layer whose window is closed")
            self._distances = distances(position, len(self._places))
            self._handles.notice()
            if position.layer == 0:
                # Once on each way through the model: what the process needs for itself comes and goes.
                self._handles.look_again()
            self._make_room(0, 0)
            if self._handles.spare < 0:
                self._yield_memory()
            if self._ledger is not None:
                costs = enumerate(self._distances)
                self._ledger.charge({_owner(layer): cost_tokens(distance, pass_tokens) for layer, distance in costs})
        while (ticket := self._ticket(position.layer)) is None:
            self._bring(position.layer)
        self._shortage.ends()
        self._limit.ends()
        self._start_prefetch()
        return ticket

    def holds(self, ticket: Ticket) -> bool:
        """Whether the layer has been in memory all the time since."""
        with self._handles.lock:
            if self._handles.taken != ticket.taken:
                self._handles.notice()
            return self._handles.serials(self._places[ticket.layer].handles) == ticket.serials

    def make_way(self, handles: int, others: int) -> bool:
        """Gives weights back for so many handles more of other use; False where two layers would have no room then."""
        two = 2 * max(len(place.handles) for place in self._places)
        if self._handles.most < two + others + handles:
            return False
        self._make_room(handles, 0)
        return self._handles.spare >= handles

    def close(self) -> None:
        """Ends the prefetching and gives all memory back."""
        if self._thread is not None:
            self._thread.shutdown()
        with self._handles.lock:
            self._closed = True
            self._handles.want(0)
            for layer, place in enumerate(self._places):
                self._handles.unmap(place.handles)
                if self._ledger is not None:
                    self._ledger.drop(_owner(layer))

    def _ticket(self, layer: int) -> Ticket | None:
        with self._handles.lock:
            taken = self._handles.taken
            self._handles.notice()
            serials = self._handles.serials(self._places[layer].handles)
            loaded = all(self._is_loaded(handle) for handle in self._places[layer].handles)
            return Ticket(layer, taken, serials) if loaded else None

    def _is_loaded(self, handle: int) -> bool:
        serial = self._handles.serial(handle)
        return serial is not None and self._loaded.get(handle) == serial

    def _unmapped(self, layer: int) -> list[int]:
        return [handle for handle in self._places[layer].handles if self._handles.serial(handle) is None]

    def _bring(self, layer: int) -> None:
        """A step on the way of the layer that is needed now."""
        with self._handles.lock:
            if layer in self._loading:
                self._handles.lock.wait(_WAIT_SECONDS)
                return
            self._obtain(layer)
            # How much room there is shows only where it ends. What is needed last makes way until the rest fits.
            while self._unmapped(layer) and self._handles.is_limited:
                held = self._handles.held
                self._obtain(layer)
                if self._handles.held >= held:
                    break
            load = self._begin(layer)
            missing = self._unmapped(layer)
            if load is None and missing:
                self._wait(len(missing))
        if load is not None:
            self._fill(load)

    def _obtain(self, layer: int) -> None:
        """Maps what the layer lacks, as far as there is room."""
        missing = self._unmapped(layer)
        self._make_room(len(missing), 0)
        if self._handles.spare < len(missing) and not self._loading:
            self._yield_memory()
        self._handles.map(missing)

    def _wait(self, handles: int) -> None:
        self.counts.waits += 1
        if self._loading:
            # What is being prefetched can be given back when that is done.
            self._handles.lock.wait(_WAIT_SECONDS)
            return
        is_limited = self._handles.is_limited
        (self._limit if is_limited else self._shortage).lasts(
            time.monotonic(),
            handle_bytes=self._handles.handle_bytes,
            handles_needed=self._handles.held + handles,
            handles_granted=self._handles.most,
        )
        if is_limited:
            # Nobody tells when the process needs less for itself, or the kernel has dropped pages of files.
            self._handles.lock.wait(_WAIT_SECONDS)
        else:
            self._handles.wait(handles, _WAIT_SECONDS)

    def _make_room(self, handles: int, distance: int) -> None:
        """Gives memory of layers back that are needed later than that, as far as so many more handles need it."""
        for layer in sorted(range(len(self._places)), key=self._distances.__getitem__, reverse=True):
            excess = handles - self._handles.spare
            if excess <= 0 or self._distances[layer] <= distance:
                return
            if layer not in self._loading:
                held = [handle for handle in self._places[layer].handles if self._handles.serial(handle) is not None]
                self._handles.unmap(held[:excess])

    def _begin(self, layer: int) -> _Load | None:
        """What is mapped of the layer and not filled; None where there is nothing."""
        mapped = {handle: self._handles.serial(handle) for handle in self._places[layer].handles}
        serials = {
            handle: serial
            for handle, serial in mapped.items()
            if serial is not None and self._loaded.get(handle) != serial
        }
        if not serials:
            return None
        self._loading.add(layer)
        return _Load(layer, serials)

    def _fill(self, load: _Load) -> None:
        try:
            for handle in load.serials:
                for piece in self._places[load.layer].pieces[handle]:
                    piece.target.copy_(piece.source)
            with self._handles.lock:
                self._loaded.update(load.serials)
                self.counts.loads += len(load.serials)
        finally:
            with self._handles.lock:
                self._loading.discard(load.layer)
                self._handles.lock.notify_all()

    def _start_prefetch(self) -> None:
        if self._thread is None:
            return
        if self._prefetched is not None and self._prefetched.done():
            # Raises what ended it, if anything did.
            self._prefetched.result()
        with self._handles.lock:
            if self._prefetching:
                return
            self._prefetching = True
        self._prefetched = self._thread.submit(self._prefetch)

    def _prefetch(self) -> None:
        while True:
            with self._handles.lock:
                load = self._next_load()
                if load is None:
                    self._prefetching = False
                    return
                self.counts.prefetches += len(load.serials)
            self._fill(load)

    def _next_load(self) -> _Load | None:
        """Handles of the layer that is needed next, mapped as far as the grant goes; None where it goes no further."""
        self._handles.notice()
        order = sorted(range(len(self._places)), key=self._distances.__getitem__)
        kept = len(self._unmapped(order[0]))
        for layer in order[1:]:
            if layer in self._loading:
                continue
            missing = self._unmapped(layer)
            self._make_room(kept + len(missing), self._distances[layer])
            mapped = self._handles.map(missing[: max(0, self._handles.spare - kept)])
            load = self._begin(layer)
            if load is not None:
                return load
            if len(mapped) < len(missing):
                return None
        return None


def _owner(layer: int) -> tuple[str, int]:
    return "layer", layer
