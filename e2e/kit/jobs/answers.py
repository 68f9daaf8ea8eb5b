"""What a batch's rows were answered."""

import json
from typing import Any


def results(text: bytes) -> dict[str, dict[str, Any]]:
    """A file of results by custom id; asserts that each is there once."""
    found = [json.loads(line) for line in text.splitlines()]
    by_id = {entry["custom_id"]: entry for entry in found}
    assert len(by_id) == len(found)
    return by_id


def check_answers(answers: dict[str, dict[str, Any]]) -> None:
    """Asserts that each row of `tiny.mixed` got what it asked for."""
    for custom_id, answer in answers.items():
        assert answer["response"]["status_code"] == 200, answer
        choice = answer["response"]["body"]["choices"][0]
        match custom_id.partition("-")[0]:
            case "plain":
                assert choice["message"]["content"]
            case "completed":
                assert choice["text"]
            case "formed":
                assert json.loads(choice["message"]["content"])["a"] in (1, 2)
            case "logged":
                assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2
