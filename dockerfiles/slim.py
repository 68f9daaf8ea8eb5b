"""Removes from an environment what a machine without a GPU never runs: `python slim.py SITE_PACKAGES`.

The torch wheel of the main package index is the CUDA build. Its libraries name CUDA's as dependencies, so these must
be there when torch is loaded, yet nothing in them is called without a GPU. The large ones are replaced by hollow
libraries that export the same names; those that are only opened on demand are removed. Where a function is called all
the same, the process ends with SIGILL: it does not go wrong silently.
"""

import shutil
import struct
import sys
from pathlib import Path

HOLLOWED = [
    "nvidia/cu13/lib/libcublas.so.13",
    "nvidia/cu13/lib/libcublasLt.so.13",
    "nvidia/cu13/lib/libcufft.so.12",
    "nvidia/cu13/lib/libcurand.so.10",
    "nvidia/cu13/lib/libcusparse.so.12",
    "nvidia/cu13/lib/libnvrtc.so.13",
    "nvidia/cusparselt/lib/libcusparseLt.so.0",
    "nvidia/nccl/lib/libnccl.so.2",
    "nvidia/nvshmem/lib/libnvshmem_host.so.3",
]
REMOVED = [
    "nvidia/*/include",
    "nvidia/*/bin",
    "nvidia/*/nvvm",
    "nvidia/*/lib/*.a",
    "nvidia/cu13/lib/libcusolver*",
    "nvidia/cu13/lib/libnvJitLink*",
    "nvidia/cu13/lib/libnvblas*",
    "nvidia/cu13/lib/libnvperf*",
    "nvidia/cu13/lib/libnvrtc.alt*",
    "nvidia/cu13/lib/libnvrtc-builtins*",
    "nvidia/cudnn/lib/libcudnn_*",
    "nvidia/nvshmem/lib/*.bc",
    "torch/bin/protoc*",
    "torch/include",
    "torch/lib/libtorch_cuda_linalg.so",
    "torch/share",
    "torch/test",
]

HEADER_SIZE, PROGRAM_SIZE, PROGRAMS = 64, 56, 3
SYMBOL = struct.Struct("<IBBHQQ")
UNDEFINED_INSTRUCTION = b"\x0f\x0b".ljust(16, b"\0")
DYNAMIC_SYMBOLS = 11
# What the loader needs of a library to resolve names in it: section type -> tag in the dynamic section.
KEPT_SECTIONS = {5: 4, 0x6FFFFFF6: 0x6FFFFEF5, 0x6FFFFFFF: 0x6FFFFFF0, 0x6FFFFFFD: 0x6FFFFFFC}
VERSION_DEFINITIONS = 0x6FFFFFFD


def main() -> None:
    """Works on the folder of the command line and prints what it saved."""
    packages = Path(sys.argv[1])
    before = size(packages)
    for name in HOLLOWED:
        path = packages / name
        if not path.is_file():
            raise SystemExit(f"{path} is missing: look at the list again, another torch is installed")
        hollow = hollow_library(path.name, path.read_bytes())
        path.unlink()
        path.write_bytes(hollow)
    for pattern in REMOVED:
        for path in packages.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(f"{before / 2**20:.0f} MiB -> {size(packages) / 2**20:.0f} MiB")  # noqa: T201 - shown in the build


def size(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def hollow_library(name: str, library: bytes) -> bytes:
    """A library (ELF, System V ABI, 64-bit x86) with the same names, whose every function is an undefined instruction.

    Symbols, their versions and hash tables are taken over as they are; each symbol points to the same instruction.
    """
    sections = section_headers(library)
    symbol_section = next(section for section in sections if section[1] == DYNAMIC_SYMBOLS)
    strings = content(library, sections[symbol_section[6]])
    body = bytearray(UNDEFINED_INSTRUCTION)
    start = HEADER_SIZE + PROGRAMS * PROGRAM_SIZE

    def place(data: bytes) -> int:
        body.extend(bytes(-len(body) % 8))
        at = start + len(body)
        body.extend(data)
        return at

    # DT_SYMTAB, DT_SYMENT, DT_STRTAB, DT_STRSZ, DT_SONAME
    entries = [(6, place(redirected(content(library, symbol_section), start))), (11, SYMBOL.size)]
    entries += [(14, len(strings)), (10, len(strings) + len(name) + 1)]
    entries += [(5, place(strings + name.encode() + b"\0"))]
    for section in sections:
        if section[1] in KEPT_SECTIONS:
            entries.append((KEPT_SECTIONS[section[1]], place(content(library, section))))
        if section[1] == VERSION_DEFINITIONS:
            entries.append((VERSION_DEFINITIONS, section[7]))
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in [*entries, (0, 0)])
    dynamic_at = place(dynamic)
    # PT_LOAD, PT_DYNAMIC, and PT_GNU_STACK, without which the loader asks for an executable stack.
    table = program(1, 7, 0, start + len(body), 4096) + program(2, 6, dynamic_at, len(dynamic), 8)
    return file_header() + table + program(0x6474E551, 6, 0, 0, 16) + bytes(body)


def section_headers(library: bytes) -> list[tuple[int, ...]]:
    """Section headers: name, type, flags, address, offset, size, link, info, alignment, entry size."""
    at, entry_size, count = struct.unpack_from("<Q", library, 40)[0], *struct.unpack_from("<HH", library, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", library, at + index * entry_size) for index in range(count)]


def content(library: bytes, section: tuple[int, ...]) -> bytes:
    """Bytes of a section."""
    return library[section[4] : section[4] + section[5]]


def redirected(symbols: bytes, target: int) -> bytes:
    """The symbols, with each defined one at the target."""
    moved = b""
    for name, info, other, section, value, length in SYMBOL.iter_unpack(symbols):
        moved += SYMBOL.pack(name, info, other, section, target if section else value, length)
    return moved


def file_header() -> bytes:
    """ELF header of a shared object without sections."""
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return identity + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, HEADER_SIZE, 0, 0, 64, PROGRAM_SIZE, PROGRAMS, 0, 0, 0)


def program(kind: int, flags: int, start: int, length: int, align: int) -> bytes:
    """A program header; offsets in the file are addresses."""
    return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, length, length, align)


if __name__ == "__main__":
    main()
