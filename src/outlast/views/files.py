"""The files that a run wrote, as its log lines name them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.errors import NotFound
from outlast.execution.partial_file import FINISHED, INTERRUPTED
from outlast.history.ids import RunId
from outlast.views.run_view import Tally
from outlast.views.types import FileView

if TYPE_CHECKING:
    from outlast.client import Engine

MAX_LINES = 50_000
"""Log lines of a run that are searched."""


async def files_of(engine: Engine, run: RunId) -> list[FileView]:
    """The files of a run in the order they were first written. A partial file stays listed after a later attempt completed
    its own: it is not removed."""
    found: dict[str, FileView] = {}
    count = 0
    async for line in engine.lines(run):
        if line.logger in (FINISHED, INTERRUPTED):
            found[line.text] = FileView(path=line.text, node=line.node, complete=line.logger == FINISHED)
        count += 1
        if count == MAX_LINES:
            break
    return list(found.values())


async def files_of_family(engine: Engine, tally: Tally) -> list[FileView]:
    """The files of a run and of its children."""
    found = await files_of(engine, tally.run)
    for child in [name for name, _ in tally.state.children.items()]:
        with suppress(NotFound):
            found += await files_of(engine, RunId(child))
    return found


def file_lines(files: Sequence[FileView]) -> list[str]:
    done = [f"  {file.path}" for file in files if file.complete]
    partial = [f"  {file.path}" for file in files if not file.complete]
    return [*(["Complete files:", *done] if done else []), *(["Partial files:", *partial] if partial else [])]
