"""A wrong environment is told by the variable's name."""

import pytest
from pydantic import BaseModel, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from rowen.kube.settings import SettingsError, read_settings


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ROWEN_TEST_", frozen=True)

    image: str = Field(min_length=1)
    workers: int = Field(default=8, ge=1)
    place: str = Field(default="here", min_length=1, validation_alias="TEST_PLACE")


class Group(BaseModel):
    size: int = 1


class Grouped(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ROWEN_TEST_", frozen=True)

    group: Group = Group()


def test_what_is_set_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_TEST_IMAGE", "i")
    monkeypatch.setenv("ROWEN_TEST_OTHER", "not ours")
    monkeypatch.setenv("TEST_PLACE", "there")
    assert read_settings(Settings).model_dump() == {"image": "i", "workers": 8, "place": "there"}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "ROWEN_TEST_IMAGE: Field required"),
        ({"ROWEN_TEST_IMAGE": ""}, "ROWEN_TEST_IMAGE: String should have at least 1 character"),
        ({"ROWEN_TEST_IMAGE": "i", "ROWEN_TEST_WORKERS": "many"}, "ROWEN_TEST_WORKERS: Input should be a valid int"),
        ({"ROWEN_TEST_IMAGE": "i", "ROWEN_TEST_WORKERS": "0"}, "ROWEN_TEST_WORKERS: Input should be greater than"),
        ({"ROWEN_TEST_IMAGE": "i", "TEST_PLACE": ""}, "TEST_PLACE: String should have"),
        ({"ROWEN_TEST_WORKERS": "0"}, r"ROWEN_TEST_IMAGE: .*; ROWEN_TEST_WORKERS: "),
    ],
)
def test_what_is_wrong_is_named(environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{words}"):
        read_settings(Settings)


def test_a_group_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWEN_TEST_GROUP", "x")
    with pytest.raises(SettingsError, match="group"):
        read_settings(Grouped)
