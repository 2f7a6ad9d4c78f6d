"""The statuses of a run, and the other names people know them by."""

from __future__ import annotations

from enum import StrEnum

from outlast.errors import InvalidInput


class Status(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
UNFINISHED = frozenset(Status) - TERMINAL

ALIASES: dict[str, Status] = {
    "pending": Status.CREATED,
    "initializing": Status.CREATED,
    "planning": Status.CREATED,
    "processing": Status.RUNNING,
    "in_progress": Status.RUNNING,
    "executing": Status.RUNNING,
    "synthesizing": Status.RUNNING,
    "awaiting_input": Status.WAITING,
    "blocked": Status.WAITING,
    "waiting_signal": Status.WAITING,
    "error": Status.FAILED,
}


def parse_status(name: str) -> Status:
    """The status of that name or alias, in any case; `InvalidInput` lists the names otherwise."""
    wanted = name.strip().lower()
    if wanted in ALIASES:
        return ALIASES[wanted]
    try:
        return Status(wanted)
    except ValueError:
        raise InvalidInput(f"{name!r} is not a status; there are: {', '.join(Status)}") from None
