"""What happens before a server is ready: inconsistent runs are repaired, interrupted ones are handed over or held.

Every unfinished run is looked at, also those that another process may advance later; runs under the live claim of another
worker are left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable

from msgspec import Struct

from outlast.client import Engine
from outlast.errors import Conflict, OutlastError
from outlast.history.ids import RunId, WorkerId
from outlast.lifecycle.diagnosis import Finding, HandOver, Open, Say
from outlast.lifecycle.status import RunStatus

log = logging.getLogger("outlast.http")

AT_ONCE = 16
"""Runs that are examined at the same time."""
LEASE_S = 30.0
GOING = (RunStatus.RUNNING, RunStatus.COMPENSATING)


class Recovered(Struct):
    """What a start-up did: runs that continue, runs that wait for a person's decision, open questions."""

    resumed: int = 0
    held: int = 0
    questions: int = 0


async def recover_all(engine: Engine, *, hold: bool = False) -> Recovered:
    """Carry the catalogue of inconsistent states out over every unfinished run, then hand over what was interrupted: to the
    workers or, with `hold`, to a person. Each step is logged."""
    done = Recovered()
    later = await _repaired_all(engine, engine.diagnostics.run_ids(unfinished=True), hold=hold)
    await _handed_over(engine, done, hold)
    await _repaired_all(engine, _each(later), hold=False)
    await _announce_questions(engine, done)
    log.info("Recovery complete: %d resumed, %d held, %d questions restored.", done.resumed, done.held, done.questions)
    return done


async def _each(runs: Iterable[RunId]) -> AsyncIterator[RunId]:
    for run in runs:
        yield run


async def _repaired_all(engine: Engine, runs: AsyncIterator[RunId], *, hold: bool) -> list[RunId]:
    """Repair these runs, several at a time; returns those that have to be held first."""
    tasks: set[asyncio.Task[RunId | None]] = set()
    left: list[RunId] = []

    async def until(most: int) -> None:
        nonlocal tasks
        while len(tasks) > most:
            ended, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            left.extend(run for task in ended if (run := task.result()) is not None)

    async for run in runs:
        tasks.add(asyncio.create_task(_repaired(engine, run, hold=hold)))
        await until(AT_ONCE - 1)
    await until(0)
    return left


async def _repaired(engine: Engine, run: RunId, *, hold: bool) -> RunId | None:
    """Repair a run that is inconsistent. One that was merely interrupted is left to the handing over. So is, at first, one
    that only misses a word about its version and is to be held: a repair releases a run to the workers."""
    try:
        remedies = (await engine.diagnose(run, blobs=False)).remedies
        if not remedies or isinstance(remedies[0].remedy, HandOver):
            return None
        if hold and isinstance(remedies[0].remedy, Say) and await _is_interrupted(engine, run):
            return run
        before = await engine.diagnostics.current_branch(run)
        for finding in await engine.recover(run):
            log.info("Recovered run %s: %s %s.%s", run, finding.code, _sentence(finding), _branch(finding, before))
            before += isinstance(finding.remedy, Open)
    except OutlastError as error:
        log.warning("run %s could not be recovered: %s", run, one_line(str(error)))
    return None


def _sentence(finding: Finding) -> str:
    return one_line(finding.sentence).rstrip(".")


def _branch(finding: Finding, before: int) -> str:
    if not isinstance(finding.remedy, Open):
        return ""
    return f" Created branch {before + 1} from event {finding.remedy.plan.cutoff}."


async def _handed_over(engine: Engine, done: Recovered, hold: bool) -> None:
    """Take over what was running and is nobody's, and release it: ready for a worker, or held."""
    ledger, store = engine._ledger, engine._store
    worker = ledger.new_worker_id()
    await store.enrol(worker, LEASE_S)
    try:
        async for run in engine.diagnostics.run_ids(unfinished=True):
            try:
                if await _is_interrupted(engine, run):
                    await store.renew(worker, LEASE_S)
                    await _hand_over(engine, worker, run, done, hold)
                elif await _is_released(engine, run):
                    done.resumed += 1
                    log.info("Run %s resumed: its worker released it", run)
            except Conflict:
                continue  # somebody else has taken it over meanwhile
            except OutlastError as error:
                log.warning("run %s could not be taken over: %s", run, one_line(str(error)))
    finally:
        await store.retire(worker)


async def _is_interrupted(engine: Engine, run: RunId) -> bool:
    """Whether a run says that it is running, nobody alive holds it, and no worker was asked to."""
    head, holding = await engine._store.head(run), await engine._store.holding(run)
    if head is None or head.closed or (holding is not None and holding.is_live):
        return False
    summary = await engine.get(run)
    is_going = summary.status in GOING or (
        summary.status is RunStatus.CREATED and not head.ready and not summary.awaits_start
    )
    return is_going and not (head.ready and holding is None)


async def _is_released(engine: Engine, run: RunId) -> bool:
    head, holding = await engine._store.head(run), await engine._store.holding(run)
    return head is not None and head.ready and holding is None and (await engine.get(run)).status in GOING


async def _hand_over(engine: Engine, worker: WorkerId, run: RunId, done: Recovered, hold: bool) -> None:
    claims = await engine._store.claim(worker, runs=[run])
    if not claims:
        return
    writer = await engine._ledger.take_over(claims[0], hold=hold)
    outline = writer.state.outline
    await writer.release_when_read(lambda state: not state.is_closed and not state.outline.held)
    if outline.held:
        done.held += 1
        log.info("Run %s held: %s", run, one_line(outline.reason))
    else:
        done.resumed += 1
        log.info("Run %s resumed: its worker is gone", run)


async def _announce_questions(engine: Engine, done: Recovered) -> None:
    after = ""
    while True:
        page, after = await engine._store.waits(kind="interaction", after=after, limit=1000)
        for each in page:
            done.questions += 1
            log.info("Question %s of run %s restored", one_line(each.wait.id), each.run)
        if not after:
            return


def one_line(text: str) -> str:
    """Text of users on one line of a log, without what a terminal would carry out."""
    return (text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text))[:1000]
