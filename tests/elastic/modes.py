"""The engines that the scenarios run in. A token of the tests' model takes 512 bytes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    asynchronous: bool
    prefixes: bool
    block_tokens: int
    handle_bytes: int
    handles: int


MODES = {
    "two blocks on a handle": Mode(False, True, 32, 2**15, 64),
    "two blocks on a handle, asynchronous": Mode(True, True, 32, 2**15, 64),
    "a block on two handles, no prefixes": Mode(False, False, 32, 2**13, 200),
    "a block on two handles, asynchronous, no prefixes": Mode(True, False, 32, 2**13, 200),
    "padded blocks, asynchronous": Mode(True, True, 96, 2**17, 24),
}
