"""The files that a run wrote, as the lines of its nodes name them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from outlast.client import Engine
from outlast.errors import NotFound
from outlast.execution.partial_file import FINISHED, INTERRUPTED
from outlast.history.ids import RunId
from outlast.views.run_view import Tally
from outlast.views.types import FileView

MOST_LINES = 50_000
"""So many lines of a run are looked through."""


async def files_of(desk: Engine, run: RunId) -> list[FileView]:
    """Each once, in the order they were first written. A partial file is listed also when a later attempt completed its own:
    nothing removes it."""
    found: dict[str, FileView] = {}
    seen = 0
    async for line in desk.lines(run):
        if line.logger == FINISHED:
            found[line.text] = FileView(path=line.text, node=line.node, complete=True)
        elif line.logger == INTERRUPTED:
            found[line.text] = FileView(path=line.text, node=line.node, complete=False)
        seen += 1
        if seen == MOST_LINES:
            break
    return list(found.values())


async def files_of_family(desk: Engine, tally: Tally) -> list[FileView]:
    """Those of a run and of the runs that it started."""
    found = await files_of(desk, tally.run)
    for child in dict(tally.state.children.items()):
        with suppress(NotFound):
            found += await files_of(desk, RunId(child))
    return found


def in_words(files: Sequence[FileView]) -> list[str]:
    """Lines for people: what is complete, and what is not."""
    done = [f"  {file.path}" for file in files if file.complete]
    partial = [f"  {file.path}" for file in files if not file.complete]
    return [*(["Files that are complete:", *done] if done else []), *(["Partial files:", *partial] if partial else [])]
