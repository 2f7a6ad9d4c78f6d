"""What is read of runs to understand them: their story, their branches, and what two of them did differently (D1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import Damaged, Illegal
from outlast.history.ids import RunId
from outlast.lifecycle.narrative import LINES, Narrator, Story

if TYPE_CHECKING:
    from outlast.client.reading import Reader


async def story_of(reader: Reader, run: RunId, branch: int | None, *, full: bool, lines: int = LINES) -> Story:
    """The story of a run as a branch of it has it; what its other branches did meanwhile is read to be told as left."""
    newest = await reader.newest(run)
    intervals = await reader.lineage(run, branch)
    narrator = Narrator(intervals, full=full)
    async for entry in reader.events(run, everything=True):
        if entry.seq > intervals[-1][1]:
            break
        try:
            narrator.hear(entry)
        except Illegal as objection:
            raise Damaged(objection.reason, run=run, seq=entry.seq) from objection
    return narrator.story(run, await reader.now(), newest=newest, lines=lines)
