"""One JSON line per event on standard error: structlog for ours, the same renderer for the libraries' records.

Context (request, operation, session ids) comes from structlog's contextvars. Values that look like secrets are masked
before anything is rendered; that is a net under the rule that nobody logs one, not a licence.
"""

import logging
import logging.config
import re
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

MASK = "[hidden]"
SECRET_NAMES = re.compile(r"(password|passwd|secret|token|authorization|cookie|credential|master_key|api_key|private_key)", re.IGNORECASE)
HARMLESS_NAMES = frozenset({"lease_token", "token_id", "token_prefix", "input_tokens", "output_tokens", "budget_tokens"})
SECRET_TEXT = (
    re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)"),  # a password within a URL
    re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}"),
)


def mask(value: Any, name: str = "") -> Any:
    """The value with secrets replaced; nested mappings and lists are followed."""
    if name and SECRET_NAMES.search(name) and name not in HARMLESS_NAMES:
        return MASK
    if isinstance(value, Mapping):
        return {key: mask(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask(item) for item in value]
    if isinstance(value, str):
        for pattern in SECRET_TEXT:
            value = pattern.sub(MASK, value)
    return value


def mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Django hands its whole request to a line, whose text shows the query: what a customer asked for is not the log's."""
    event.pop("request", None)
    return {key: value if key.startswith("_") else mask(value, key) for key, value in event.items()}


SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
]


def configure(*, level: str, console: bool) -> None:
    """Idempotent; called while the settings are read, so that a failure of the settings' later users is logged too."""
    renderer: Any = structlog.dev.ConsoleRenderer(colors=False) if console else structlog.processors.JSONRenderer(default=str)
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": [*SHARED, structlog.stdlib.ExtraAdder()],
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, mask_event, renderer],
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"event": formatter},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "event"}},
            "root": {"handlers": ["stderr"], "level": level},
            "loggers": {
                "django.server": {"handlers": [], "propagate": True},
                "django.request": {"level": "ERROR"},  # what was refused is in the middleware's line
                "uvicorn.access": {"level": "WARNING"},  # the request middleware logs each request once, with its id
                "celery.utils.functional": {"level": "INFO"},
            },
        }
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
