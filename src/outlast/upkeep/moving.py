"""Runs brought to another store, where they go on.

A run that is not over is paused first where it is, so that it goes on in one place only, and set going again where it has
arrived. Its log is byte for byte the same up to there, its blobs and its definition lie beside it. Whatever is interrupted
is done again from where it was: nothing is copied twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import astuple

from outlast.client import Client, Query
from outlast.errors import Conflict, NotFound, Refused
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.moving import copy_log
from outlast.ledger.reading import head_of, records
from outlast.lifecycle.status import TERMINAL, Status
from outlast.runtime.values import blob_of, is_elsewhere
from outlast.store import BlobRef, Store

MOVED = "it is copied to another store, and goes on there"
"""Why a run was paused here. One that is paused with this reason is set going where it arrives."""
PATIENCE = 60.0
"""Seconds that a live worker has to pause a run."""


class Moved(Struct, frozen=True):
    """What became of one run: so many events and blobs were missing; `how` it stands where it arrived."""

    run: RunId
    events: int
    blobs: int
    how: Literal["over", "going on", "as it was", "there already"]


async def copy_runs(
    source: Client, target: Client, stores: tuple[Store, Store], runs: list[RunId] | None, key: bytes = b""
) -> AsyncIterator[Moved]:
    """Bring these runs to another store, or all of them, one after the other."""
    if runs is None:
        runs = [listed.summary.run async for listed in source.all(Query(limit=1000))]
    for run in runs:
        yield await _moved(source, target, stores, run, key)


async def _moved(source: Client, target: Client, stores: tuple[Store, Store], run: RunId, key: bytes) -> Moved:
    here, there = stores
    await _stand_still(source, run)
    blobs = await _bring_blobs(here, there, run)
    events = await copy_log(here, there, run, key)
    summary = await target.get(run)
    if summary.status is Status.PAUSED and summary.reason == MOVED:
        await target.resume(run, by="outlast copy")
        return Moved(run, events, blobs, "going on")
    if not events:
        return Moved(run, 0, blobs, "there already")
    return Moved(run, events, blobs, "over" if summary.status in TERMINAL and not summary.held else "as it was")


async def _stand_still(source: Client, run: RunId) -> None:
    """Pause a run that would otherwise go on in two places."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while (await source.get(run)).status not in (*TERMINAL, Status.PAUSED):
        with suppress(Refused, Conflict):  # it has just stopped, or somebody has just taken it: look again
            await source.pause(run, by="outlast copy", reason=MOVED)
        if loop.time() > deadline:
            raise Refused(
                f"run {run} was asked to pause and has not: is its worker stuck? `outlast doctor {run}` may tell"
            )
        await asyncio.sleep(0.2)


async def _bring_blobs(here: Store, there: Store, run: RunId) -> int:
    """Every blob that the log names is there before the log names it there."""
    brought = 0
    head = await head_of(here, run)
    seen: set[str] = set()
    async for record in records(here, run, 1, head.version):
        for event in record.events():
            for ref in _named(event):
                if ref.hash not in seen:
                    seen.add(ref.hash)
                    brought += await _bring(here, there, ref)
    return brought


def _named(event: e.AnyEvent) -> list[BlobRef]:
    found = [blob_of(value) for value in astuple(event) if isinstance(value, Raw) and is_elsewhere(value)]
    version = event.version if isinstance(event, e.RunCreated | e.VersionChanged) else ""
    return [*found, BlobRef(version, 0)] if version else found


async def _bring(here: Store, there: Store, ref: BlobRef) -> bool:
    if await there.blobs.has(ref.hash) or not await here.blobs.has(ref.hash):
        return False
    arrived = await there.blobs.put(here.blobs.open(ref))
    if arrived.hash != ref.hash:
        raise NotFound(f"blob {ref.hash} does not hold what its name says")
    return True
