"""vLLM's worker with a conductor around its steps."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rowen.runtime.log import get_logger

if TYPE_CHECKING:
    from rowen.runtime.vllm.riding.conductor import Conductor

log = get_logger()

Board = Callable[[Any, Any], "Conductor | None"]
"""Makes the conductor of an engine from its configuration and its model; None: nothing rides."""


def riding(worker: type, board: Board) -> type:
    """That class of vLLM's workers, or of Rowen's, in which fine-tuning rides."""
    return type(f"Riding{worker.__name__}", (RidingWorker, worker), {"rowen_board": staticmethod(board)})


class RidingWorker:
    """Private names have two underscores: they must be none that a worker has."""

    rowen_board: Board
    rowen_conductor: "Conductor | None" = None

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """And then riders can come."""
        self.__own.load_model(*args, **kwargs)
        worker: Any = self
        try:
            self.rowen_conductor = self.rowen_board(worker.vllm_config, worker.model_runner.get_model())
        except Exception:
            log.exception("nothing rides in this engine; it serves")

    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        """A step, which has more to it where there is nothing to choose tokens from yet."""
        conductor = self.rowen_conductor
        if conductor is None:
            return self.__own.execute_model(scheduler_output, *args, **kwargs)
        conductor.begin(scheduler_output)
        try:
            output = self.__own.execute_model(scheduler_output, *args, **kwargs)
        except BaseException:
            conductor.fail()
            raise
        if output is not None:
            conductor.finish()
        return output

    def sample_tokens(self, *args: Any, **kwargs: Any) -> Any:
        """The end of a step."""
        conductor = self.rowen_conductor
        if conductor is None:
            return self.__own.sample_tokens(*args, **kwargs)
        try:
            output = self.__own.sample_tokens(*args, **kwargs)
        except BaseException:
            conductor.fail()
            raise
        conductor.finish()
        return output

    def reload_weights(self, *args: Any, **kwargs: Any) -> Any:
        """The model is no longer that of its files."""
        return self.__changed(self.__own.reload_weights, args, kwargs)

    def reset_weights(self, *args: Any, **kwargs: Any) -> Any:
        """Nor after this."""
        return self.__changed(self.__own.reset_weights, args, kwargs)

    def start_weight_update(self, *args: Any, **kwargs: Any) -> Any:
        """Nor after this."""
        return self.__changed(self.__own.start_weight_update, args, kwargs)

    def shutdown(self, *args: Any, **kwargs: Any) -> Any:
        """Riders are let go."""
        conductor, self.rowen_conductor = self.rowen_conductor, None
        if conductor is not None:
            conductor.close()
        return self.__own.shutdown(*args, **kwargs)

    def __changed(self, change: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.rowen_conductor is not None:
            self.rowen_conductor.end("the engine's weights were changed")
        return change(*args, **kwargs)

    @property
    def __own(self) -> Any:
        """The worker as it is without this class."""
        return super()
