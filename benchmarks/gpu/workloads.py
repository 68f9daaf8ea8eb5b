"""What tenants and neighbours run on the GPU: a fixed amount of work with a digest of its result, and beats.

PyTorch is imported by the workloads that need it, so that a tenant of the driver API alone stays one.
"""

import hashlib
import time
from collections import deque
from typing import Any, Protocol

from gpu.counters import BLOCKS, Counters
from gpu.cuda import Device, synchronize
from typing_extensions import override

THREADS = 256
STRIDE = 8192
IN_FLIGHT = 4


class Workload(Protocol):
    """Work of which `amount` pieces are done."""

    def run(self, amount: int) -> str:
        """Does it, and returns a digest that depends on the whole of it."""
        ...


class Iterate:
    """One long kernel on every multiprocessor, by the driver API; a piece is one step of every thread."""

    def __init__(self, device: Device, counters: int) -> None:
        self._device, self._counters = device, counters
        self._stream = device.stream()

    def run(self, amount: int) -> str:
        """Runs the kernel to its end."""
        size = 8 * BLOCKS * THREADS
        states = self._device.allocate(size)
        self._device.launch("iterate", self._stream, BLOCKS, THREADS, states, amount, STRIDE, self._counters)
        synchronize(self._stream)
        return hashlib.sha256(self._device.read(states, size)).hexdigest()


class _Torch:
    """Pieces queued on a stream of PyTorch's, a few at a time, with a beat after each."""

    def __init__(self, device: Device, counters: int) -> None:
        import torch

        self.torch: Any = torch
        self._device, self._counters = device, counters
        torch.manual_seed(0)
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.prepare()
        self.stream.synchronize()

    def prepare(self) -> None:
        """Makes the tensors, on the workload's stream."""
        raise NotImplementedError

    def piece(self) -> None:
        """Queues one piece on the current stream."""
        raise NotImplementedError

    def result(self) -> Any:
        """The tensor that depends on every piece."""
        raise NotImplementedError

    def beat(self) -> None:
        """Counts, in the order of the current stream."""
        stream = self.torch.cuda.current_stream().cuda_stream
        self._device.launch("beat", stream, 1, 1, self._counters)

    def run(self, amount: int) -> str:
        """Queues so many pieces, and waits for the last."""
        self.torch.cuda.set_device(0)
        waiting: deque[Any] = deque()
        with self.torch.cuda.stream(self.stream):
            for _ in range(amount):
                self.piece()
                event = self.torch.cuda.Event()
                event.record()
                waiting.append(event)
                if len(waiting) > IN_FLIGHT:
                    waiting.popleft().synchronize()
        self.stream.synchronize()
        raw = self.result().contiguous().view(self.torch.uint8).cpu().numpy().tobytes()
        return hashlib.sha256(raw).hexdigest()


class Matmul(_Torch):
    """Products of large matrices through cuBLAS, each fed by the one before."""

    side = 8192

    @override
    def prepare(self) -> None:
        make = lambda: self.torch.randn(self.side, self.side, device="cuda", dtype=self.torch.bfloat16)  # noqa: E731
        self.state, self.weight = make(), make() / self.side**0.5

    @override
    def piece(self) -> None:
        self.state = self.state @ self.weight
        self.state /= self.state.abs().amax()
        self.beat()

    @override
    def result(self) -> Any:
        return self.state


class LongMatmul(Matmul):
    """Products in float32 that take some 100 ms each: a stop falls into the middle of a kernel."""

    side = 16384

    @override
    def prepare(self) -> None:
        super().prepare()
        self.state, self.weight = self.state.float(), self.weight.float()


class Graph(_Torch):
    """A CUDA graph like a decode step: a small batch through 24 layers of 4096."""

    @override
    def prepare(self) -> None:
        make = self.torch.randn
        weights = [make(4096, 4096, device="cuda", dtype=self.torch.bfloat16) / 64 for _ in range(24)]
        self.state = make(16, 4096, device="cuda", dtype=self.torch.bfloat16)

        def step() -> None:
            state = self.state
            for weight in weights:
                state = self.torch.nn.functional.rms_norm(state @ weight, (4096,))
            self.state.copy_(state)
            self.beat()

        for _ in range(3):
            step()
        self.torch.cuda.synchronize()
        self._graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self._graph, stream=self.stream):
            step()
        self._weights = weights

    @override
    def piece(self) -> None:
        self._graph.replay()

    @override
    def result(self) -> Any:
        return self.state


class Copy(_Torch):
    """Copies of 256 MiB to the device and back, through pinned memory; each time one byte further."""

    @override
    def prepare(self) -> None:
        self.host = self.torch.arange(1 << 25, dtype=self.torch.int64).pin_memory()
        self.back = self.torch.zeros_like(self.host).pin_memory()
        self.there = self.torch.empty(1 << 25, dtype=self.torch.int64, device="cuda")

    @override
    def piece(self) -> None:
        self.there.copy_(self.host, non_blocking=True)
        self.there += 1
        self.back.copy_(self.there, non_blocking=True)
        self.host, self.back = self.back, self.host
        self.beat()

    @override
    def result(self) -> Any:
        return self.host


KINDS: dict[str, type] = {
    "iterate": Iterate, "matmul": Matmul, "long-matmul": LongMatmul, "graph": Graph, "copy": Copy
}  # fmt: skip
PROBES = {"iterate": 4_000_000, "matmul": 50, "long-matmul": 2, "graph": 100, "copy": 4}
"""Pieces that tell how fast a kind is."""


def make(kind: str, device: Device, counters: Counters) -> Workload:
    """Raises `KeyError` for a kind that is not there."""
    workload: Workload = KINDS[kind](device, device.register(counters))
    return workload


def amount_for(workload: Workload, kind: str, seconds: float) -> int:
    """Pieces that take about so long alone."""
    workload.run(PROBES[kind])
    begin = time.perf_counter()
    workload.run(PROBES[kind])
    return max(1, round(PROBES[kind] * seconds / (time.perf_counter() - begin)))
