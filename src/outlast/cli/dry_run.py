"""`--dry-run`: the events that a command would append, and what becomes of children."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from rich.text import Text

from outlast.cli.console import screen, write_bytes, write_json
from outlast.cli.entrypoint import SOUND
from outlast.cli.options import Reply
from outlast.cli.texts import counted, plain
from outlast.client import Engine
from outlast.compose import open_desk
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.settings import Settings


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
    if reply is Reply.JSON:
        write_json({"run": run, "would_append": [msgspec.to_builtins(event) for event in events]}, pretty=True)
    elif reply is Reply.IDS:
        write_bytes(f"{run}\n".encode())
    else:
        _show(run, events)
    return SOUND


def _show(run: RunId, events: Sequence[e.AnyEvent]) -> None:
    console = screen()
    console.print(Text(f"run {run} would be taken over, and these events appended:", style="bold"), soft_wrap=True)
    for event in events:
        console.print(Text(f"  {plain(said(event))}"), soft_wrap=True)
    for event in events:
        if isinstance(event, e.BranchOpened):
            for verb, children in (("cancelled", event.cancelled), ("detached", event.detached)):
                if children:
                    line = f"{counted(len(children), 'child', 'children')} would be {verb}: {', '.join(children)}"
                    console.print(Text(plain(line), style="yellow"), soft_wrap=True)


def said(event: Any) -> str:
    """An event with its fields, on one line."""
    fields = {
        name: value for name, value in msgspec.to_builtins(event).items() if name != "type" and value not in ("", ())
    }
    told = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return f"{type(event).__name__}({told})"
