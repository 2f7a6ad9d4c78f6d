"""What the end of a run owes to others: a parent is told, a successor is started, children that still run are cancelled.

A child that continued as another run is that other run, and so on: what is asked of the first is asked of the last.

All of it is done before the run is given back, and is idempotent: whoever finds a run that ended and was not given back does
it again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TypeAlias

import msgspec

from outlast.errors import AlreadyExists, Damaged, Illegal, NotFound, OutcomeUnknown, Overtaken, RunGone, StoreError
from outlast.history import events as e
from outlast.history.ids import RunId, derived_run
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.reading import head_of, lineage_of, read_events, state_of
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import State
from outlast.store import Head, Journal

Ended: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued

log = logging.getLogger("outlast.engine")

RETRY_PAUSES_S = (0.05, 0.2, 1.0, 3.0)
"""Seconds between the tries of somebody who ends a run for a moment and has a troubled store."""


def successor_of(run: RunId, generation: int = 0) -> RunId:
    """The run that goes on for this one; always the same, until a person goes back."""
    return derived_run(run, "continued", *([str(generation)] if generation else []))


def open_children(state: State) -> list[RunId]:
    """The runs that this one started, waits for and has not seen the end of."""
    return [RunId(name) for name, child in state.children.items() if not child.status and not child.detached]


async def complete_run(ledger: Ledger, run: RunId, created: e.RunCreated, ending: Ended, state: State) -> None:
    """See that everybody who has to know of this end does. `state` is that of the run, which has ended."""
    await cancel_left_children(ledger, run, state)
    for child in open_children(state):
        await cancel(ledger, child, "its parent has ended")
    if isinstance(ending, e.RunContinued):
        successor = await _ensure_successor(ledger, created, ending)
        asked = state.outline.cancel_inherited
        if asked is not None:
            await cancel(ledger, successor, asked.reason or "the run that it continues was cancelled", by=asked.by)
    else:
        await _notify_parent(ledger, run, created, ending)


async def _notify_parent(ledger: Ledger, run: RunId, created: e.RunCreated, ending: Ended) -> None:
    if created.parent and await _is_waited_for(ledger.store, run, created):
        try:
            await ledger.deliver(RunId(created.parent), [_child_ended_event(created, ending)])
        except (RunGone, NotFound):
            pass  # it heard of it before, or is itself over
        except Damaged as damage:
            log.error("run %s ended, and its parent cannot receive that: %s", run, damage)


async def cancel_left_children(ledger: Ledger, run: RunId, state: State) -> list[RunId]:
    """See that the children of parts that were left are cancelled; returns the runs that are asked to stop and have not.

    BranchOpened names them, and every later owner of the run does this again until their ends are in its log."""
    asked = [await _cancel_left_child(ledger, run, RunId(child)) for child in state.to_cancel()]
    return [child for child in asked if child is not None]


async def _cancel_left_child(ledger: Ledger, parent: RunId, child: RunId) -> RunId | None:
    """Ask one to stop, or the run that it goes on as by now; None if that has ended: then its parent receives the end."""
    try:
        while True:
            if await ledger.store.head(child) is None:
                await _create_cancelled_child(ledger, parent, child)
            created = await created_of(ledger.store, child)
            if created.parent != parent:  # another run has the id: the child was never created
                await ledger.deliver(parent, [e.ChildEnded(child=child, status="cancelled")])
                return None
            asked = await continuation_of(ledger, child)
            if asked is None:
                ending = await ending_of(ledger.store, await head_of(ledger.store, child))
                await _notify_parent(ledger, child, created, ending)
                return None
            if asked == child:
                if not await has_cancel_request(ledger.store, child):
                    await ledger.deliver(child, [e.CancelRequested(reason="its parent went back to before it")])
                return child
            child = asked
    except RunGone:  # it ended meanwhile, and its owner tells
        return None
    except (Damaged, Illegal, *STRANGE) as error:
        log.error("run %s went back to before its child %s, which cannot be cancelled: %s", parent, child, error)
        return None


async def has_cancel_request(store: Journal, run: RunId) -> bool:
    """Whether a request to cancel a run is in its log and open."""
    head = await head_of(store, run)
    requests = (await state_of(store, run, await lineage_of(store, head))).outline.requests
    return newest(requests, e.CancelRequested) is not None


async def _create_cancelled_child(ledger: Ledger, parent: RunId, child: RunId) -> None:
    """Create a child that its parent did not come to create, as a run that is cancelled: then nobody creates it later, such
    as a former owner of the parent that does not know yet that it is one."""
    head, started = await head_of(ledger.store, parent), e.ChildStarted(child=child)
    async for entry in read_events(ledger.store, parent, [(1, head.version)]):
        if isinstance(entry.event, e.ChildStarted) and entry.event.child == child:
            started = entry.event
    created = e.RunCreated(
        workflow=started.workflow,
        parent=parent,
        parent_node=started.node,
        as_child=child,
        root=(await created_of(ledger.store, parent)).root,
    )
    with suppress(AlreadyExists):
        writer = ledger.begin(child, ledger.new_worker_id())
        await writer.append(
            [created, e.RunCancelled(reason="its parent went back to before it was created")], release=True
        )


async def end_now(ledger: Ledger, writer: RunWriter, ending: e.RunCancelled) -> None:
    """End a run that nobody drives, whatever is asked of it at the same time, and tell whoever has to know."""
    await _append_ending(writer, ending)
    for pause in RETRY_PAUSES_S:
        with suppress(StoreError):  # what is owed to others must not be forgotten over a moment's trouble
            await complete_run(ledger, writer.run, await created_of(ledger.store, writer.run), ending, writer.state)
            return
        await asyncio.sleep(pause)
    await complete_run(ledger, writer.run, await created_of(ledger.store, writer.run), ending, writer.state)


async def _append_ending(writer: RunWriter, ending: e.RunCancelled) -> None:
    """Append the end of a run. If it is not known whether that landed, it is asked."""
    reason = f"the run was cancelled{f': {ending.reason}' if ending.reason else ''}"
    pauses, events = list(RETRY_PAUSES_S), decide.end(writer.state, ending, reason)
    while True:
        try:
            await writer.append(events)
            return
        except Overtaken:
            events = decide.end(writer.state, ending, reason)
        except OutcomeUnknown:
            if not pauses:
                raise
            await asyncio.sleep(pauses.pop(0))


async def end_as_requested(ledger: Ledger, writer: RunWriter, error: e.Failure | None = None) -> None:
    """End a run that nobody drives, as somebody asked; without its clean-up, if that could not start because of `error`."""
    cleanup: decide.Cleanup = "failed" if error is not None else "stopped" if writer.state.outline.cleanup else "none"
    await end_now(ledger, writer, decide.cancelled(writer.state, cleanup, error))


async def cancel(ledger: Ledger, run: RunId, reason: str, *, by: str = "", force: bool = False) -> RunId | None:
    """Ask a run to stop, or the one that it goes on as by now; returns which was asked, if one is there and not over."""
    asked: RunId | None = run
    while asked is not None:
        try:
            await ledger.deliver(asked, [e.CancelRequested(by=by, reason=reason, force=force)])
            return asked
        except NotFound:
            return None
        except RunGone:
            asked = await continuation_of(ledger, asked)
        except Damaged as damage:
            log.error("run %s cannot be cancelled: %s", asked, damage)
            return None
    return None


async def continuation_of(ledger: Ledger, run: RunId) -> RunId | None:
    """Which run goes on for one that was over. Its owner may not have come to create it: then it is created here, for
    nobody could be asked to stop who comes into being after a look."""
    head = await head_of(ledger.store, run)
    if not head.closed:
        return run  # a person has gone back meanwhile
    ending = await ending_of(ledger.store, head)
    if not isinstance(ending, e.RunContinued):
        return None
    return await _ensure_successor(ledger, await created_of(ledger.store, run), ending)


async def _ensure_successor(ledger: Ledger, created: e.RunCreated, ending: e.RunContinued) -> RunId:
    """The successor of a run, which is there when this returns."""
    successor = RunId(ending.successor)
    again = msgspec.structs.replace(created, params=ending.carried, key="", forked_from="", more=None)
    with suppress(AlreadyExists):
        await ledger.create_ready(successor, again)
    return successor


async def latest_run_of(store: Journal, run: RunId) -> RunId:
    """The run that a run goes on as by now: the last one that is there of it, its successor, the successor of that, …"""
    while (head := await store.head(run)) is not None and head.closed:
        ending = await ending_of(store, head)
        if not isinstance(ending, e.RunContinued) or await store.head(RunId(ending.successor)) is None:
            break
        run = RunId(ending.successor)
    return run


async def _is_waited_for(store: Journal, run: RunId, created: e.RunCreated) -> bool:
    """Whether this is what the parent's child goes on as. It is not if somebody had an earlier run of the chain go back."""
    child = child_of(created)
    return run == child or await latest_run_of(store, child) == run


