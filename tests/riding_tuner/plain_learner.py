"""A learner that leaves all to PEFT, transformers and autograd."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from rowen.runtime.coserve.learner import Phase, Window
from rowen.runtime.coserve.task import IGNORED, Pair, Place, Result, Target, Task, TaskUnsuitable


class PlainLearner:
    """Works a task through in one part."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._tasks: dict[int, Task] = {}
        self._finished: list[tuple[int, Result | TaskUnsuitable]] = []

    def add(self, guest: int, task: Task) -> None:
        assert guest not in self._tasks
        self._tasks[guest] = task

    def drop(self, guest: int) -> None:
        self._tasks.pop(guest, None)

    def window(self, most_tokens: int) -> Window | None:
        return None

    def part(self, most_tokens: int) -> "_Whole | None":
        for guest, task in self._tasks.items():
            return _Whole(self, guest, task)
        return None

    def finished(self) -> list[tuple[int, Result | TaskUnsuitable]]:
        found, self._finished = self._finished, []
        return found

    @property
    def waiting_tokens(self) -> int:
        return 0

    def end(self, guest: int, result: Result) -> None:
        del self._tasks[guest]
        self._finished.append((guest, result))

    def result(self, task: Task) -> Result:
        base = AutoModelForCausalLM.from_pretrained(self._model, dtype=torch.float32)
        places = list(task.adapter.pairs) or [(0, Target.QUERY)]
        names = sorted({str(target) for _, target in places})
        rank = next((pair.a.shape[0] for pair in task.adapter.pairs.values()), 1)
        model = get_peft_model(base, LoraConfig(r=rank, target_modules=names, task_type="CAUSAL_LM"))
        layers = {place: _layer(model, place) for place in places}
        for place, pair in task.adapter.pairs.items():
            layers[place].lora_A["default"].weight.data.copy_(pair.a)
            layers[place].lora_B["default"].weight.data.copy_(pair.b)
            layers[place].scaling["default"] = task.adapter.scaling
        loss, learned, correct = torch.zeros(()), 0, 0
        for sequence in task.sequences:
            logits = model(input_ids=sequence.tokens[None].clone()).logits[0]
            labels = sequence.labels.clone()
            loss = loss + cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")
            learned += int((labels != IGNORED).sum())
            correct += int((logits.argmax(-1) == labels).sum())
        gradients: dict[Place, Pair] = {}
        if task.gradients:
            (loss * task.loss_scale).backward()
            gradients = {
                place: Pair(*(weight.grad for weight in layers[place].parameters() if weight.grad is not None))
                for place in places
            }
        return Result(task.number, loss.item(), learned, correct, gradients)


class _Whole:
    phase = Phase.FORWARD
    tokens = context = 1

    def __init__(self, learner: PlainLearner, guest: int, task: Task) -> None:
        self._learner, self._guest, self._task = learner, guest, task

    def run(self) -> None:
        with torch.inference_mode(mode=False), torch.enable_grad():
            self._learner.end(self._guest, self._learner.result(self._task))


def _layer(model: torch.nn.Module, place: Place) -> torch.nn.Module:
    layer, target = place
    [found] = [
        module
        for name, module in model.named_modules()
        if f".layers.{layer}." in name and name.endswith(f".{target}") and hasattr(module, "lora_A")
    ]
    return found
