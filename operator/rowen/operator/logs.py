"""Logs: one JSON object per line on stderr, kopf's too."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Sends structlog and the standard library's loggers to stderr."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # A line per request, probes included, would hide everything else.
    for name in ("httpx", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.WARNING)
