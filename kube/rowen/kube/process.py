"""A component's process: settings out of its environment, work until it is asked to end, and an exit code."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog
from pydantic_settings import BaseSettings

from rowen.kube import logs, nesting
from rowen.kube.errors import LoginError
from rowen.kube.settings import SettingsError, read_settings

T = TypeVar("T", bound=BaseSettings)

ENDED, NO_LOGIN, WRONG_SETTINGS = 0, 1, 2


def run_component(model: type[T], serve: Callable[[T], Coroutine[Any, Any, None]]) -> int:
    """Has `serve` work with the settings, and gives the exit code: 0 when it has ended.

    2 for settings that are wrong or name what cannot be used (`SettingsError`, from `serve` too), 1 where nothing tells
    how to reach the API server (`LoginError`); the log says which in a line.
    """
    logs.configure()
    nesting.allow()
    try:
        asyncio.run(serve(read_settings(model)))
    except SettingsError as error:
        structlog.get_logger().error("wrong settings", error=str(error))
        return WRONG_SETTINGS
    except LoginError as error:
        structlog.get_logger().error("no way to the API server", error=str(error))
        return NO_LOGIN
    return ENDED
