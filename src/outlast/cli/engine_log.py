"""The log of a long-running command on stderr: the engine's and its own, as text or as lines of JSON."""

from __future__ import annotations

import logging
import re
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
import typer

from outlast.values.context import current_attempt_log
from outlast.views.times import iso

log = logging.getLogger("outlast.cli")
"""The messages of the command."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


VerboseOption: TypeAlias = Annotated[bool, typer.Option("--verbose", "-v", help="Log details of the engine.")]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and errors only.")]
LogFormatOption: TypeAlias = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Format of the log on stderr (default: text).", show_default=False),
]


def log_to_stderr(*, verbose: bool, quiet: bool, log_format: LogFormat | None) -> None:
    """Write the log of the command to stderr. The log of the engine follows, unless the workflow code has configured logging
    and there is no --log-format."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else logging.Formatter("%(message)s"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    if log_format is LogFormat.JSON:  # also what workflows and nodes log, each with its run
        logger = logging.getLogger()
    else:
        is_ours = log_format is not None or not logging.getLogger().handlers
        logger = logging.getLogger("outlast") if is_ours else log
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level)


_PLACEHOLDER = re.compile(r"%[-+ #0]*[0-9.]*[a-zA-Z]")


def subject_of(record: logging.LogRecord) -> dict[str, object]:
    """The run, node and attempt that a record is about: of the attempt that logged it, else those that it names."""
    attempt = current_attempt_log()
    if attempt is not None:
        return {"run": attempt.run, "node": attempt.node, "attempt": attempt.attempt}
    found: dict[str, object] = {}
    if isinstance(record.args, tuple) and isinstance(record.msg, str):
        for place, match in enumerate(_PLACEHOLDER.finditer(record.msg)):
            before = record.msg[: match.start()].lower()
            for name in ("run", "node"):
                if before.endswith(f"{name} ") and place < len(record.args):
                    found.setdefault(name, str(record.args[place]))
    return found


class JsonLines(logging.Formatter):
    """Each record as one JSON object: time, level, logger, message, what it is about, and the error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": iso(int(record.created * 1_000_000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **subject_of(record),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()
