"""The batch worker's scheduler, which can also stop by itself at the end of each step (`--scheduler-cls`)."""

import os
import time
from pathlib import Path
from typing import Any

from colocation.flags import FLAGS_ENV, Flags, Mode
from typing_extensions import override

from rowen.runtime.vllm.elastic.scheduler import ElasticScheduler

_LOOK_SECONDS = 0.0005


class StepScheduler(ElasticScheduler):
    """Waits while requests are in flight, in `Mode.STEP`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._flags = Flags(Path(os.environ[FLAGS_ENV]))

    @override
    def update_from_output(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().update_from_output(*args, **kwargs)
        while self._flags.mode is Mode.STEP and self._flags.busy:
            time.sleep(_LOOK_SECONDS)
        return outputs
