"""The log of a long-running command on stderr: the engine's and its own, as text or as lines of JSON."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
import typer

from outlast.views.times import iso

log = logging.getLogger("outlast.cli")
"""What the command itself reports."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


VerboseOption: TypeAlias = Annotated[bool, typer.Option("--verbose", "-v", help="Log details of the engine too.")]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")]
LogFormatOption: TypeAlias = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Format of the log on stderr. The default is text.", show_default=False),
]


def log_to_stderr(*, verbose: bool, quiet: bool, log_format: LogFormat | None) -> None:
    """Write the command's log to stderr, and the engine's too unless the program's own code has set logging up and no format
    was asked for."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else logging.Formatter("%(message)s"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    is_ours = log_format is not None or not logging.getLogger().handlers
    logger = logging.getLogger("outlast") if is_ours else log
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level)


class JsonLines(logging.Formatter):
    """Each record as one JSON object: time, level, logger, message, and the error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": iso(int(record.created * 1_000_000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(said).decode()
