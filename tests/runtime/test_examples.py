"""Which token ids the model is trained on, and which of them it learns."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.dataset import Row
from rowen.runtime.tuning.examples import Example, encode_rows
from rowen.runtime.tuning.loss import batch_loss

WORDS = ["<unk>", "<s>", "</s>", "my", "kettle", "leaks", "please", "descale", "it"]
UNK, BOS, EOS, MY, KETTLE, LEAKS, PLEASE, DESCALE, IT = range(len(WORDS))
ROW = Row("my kettle leaks", "please descale it")
PROMPT, COMPLETION = [MY, KETTLE, LEAKS], [PLEASE, DESCALE, IT]


def tokenizer(template: str | None, end: str | None = "</s>", start: str = "<s>") -> PreTrainedTokenizerFast:
    """A tokenizer of words that puts its special tokens where the template says."""
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["<s>", "</s>"])
    if template is not None:
        words.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=[("<s>", BOS), ("</s>", EOS)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token=start, eos_token=end, unk_token="<unk>")


def example(row: Row, of: PreTrainedTokenizerFast, sequence_length: int = 100) -> Example:
    [found] = encode_rows([row], of, sequence_length).kept
    return found


def learned(found: Example) -> list[int]:
    """The tokens that the loss is made of, found out by a model whose every token costs a power of two."""
    costs = torch.tensor([2.0**number for number in range(len(WORDS))])

    class Model:
        def __call__(self, input_ids: torch.Tensor, **_: Any) -> SimpleNamespace:
            return SimpleNamespace(logits=(-costs).expand(*input_ids.shape, len(WORDS)))

    total, count = batch_loss(Model(), [found])
    # What the softmax adds is the same for each token.
    rest = round(float(total) - count * float(torch.logsumexp(-costs, 0)))
    tokens = [number for number in range(len(WORDS)) if rest >> number & 1]
    assert len(tokens) == count
    return tokens


@pytest.mark.parametrize(
    ("template", "start"),
    [(None, []), ("<s> $A", [BOS]), ("$A </s>", []), ("<s> $A </s>", [BOS]), ("<s> <s> $A", [BOS, BOS])],
)
def test_prompt_and_completion_are_one_sequence(template: str | None, start: list[int]) -> None:
    found = example(ROW, tokenizer(template))
    assert found.tokens == [*start, *PROMPT, *COMPLETION, EOS]
    assert found.tokens[: found.given_tokens] == [*start, *PROMPT]
    assert learned(found) == sorted([*COMPLETION, EOS])


@pytest.mark.parametrize(
    ("template", "start", "targets"),
    [
        (None, [], [KETTLE, LEAKS, EOS]),
        ("<s> $A", [BOS], [MY, KETTLE, LEAKS, EOS]),
        ("$A </s>", [], [KETTLE, LEAKS, EOS]),
        ("<s> $A </s>", [BOS], [MY, KETTLE, LEAKS, EOS]),
    ],
)
def test_of_a_text_everything_is_learned_that_something_stands_before(
    template: str | None, start: list[int], targets: list[int]
) -> None:
    found = example(Row("", "my kettle leaks"), tokenizer(template))
    assert found.tokens == [*start, *PROMPT, EOS]
    assert learned(found) == sorted(targets)


def test_without_an_end_token_there_is_none() -> None:
    assert example(ROW, tokenizer("<s> $A", end=None)).tokens == [BOS, *PROMPT, *COMPLETION]


def test_one_token_may_begin_and_end_a_sequence() -> None:
    found = example(ROW, tokenizer("</s> $A", start="</s>"))
    assert found.tokens == [EOS, *PROMPT, *COMPLETION, EOS]
    assert found.given_tokens == 4


def test_special_tokens_that_the_text_spells_out_are_not_doubled() -> None:
    of = tokenizer("<s> $A </s>")
    written = example(Row("<s> my kettle leaks", "please descale it </s>"), of)
    assert written == example(ROW, of)
    text = example(Row("", "<s> my kettle leaks </s>"), of)
    assert text.tokens == [BOS, *PROMPT, EOS]
    assert learned(text) == sorted([*PROMPT, EOS])


@pytest.mark.parametrize("completion", ["<s> kettle", "<s>", "<s> <s>", " "])
def test_no_row_decides_what_begins_a_sequence(completion: str) -> None:
    rows = [Row("my", completion), ROW]
    for of in (tokenizer("<s> $A"), tokenizer("<s> $A </s>")):
        assert encode_rows(rows, of, 100).kept[-1].tokens == [BOS, *PROMPT, *COMPLETION, EOS]
    assert encode_rows(rows, tokenizer("$A </s>"), 100).kept[-1].tokens == [*PROMPT, *COMPLETION, EOS]


WHOLE = 1 + len(PROMPT) + len(COMPLETION) + 1


@pytest.mark.parametrize(
    ("sequence_length", "cut"), [(WHOLE, 0), (WHOLE - 1, 1), (1 + len(PROMPT) + 1, 1)], ids=["whole", "no end", "least"]
)
def test_rows_that_are_cut_are_counted(sequence_length: int, cut: int) -> None:
    examples = encode_rows([ROW], tokenizer("<s> $A"), sequence_length)
    [found] = examples.kept
    assert found.tokens == [BOS, *PROMPT, *COMPLETION, EOS][:sequence_length]
    assert (examples.cut_rows, examples.dropped_rows) == (cut, 0)


def test_rows_that_leave_nothing_are_dropped_and_not_counted_as_cut() -> None:
    short = Row("my", "kettle")
    examples = encode_rows([ROW, short, ROW], tokenizer("<s> $A"), 1 + len(PROMPT))
    assert [found.tokens for found in examples.kept] == [[BOS, MY, KETTLE, EOS]]
    assert (examples.cut_rows, examples.dropped_rows) == (0, 2)


@pytest.mark.parametrize(("template", "row"), [("<s> $A", ROW), (None, Row("", "my"))])
def test_a_dataset_of_such_rows_is_refused(template: str | None, row: Row) -> None:
    least = 1 + len(PROMPT) if row.prompt else 1
    with pytest.raises(WorkerError, match=rf"within {least} tokens; raise sequenceLength") as caught:
        encode_rows([row], tokenizer(template), least)
    assert caught.value.reason == "DatasetMalformed"


@pytest.mark.parametrize("row", [Row("my", " "), Row("", "my")])
def test_a_row_too_short_to_learn_from_is_dropped(row: Row) -> None:
    examples = encode_rows([row, ROW], tokenizer(None, end=None), 100)
    assert [found.tokens for found in examples.kept] == [[*PROMPT, *COMPLETION]]
    assert (examples.cut_rows, examples.dropped_rows) == (0, 1)
