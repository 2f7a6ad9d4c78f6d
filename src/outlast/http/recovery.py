"""What happens before a server is ready: inconsistent runs are repaired, interrupted ones are handed over or held.

Every unfinished run is looked at, also those that another process may advance later; runs under the live claim of another
worker are left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from msgspec import Struct

from outlast.client import Engine
from outlast.errors import OutlastError
from outlast.history.ids import RunId
from outlast.lifecycle.diagnosis import Finding, HandOver, Open
from outlast.lifecycle.status import RunStatus
from outlast.services.sweeper import Sweeper

log = logging.getLogger("outlast.http")

AT_ONCE = 16
"""Runs that are examined at the same time."""
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
    tasks: set[asyncio.Task[None]] = set()
    async for run in _unfinished(engine):
        tasks.add(asyncio.create_task(_repaired(engine, run)))
        if len(tasks) >= AT_ONCE:
            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if tasks:
        await asyncio.wait(tasks)
    await _handed_over(engine, done, hold)
    await _announce_questions(engine, done)
    log.info("Recovery complete: %d resumed, %d held, %d questions restored.", done.resumed, done.held, done.questions)
    return done


async def _unfinished(engine: Engine) -> AsyncIterator[RunId]:
    async for run in engine.diagnostics.run_ids(unfinished=True):
        yield run


async def _repaired(engine: Engine, run: RunId) -> None:
    """Repair a run that is inconsistent. One that was merely interrupted is left to the handing over."""
    try:
        remedies = (await engine.diagnose(run, blobs=False)).remedies
        if not remedies or isinstance(remedies[0].remedy, HandOver):
            return
        before = await engine.diagnostics.current_branch(run)
        for finding in await engine.recover(run):
            log.info("Recovered run %s: %s %s.%s", run, finding.code, _sentence(finding), _branch(finding, before))
            before += isinstance(finding.remedy, Open)
    except OutlastError as error:
        log.warning("run %s could not be recovered: %s", run, _line(str(error)))


def _sentence(finding: Finding) -> str:
    return _line(finding.sentence).rstrip(".")


def _branch(finding: Finding, before: int) -> str:
    if not isinstance(finding.remedy, Open):
        return ""
    return f" Created branch {before + 1} from event {finding.remedy.turn.cutoff}."


async def _handed_over(engine: Engine, done: Recovered, hold: bool) -> None:
    report = await Sweeper(engine._ledger, stale_after=0, hold=hold).sweep()
    for seen in report.runs:
        if seen.outcome == "held":
            done.held += 1
            log.info("Run %s held: %s", seen.run, _line((await engine.get(seen.run)).reason or seen.detail))
        elif seen.outcome == "handed over":
            done.resumed += 1
            log.info("Run %s resumed: %s", seen.run, _line(seen.detail))
        elif seen.reason == "ready" and (await engine.get(seen.run)).status in GOING:
            done.resumed += 1
            log.info("Run %s resumed: it was released by its worker", seen.run)
        elif seen.reason == "unreadable":
            log.warning("run %s cannot be read: %s", seen.run, _line(seen.detail))


async def _announce_questions(engine: Engine, done: Recovered) -> None:
    after = ""
    while True:
        page, after = await engine._store.waits(kind="interaction", after=after, limit=1000)
        for each in page:
            done.questions += 1
            log.info("Question %s of run %s restored", _line(each.wait.id), each.run)
        if not after:
            return


def _line(text: str) -> str:
    """Text of users on one line of a log, without what a terminal would carry out."""
    return "".join(char if char.isprintable() else " " for char in text)[:1000]
