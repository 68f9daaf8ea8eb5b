"""The CUDA driver API, as far as the measurements need it: context, kernels, memory.

`cuda-bindings` (not a dependency of Rowen: it is on the GPU machine) is imported here alone.
"""

import ctypes
from pathlib import Path
from typing import Any

from cuda.bindings import driver, nvrtc
from gpu.counters import Counters

PAGE = 2 << 20


class CudaError(RuntimeError):
    """A call that failed, with its name and the driver's word for the error."""


def check(result: tuple[Any, ...], what: str) -> Any:
    """The value of a call. Raises `CudaError`."""
    error, *values = result
    if int(error) != 0:
        raise CudaError(f"{what}: {error.name}")
    return values[0] if len(values) == 1 else tuple(values)


class Device:
    """Device 0 with its primary context, current in the calling thread, and the kernels of kernels.cu."""

    def __init__(self) -> None:
        check(driver.cuInit(0), "cuInit")
        self.handle = check(driver.cuDeviceGet(0), "cuDeviceGet")
        self.context = check(driver.cuDevicePrimaryCtxRetain(self.handle), "cuDevicePrimaryCtxRetain")
        self.enter()
        module = check(driver.cuModuleLoadData(self._compiled()), "cuModuleLoadData")
        self._kernels = {
            name: check(driver.cuModuleGetFunction(module, name.encode()), name)
            for name in ("iterate", "beat", "sweep")
        }

    def enter(self) -> None:
        """Makes the context current in this thread."""
        check(driver.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")

    def _attribute(self, name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(driver.cuDeviceGetAttribute(attribute, self.handle), name))

    def _compiled(self) -> bytes:
        source = (Path(__file__).parent / "kernels.cu").read_bytes()
        capability = f"{self._attribute('COMPUTE_CAPABILITY_MAJOR')}{self._attribute('COMPUTE_CAPABILITY_MINOR')}"
        program = check(nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], []), "nvrtcCreateProgram")
        options = [f"--gpu-architecture=sm_{capability}".encode()]
        result = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(result[0]) != 0:
            log = b" " * check(nvrtc.nvrtcGetProgramLogSize(program), "nvrtcGetProgramLogSize")
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CudaError(f"kernels.cu: {log.decode(errors='replace')}")
        image = b" " * check(nvrtc.nvrtcGetCUBINSize(program), "nvrtcGetCUBINSize")
        check(nvrtc.nvrtcGetCUBIN(program, image), "nvrtcGetCUBIN")
        return image

    def launch(self, name: str, stream: Any, blocks: int, threads: int, *arguments: int) -> None:
        """Launches a kernel whose arguments are all 64 bits wide."""
        values = tuple(arguments)
        types = (ctypes.c_uint64,) * len(values)
        check(
            driver.cuLaunchKernel(self._kernels[name], blocks, 1, 1, threads, 1, 1, 0, stream, (values, types), 0), name
        )

    def register(self, counters: Counters) -> int:
        """Makes counters visible to the device; returns the address that it knows them by."""
        flags = driver.CU_MEMHOSTREGISTER_DEVICEMAP | driver.CU_MEMHOSTREGISTER_PORTABLE
        error = driver.cuMemHostRegister(counters.address, counters.size, flags)[0]
        if error != driver.CUresult.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
            check((error,), "cuMemHostRegister")
        return int(check(driver.cuMemHostGetDevicePointer(counters.address, 0), "cuMemHostGetDevicePointer"))

    def stream(self) -> Any:
        """A stream that does not wait for the default one."""
        return check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate")

    def allocate(self, size: int) -> int:
        """Bytes of device memory, set to 0."""
        address = check(driver.cuMemAlloc(size), "cuMemAlloc")
        check(driver.cuMemsetD8(address, 0, size), "cuMemsetD8")
        return int(address)

    def read(self, address: int, size: int) -> bytes:
        """Copies to the host; waits for it."""
        buffer = bytearray(size)
        pointer = ctypes.addressof((ctypes.c_char * size).from_buffer(buffer))
        check(driver.cuMemcpyDtoH(pointer, address, size), "cuMemcpyDtoH")
        return bytes(buffer)


def synchronize(stream: Any) -> None:
    """Waits for a stream."""
    check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize")
