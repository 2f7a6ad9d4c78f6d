"""The statuses of a run, and their aliases."""

from __future__ import annotations

from enum import StrEnum

from outlast.errors import InvalidInput


class RunStatus(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


(CREATED, RUNNING, WAITING, PAUSED, COMPENSATING, COMPLETED, FAILED, CANCELLED) = RunStatus
"""Names for the members: a lookup in the enum costs more than the rest of a comparison."""


TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
LIVE = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.COMPENSATING})
UNFINISHED = frozenset(RunStatus) - TERMINAL

ALIASES: dict[str, RunStatus] = {
    "pending": RunStatus.CREATED,
    "initializing": RunStatus.CREATED,
    "planning": RunStatus.CREATED,
    "processing": RunStatus.RUNNING,
    "in_progress": RunStatus.RUNNING,
    "executing": RunStatus.RUNNING,
    "synthesizing": RunStatus.RUNNING,
    "awaiting_input": RunStatus.WAITING,
    "blocked": RunStatus.WAITING,
    "waiting_signal": RunStatus.WAITING,
    "error": RunStatus.FAILED,
}


def parse_status(name: str) -> RunStatus:
    """The status of that name or alias, case-insensitively; `InvalidInput` lists the names otherwise."""
    wanted = name.strip().lower()
    if wanted in ALIASES:
        return ALIASES[wanted]
    try:
        return RunStatus(wanted)
    except ValueError:
        raise InvalidInput(f"{name!r} is not a status; use one of: {', '.join(RunStatus)}") from None
