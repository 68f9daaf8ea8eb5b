"""Memory by the CUDA virtual memory API: pools of 2 MiB handles, and pages that are taken away under a stop."""

import hashlib
import os
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

from gpu.counters import BLOCKS, Counters
from gpu.cuda import PAGE, Device, check, driver, synchronize
from gpu.library import Library
from gpu.process import descriptor_of

SWEEPS = 1500
REMAP_SECONDS = 10.0


class Pool:
    """A range of addresses, and a handle for each of its pages."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.property = driver.CUmemAllocationProp()
        self.property.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self.property.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self.property.location.id = 0
        self._shareable = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        self.property.requestedHandleTypes = self._shareable
        self._access = driver.CUmemAccessDesc()
        self._access.location = self.property.location
        self._access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self.address = int(check(driver.cuMemAddressReserve(pages * PAGE, 0, 0, 0), "cuMemAddressReserve"))
        self.handles: list[Any] = []

    def create(self, count: int) -> list[Any]:
        """New handles of one page each."""
        return [check(driver.cuMemCreate(PAGE, self.property, 0), "cuMemCreate") for _ in range(count)]

    def map(self, page: int, handle: Any) -> None:
        """Maps a page; it needs access before it can be used."""
        check(driver.cuMemMap(self.address + page * PAGE, PAGE, 0, handle, 0), "cuMemMap")

    def set_access(self, first: int, count: int) -> None:
        """Lets the device read and write pages."""
        check(driver.cuMemSetAccess(self.address + first * PAGE, count * PAGE, [self._access], 1), "cuMemSetAccess")

    def unmap(self, first: int, count: int = 1) -> None:
        """Takes the mapping of pages away."""
        check(driver.cuMemUnmap(self.address + first * PAGE, count * PAGE), "cuMemUnmap")

    def fill(self) -> None:
        """A handle for every page, mapped with access."""
        self.handles = self.create(self.pages)
        for page, handle in enumerate(self.handles):
            self.map(page, handle)
        self.set_access(0, self.pages)

    def export(self, handle: Any) -> int:
        """A descriptor for another process."""
        return int(check(driver.cuMemExportToShareableHandle(handle, self._shareable, 0), "export"))

    def adopt(self, descriptor: int) -> Any:
        """A handle from another process's descriptor."""
        return check(driver.cuMemImportFromShareableHandle(descriptor, self._shareable), "import")

    def close(self) -> None:
        """Gives everything back; what is not mapped is passed over."""
        for page in range(self.pages):
            driver.cuMemUnmap(self.address + page * PAGE, PAGE)
        for handle in self.handles:
            check(driver.cuMemRelease(handle), "cuMemRelease")
        check(driver.cuMemAddressFree(self.address, self.pages * PAGE), "cuMemAddressFree")


class _Clock:
    """Microseconds per page of named steps."""

    def __init__(self, pages: int) -> None:
        self.pages, self.steps, self._at = pages, dict[str, float](), time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.steps[f"{name}_us_per_page"] = round((now - self._at) * 1e6 / self.pages, 3)
        self._at = time.perf_counter()


def _time_one(pages: int) -> dict[str, float | str]:
    pool, quarantine = Pool(pages), Pool(1)
    quarantine.fill()
    clock = _Clock(pages)
    pool.handles = pool.create(pages)
    clock.lap("create")
    for page, handle in enumerate(pool.handles):
        pool.map(page, handle)
    clock.lap("map")
    pool.set_access(0, pages)
    clock.lap("set_access")
    for page in range(pages):
        pool.unmap(page)
    clock.lap("unmap")
    for page in range(pages):
        pool.map(page, quarantine.handles[0])
    clock.lap("map_quarantine")
    pool.set_access(0, pages)
    clock.lap("set_access_quarantine")
    whole = "OK"
    try:
        pool.unmap(0, pages)
    except RuntimeError as error:
        whole = str(error)
    clock.lap("unmap_in_one_call")
    pool.close()
    quarantine.close()
    return {**clock.steps, "unmap_in_one_call": whole}


def time_pool(device: Device, counts: Sequence[int]) -> dict[str, Any]:
    """Each step of the virtual memory API for pools of several sizes; the first, small, only warms up."""
    device.enter()
    _time_one(4)
    return {str(count): _time_one(count) for count in counts}


def _words(device: Device, pool: Pool, page: int) -> bytes:
    return device.read(pool.address + page * PAGE, PAGE)