def child_of(created: e.RunCreated) -> RunId:
    """The run that the parent started, which this one is or goes on for."""
    return RunId(created.as_child) if created.as_child else derived_run(created.parent, created.parent_node)


def _child_ended_event(created: e.RunCreated, ending: Ended) -> e.ChildEnded:
    child = child_of(created)
    match ending:
        case e.RunCompleted():
            return e.ChildEnded(child=child, output=ending.output)
        case e.RunFailed():
            return e.ChildEnded(child=child, status="failed", error=ending.error)
        case _:
            return e.ChildEnded(child=child, status="cancelled")


async def created_of(store: Journal, run: RunId) -> e.RunCreated:
    """The first event of a run."""
    found = await store.read(run, 1, 1, 1)
    if not found:
        raise NotFound(f"there is no run {run}")
    event = found[0].events()[0]
    if not isinstance(event, e.RunCreated):
        raise Damaged("a log begins with RunCreated", run=run, seq=1)
    return event


async def ending_of(store: Journal, head: Head) -> Ended:
    """How a closed run ended. It is sought from the end: receipts may follow it, and a branch may begin after it."""
    for first, seq in reversed(await lineage_of(store, head)):
        while seq >= first:
            found = await store.read(head.run, seq, seq, 1)
            if not found:
                raise Damaged("the event is missing from the log", run=head.run, seq=seq)
            record = found[0]
            for place, event in reversed(list(enumerate(record.events(), record.first))):
                if place <= seq and isinstance(event, e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued):
                    return event
            seq = record.first - 1
    raise Damaged("it is closed and nothing says how it ended", run=head.run, seq=head.version)
