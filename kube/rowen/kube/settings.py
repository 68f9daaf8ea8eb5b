"""Settings of a component, out of its environment."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings
from pydantic_settings import SettingsError as UnreadableError

T = TypeVar("T", bound=BaseSettings)


class SettingsError(ValueError):
    """The environment says something that cannot be; the message names each variable."""


def read_settings(model: type[T]) -> T:
    """What the process's environment says. Raises `SettingsError`."""
    try:
        return model()
    except ValidationError as error:
        raise SettingsError("; ".join(_words(model, fault["loc"], fault["msg"]) for fault in error.errors())) from error
    except UnreadableError as error:
        # No JSON where a group of settings is set as a whole; the message names the field.
        raise SettingsError(str(error)) from error


@contextmanager
def named(variable: str, folder: Path | None) -> Iterator[None]:
    """What is wrong with the files in a folder (`OSError`, `ValueError`) is told with the variable that names it.

    Raises `SettingsError`.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable} ({folder or 'not set'}): {error}") from error


def _words(model: type[BaseSettings], where: tuple[int | str, ...], message: str) -> str:
    outer, name = (str(where[0]), str(where[-1])) if where else ("", "")
    # A field that has another name outside is told by that one; one of a group, by its own.
    variable = f"{model.model_config.get('env_prefix', '')}{name}".upper() if outer in model.model_fields else name
    return f"{variable}: {message}" if variable else message