class _Remap:
    """Pages of a pool go to a quarantine page, one by one, in a thread whose end is waited for with a limit."""

    def __init__(self, device: Device, pool: Pool, quarantine: Pool, taken: Sequence[int]) -> None:
        self._device, self._pool, self._quarantine, self._taken = device, pool, quarantine, taken
        self.outcome: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self._device.enter()
        begin = time.perf_counter()
        try:
            for page in self._taken:
                self._pool.unmap(page)
                self._pool.map(page, self._quarantine.handles[0])
                self._pool.set_access(page, 1)
            self.outcome = {"remap_ms": round((time.perf_counter() - begin) * 1e3, 3)}
        except Exception as error:
            self.outcome = {"error": str(error)}

    def run(self) -> bool:
        """Whether it came to an end in time."""
        self._thread.start()
        self._thread.join(REMAP_SECONDS)
        return not self._thread.is_alive()

    def finish(self) -> bool:
        """The same, once more."""
        self._thread.join(REMAP_SECONDS)
        return not self._thread.is_alive()


def remap_under_a_stop(device: Device, library: Library, counters: Counters, pages: int, taken: int) -> dict[str, Any]:
    """Stops a kernel that adds to every word of a pool, takes pages away, goes on, and looks at every page."""
    device.enter()
    pool, quarantine, aside = Pool(pages), Pool(1), Pool(taken)
    pool.fill()
    quarantine.fill()
    check(driver.cuMemsetD8(pool.address, 0, pages * PAGE), "cuMemsetD8")
    check(driver.cuCtxSynchronize(), "cuCtxSynchronize")
    stream, chosen = device.stream(), sorted(random.Random(pages).sample(range(pages), taken))
    known = int(counters.values.sum())
    device.launch("sweep", stream, BLOCKS, 256, pool.address, pages * PAGE // 4, SWEEPS, device.register(counters))
    _until_beats(counters, known + 10 * BLOCKS)
    begin = time.perf_counter()
    status = library.switch_all(stop=True)
    remap = _Remap(device, pool, quarantine, chosen)
    in_time = remap.run() if status == 0 else False
    go = library.switch_all(stop=False)
    outcome = {
        "stop_status": status, "go_status": go, "held_ms": round((time.perf_counter() - begin) * 1e3, 3),
        "remapped_while_stopped": in_time, "remapped_after_go": remap.finish() if status == 0 else False,
        **remap.outcome,
    }  # fmt: skip
    return {**outcome, **_aftermath(device, stream, pool, aside, chosen)}


def _until_beats(counters: Counters, enough: int) -> None:
    end = time.monotonic() + 20
    while int(counters.values.sum()) < enough:
        if time.monotonic() > end:
            raise TimeoutError("the kernel did not begin")
        time.sleep(0.0005)


def _aftermath(device: Device, stream: Any, pool: Pool, aside: Pool, chosen: Sequence[int]) -> dict[str, Any]:
    """Whether the kernel ended well, what the pages hold that stayed, and whether the others were left alone."""
    for index, page in enumerate(chosen):
        aside.map(index, pool.handles[page])
    aside.set_access(0, aside.pages)
    before = [hashlib.sha256(_words(device, aside, index)).digest() for index in range(aside.pages)]
    try:
        synchronize(stream)
    except RuntimeError as error:
        return {"kernel": str(error)}
    expected = SWEEPS.to_bytes(4, "little") * (PAGE // 4)
    stayed = sorted(set(range(pool.pages)) - set(chosen))
    wrong = [page for page in stayed if _words(device, pool, page) != expected]
    after = [hashlib.sha256(_words(device, aside, index)).digest() for index in range(aside.pages)]
    return {
        "kernel": "OK",
        "pages_kept": len(stayed),
        "pages_kept_with_wrong_data": len(wrong),
        "pages_taken": len(chosen),
        "pages_taken_and_written_afterwards": sum(old != new for old, new in zip(before, after, strict=True)),
    }


class Shared:
    """One page that two processes map: made by one, adopted by the other from its descriptor."""

    def __init__(self, device: Device) -> None:
        self._device, self._pool = device, Pool(1)

    def make(self, value: int) -> int:
        """Makes the page, fills it, and returns its descriptor."""
        self._pool.fill()
        self.write(value)
        return self._pool.export(self._pool.handles[0])

    def adopt(self, pid: int, descriptor: int) -> None:
        """Maps the page of another process."""
        own = descriptor_of(pid, descriptor)
        self._pool.handles = [self._pool.adopt(own)]
        os.close(own)
        self._pool.map(0, self._pool.handles[0])
        self._pool.set_access(0, 1)

    def write(self, value: int) -> None:
        """Fills it with one byte."""
        check(driver.cuMemsetD8(self._pool.address, value, PAGE), "cuMemsetD8")
        check(driver.cuCtxSynchronize(), "cuCtxSynchronize")

    def read(self) -> list[int]:
        """The bytes that are in it."""
        return sorted(set(_words(self._device, self._pool, 0)))
