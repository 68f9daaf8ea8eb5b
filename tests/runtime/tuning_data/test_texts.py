"""Which token ids the model is trained on, and which of them it learns."""

from functools import partial

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from rowen.runtime.failure import WorkerError
from rowen.runtime.tuning.data.encoding import Examples, RowEncoder, encode_rows
from rowen.runtime.tuning.data.example import IGNORED, Example
from rowen.runtime.tuning.data.rows import Text

WORDS = ["<unk>", "<s>", "</s>", "my", "kettle", "leaks", "please", "descale", "it"]
UNK, BOS, EOS, MY, KETTLE, LEAKS, PLEASE, DESCALE, IT = range(len(WORDS))
ROW = Text("my kettle leaks", "please descale it")
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


def encode(rows: list[Text], of: PreTrainedTokenizerFast, sequence_length: int) -> Examples:
    encoder = RowEncoder(of, assistant_only=False)
    return encode_rows([("row", partial(value, row)) for row in rows], encoder, sequence_length)


def value(row: Text) -> dict[str, str]:
    """The row as a file has it."""
    return {"prompt": row.prompt, "completion": row.completion} if row.prompt else {"text": row.completion}


def example(row: Text, of: PreTrainedTokenizerFast, sequence_length: int = 100) -> Example:
    [found] = encode([row], of, sequence_length).kept
    return found


def given(found: Example) -> list[int]:
    return [token for token, label in zip(found.tokens, found.labels, strict=True) if label == IGNORED]


def learned(found: Example) -> list[int]:
    """The tokens that the trainer's loss is made of: those that something stands before."""
    batch = DataCollatorForLanguageModeling(pad_token_id=0)([{"input_ids": found.tokens, "labels": found.labels}])
    return sorted(label for label in batch["labels"][0, 1:].tolist() if label != IGNORED)


@pytest.mark.parametrize(
    ("template", "start"),
    [(None, []), ("<s> $A", [BOS]), ("$A </s>", []), ("<s> $A </s>", [BOS]), ("<s> <s> $A", [BOS, BOS])],
)
def test_prompt_and_completion_are_one_sequence(template: str | None, start: list[int]) -> None:
    found = example(ROW, tokenizer(template))
    assert list(found.tokens) == [*start, *PROMPT, *COMPLETION, EOS]
    assert given(found) == [*start, *PROMPT]
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
    found = example(Text("", "my kettle leaks"), tokenizer(template))
    assert list(found.tokens) == [*start, *PROMPT, EOS]
    assert learned(found) == sorted(targets)


def test_without_an_end_token_there_is_none() -> None:
    assert list(example(ROW, tokenizer("<s> $A", end=None)).tokens) == [BOS, *PROMPT, *COMPLETION]


def test_one_token_may_begin_and_end_a_sequence() -> None:
    found = example(ROW, tokenizer("</s> $A", start="</s>"))
    assert list(found.tokens) == [EOS, *PROMPT, *COMPLETION, EOS]
    assert given(found) == [EOS, *PROMPT]


def test_special_tokens_that_the_text_spells_out_are_not_doubled() -> None:
    of = tokenizer("<s> $A </s>")
    written = example(Text("<s> my kettle leaks", "please descale it </s>"), of)
    assert written == example(ROW, of)
    text = example(Text("", "<s> my kettle leaks </s>"), of)
    assert list(text.tokens) == [BOS, *PROMPT, EOS]
    assert learned(text) == sorted([*PROMPT, EOS])


@pytest.mark.parametrize("completion", ["<s> kettle", "<s>", "<s> <s>", " "])
def test_no_row_decides_what_begins_a_sequence(completion: str) -> None:
    rows = [Text("my", completion), ROW]
    for of in (tokenizer("<s> $A"), tokenizer("<s> $A </s>")):
        assert list(encode(rows, of, 100).kept[-1].tokens) == [BOS, *PROMPT, *COMPLETION, EOS]
    assert list(encode(rows, tokenizer("$A </s>"), 100).kept[-1].tokens) == [*PROMPT, *COMPLETION, EOS]


WHOLE = 1 + len(PROMPT) + len(COMPLETION) + 1


@pytest.mark.parametrize(
    ("sequence_length", "cut"), [(WHOLE, 0), (WHOLE - 1, 1), (1 + len(PROMPT) + 1, 1)], ids=["whole", "no end", "least"]
)
def test_rows_that_are_cut_are_counted(sequence_length: int, cut: int) -> None:
    examples = encode([ROW], tokenizer("<s> $A"), sequence_length)
    [found] = examples.kept
    assert list(found.tokens) == [BOS, *PROMPT, *COMPLETION, EOS][:sequence_length]
    assert (examples.cut_rows, examples.dropped_rows) == (cut, 0)


def test_rows_that_leave_nothing_are_dropped_and_not_counted_as_cut() -> None:
    short = Text("my", "kettle")
    examples = encode([ROW, short, ROW], tokenizer("<s> $A"), 1 + len(PROMPT))
    assert [list(found.tokens) for found in examples.kept] == [[BOS, MY, KETTLE, EOS]]
    assert (examples.cut_rows, examples.dropped_rows) == (0, 2)


@pytest.mark.parametrize(("template", "row"), [("<s> $A", ROW), (None, Text("", "my"))])
def test_a_dataset_of_such_rows_is_refused(template: str | None, row: Text) -> None:
    least = 1 + len(PROMPT) if row.prompt else 1
    with pytest.raises(WorkerError, match=rf"within {least} tokens; raise sequenceLength") as caught:
        encode([row], tokenizer(template), least)
    assert caught.value.reason == "DatasetMalformed"


@pytest.mark.parametrize("row", [Text("my", " "), Text("", "my")])
def test_a_row_too_short_to_learn_from_is_dropped(row: Text) -> None:
    examples = encode([row, ROW], tokenizer(None, end=None), 100)
    assert [list(found.tokens) for found in examples.kept] == [[*PROMPT, *COMPLETION]]
    assert (examples.cut_rows, examples.dropped_rows) == (0, 1)
