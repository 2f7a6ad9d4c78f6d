"""What every test about branches looks at: who sees which events, and that nothing that was written has changed."""

from __future__ import annotations

from typing import Any

import pytest

import outlast as ol
from outlast.history import events as e
from outlast.history.record import Entry


def naive(log: list[Entry], branch: int) -> list[int]:
    """The events that a branch sees, told the slow way."""
    own = [entry.seq for entry in log if entry.branch == branch]
    opening = next((entry.event for entry in log if entry.branch == branch), None)
    if not isinstance(opening, e.BranchOpened):
        return own
    return [seq for seq in naive(log, opening.parent) if seq <= max(opening.cutoff, 1)] + own


class Witness:
    """Remembers the stored records of a run, and looks at it again."""

    def __init__(self, client: ol.Engine, run: str) -> None:
        self.client, self.run = client, run
        self.seen: list[tuple[Any, ...]] = []

    async def stored(self) -> list[tuple[Any, ...]]:
        store: Any = self.client._store
        return [
            (r.first, r.count, r.branch, r.epoch, r.kind, r.id, r.time, r.body, r.digest)
            for r in await store.read(self.run, 1, None, 100_000)
        ]

    async def look(self, client: ol.Engine | None = None) -> list[Entry]:
        """The whole log: what was there is there, byte for byte; every lineage is the naive one; the log proves itself."""
        self.client = client or self.client
        now = await self.stored()
        assert now[: len(self.seen)] == self.seen
        self.seen = now
        log = [entry async for entry in self.client.events(self.run, everything=True)]
        for branch in range(await self.client.diagnostics.current_branch(self.run) + 1):
            seen = [entry.seq async for entry in self.client.events(self.run, branch=branch)]
            assert seen == naive(log, branch), f"branch {branch}"
        proof = await self.client.verify(self.run)
        assert proof.is_sound, proof.violations
        return log


@pytest.fixture
def witness() -> type[Witness]:
    return Witness
