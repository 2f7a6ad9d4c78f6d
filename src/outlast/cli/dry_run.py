"""`--dry-run`: the events that a command would append, and what becomes of children."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from outlast.cli.console import show_lines, write_bytes, write_json
from outlast.cli.entrypoint import SOUND
from outlast.cli.options import Reply
from outlast.client import Engine
from outlast.compose import open_desk
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.settings import Settings
from outlast.views.build import planned_views
from outlast.views.text import lines_of
from outlast.views.types import PlanView


async def dry_run(
    settings: Settings,
    name: str,
    preview: Callable[[Engine, RunId], Awaitable[Sequence[e.AnyEvent]]],
    reply: Reply,
) -> int:
    """Show the events that would be appended to a run. Nothing is changed."""
    async with open_desk(settings, readonly=True) as desk:
        run = await desk.find(name)
        events = await preview(desk, run)
    view = PlanView(run=run, would_append=planned_views(events))
    if reply is Reply.JSON:
        write_json(view, pretty=True)
    elif reply is Reply.IDS:
        write_bytes(f"{run}\n".encode())
    else:
        show_lines(lines_of(view, 0))
    return SOUND
