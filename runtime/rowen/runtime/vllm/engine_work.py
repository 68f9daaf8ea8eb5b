"""Whether an engine has work, and when its steps ran, as the device is told."""

from rowen.runtime.native import Online


class EngineWork:
    """The engine counts as one request in flight from its first request to the end of its last step."""

    def __init__(self, device: Online | None) -> None:
        self._device = device
        self._busy = False
        self._begun: dict[int, tuple[int, int, int]] = {}
        self._last_end_ns = 0

    def raise_busy(self) -> None:
        """The engine has work from now on."""
        if self._device is not None and not self._busy:
            self._device.busy()
            self._busy = True

    def settle(self, unfinished: bool) -> None:
        """Brings the device up to date: the engine has work while requests are unfinished or a step runs."""
        if unfinished:
            self.raise_busy()
        elif self._device is not None and self._busy and not self._begun:
            self._device.idle()
            self._busy = False

    def begin(self, step: int, now_ns: int, decode_rows: int = 0, prefill_tokens: int = 0) -> None:
        """A step was handed to the worker. With asynchronous scheduling that is before the last one ended.

        `decode_rows`: requests that get their next token in it, beside tokens of prompts.
        """
        if self._device is not None:
            self._begun[step] = now_ns, decode_rows, prefill_tokens

    def end(self, step: int, now_ns: int) -> None:
        """The step's output is there."""
        begun = self._begun.pop(step, None)
        if self._device is not None and begun is not None:
            begin_ns = max(begun[0], self._last_end_ns)
            self._device.step(begin_ns, now_ns)
            self._device.composition(now_ns - begin_ns, *begun[1:])
            self._last_end_ns = now_ns
