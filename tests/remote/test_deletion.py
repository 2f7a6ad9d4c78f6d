"""The engine of a server deletes and prunes."""

from __future__ import annotations

import pytest
import served

import outlast as ol
from outlast.errors import RunDeleted
from support.server_thread import ServerThread


async def test_an_engine_of_a_server_deletes_and_prunes(server: ServerThread) -> None:
    async with ol.connect(server.url, token=server.tokens["admin"], patience=30) as engine:
        runs = [await engine.start(served.served_echo, number) for number in range(3)]
        for run in runs:
            await run.result()
        tombstone = await engine.delete(runs[0].run, reason="asked to")
        assert (tombstone.run, tombstone.reason) == (runs[0].run, "asked to")
        for verb in (engine.get, engine.find, engine.result, engine.cancel, engine.explain):
            with pytest.raises(RunDeleted, match=f"run {runs[0].run} was deleted on"):
                await verb(runs[0].run)
        planned = await engine.prune(0, workflow="served_echo", dry_run=True)
        assert planned.runs == 2
        told: list[str] = []
        found = await engine.prune(0, workflow="served_echo", tell=told.append)
        assert (found.runs, found.refused, len(told)) == (2, {}, 1)
        assert [run.workflow for run in await engine.list_runs()] == ["outlast.bulk"]
