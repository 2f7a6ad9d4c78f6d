"""Effects of a run's end on other runs: its parent receives the end, its successor is created, its open children are
cancelled.

A child that continues as another run is represented by its latest successor: requests to the child go to that run.

All of it happens before the run is released, and is idempotent: the next owner of a closed run that was not released
repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import msgspec

from outlast.errors import (
    AlreadyExists,
    Damaged,
    Illegal,
    NotFound,
    OutcomeUnknown,
    Overtaken,
    RunDeleted,
    RunGone,
    StoreError,
)
from outlast.history import events as e
from outlast.history.ids import RunId, derived_run
from outlast.ledger import Ledger, RunWriter
from outlast.ledger.reading import (
    Ended,
    created_of,
    ending_of,
    head_of,
    latest_run_of,
    lineage_of,
    read_events,
    state_of,
)
from outlast.ledger.slots import exclusive_slot
from outlast.ledger.verification import STRANGE
from outlast.lifecycle import decide
from outlast.lifecycle.requests import newest
from outlast.lifecycle.state import State
from outlast.store import Head, Store

log = logging.getLogger("outlast.engine")

RETRY_PAUSES_S = (0.05, 0.2, 1.0, 3.0)
"""Seconds between the attempts of a temporary owner to end a run while the store fails."""


def successor_of(run: RunId, generation: int = 0) -> RunId:
    """The successor of a run. The id is derived, and differs only after a branch."""
    return derived_run(run, "continued", *([str(generation)] if generation else []))


def open_children(state: State) -> list[RunId]:
    """The children that a run waits for and whose ends are not in its log."""
    return [RunId(name) for name, child in state.children.items() if not child.status and not child.detached]


async def complete_run(ledger: Ledger, run: RunId, created: e.RunCreated, ending: Ended, state: State) -> None:
    """Apply the effects of a run's end to other runs. `state` is that of the run, which has ended."""
    await cancel_left_children(ledger, run, state)
    for child in open_children(state):
        await cancel(ledger, child, "its parent has ended")
    if isinstance(ending, e.RunContinued):
        head = await head_of(ledger.store, run)
        successor = await _ensure_successor(ledger, head, created, ending, state)
        request = state.outline.cancel_inherited
        if request is not None:
            await cancel(ledger, successor, request.reason or "the run that it continues was cancelled", by=request.by)
    else:
        await _notify_parent(ledger, run, created, ending)


async def _notify_parent(ledger: Ledger, run: RunId, created: e.RunCreated, ending: Ended) -> None:
    if created.parent and await _is_waited_for(ledger.store, run, created):
        try:
            await ledger.deliver_end(RunId(created.parent), _child_ended_event(created, ending))
        except (RunGone, NotFound):
            pass  # the parent has the event already, or has ended itself
        except Damaged as damage:
            log.error("run %s ended, but its end cannot be delivered to its parent: %s", run, damage)


async def cancel_left_children(ledger: Ledger, run: RunId, state: State) -> list[RunId]:
    """Cancel the children that were started on an abandoned part of the log; return those that have a request and have
    not ended.

    BranchOpened names these children. Every later owner of the run repeats this until their ends are in its log."""
    cancelled = [await _cancel_left_child(ledger, run, RunId(child)) for child in state.to_cancel()]
    return [child for child in cancelled if child is not None]


async def _cancel_left_child(ledger: Ledger, parent: RunId, child: RunId) -> RunId | None:
    """Request the cancellation of a child or of its latest successor. None if that has ended: then the parent receives
    the end."""
    try:
        while True:
            if await ledger.store.head(child) is None:
                await _create_cancelled_child(ledger, parent, child)
            created = await created_of(ledger.store, child)
            if created.parent != parent:  # another run has the id: the child was never created
                await ledger.deliver(parent, [e.ChildEnded(child=child, status="cancelled")])
                return None
            latest = await continuation_of(ledger, child)
            if latest is None:
                ending = await ending_of(ledger.store, await head_of(ledger.store, child))
                await _notify_parent(ledger, child, created, ending)
                return None
            if latest == child:
                if not await has_cancel_request(ledger.store, child):
                    await ledger.deliver(child, [e.CancelRequested(reason="its parent went back to before it")])
                return child
            child = latest
    except RunGone:  # it ended meanwhile: its owner delivers the end
        return None
    except RunDeleted:
        with suppress(RunGone):
            await ledger.deliver(parent, [e.ChildEnded(child=child, status="cancelled")])
        return None
    except (Damaged, Illegal, *STRANGE) as error:
        log.error("run %s went back to before its child %s, which cannot be cancelled: %s", parent, child, error)
        return None


async def has_cancel_request(store: Store, run: RunId) -> bool:
    """Whether the log of a run has an open request to cancel it."""
    head = await head_of(store, run)
    requests = (await state_of(store, run, await lineage_of(store, head))).outline.requests
    return newest(requests, e.CancelRequested) is not None


async def _create_cancelled_child(ledger: Ledger, parent: RunId, child: RunId) -> None:
    """Create a child that its parent did not create in time, as a cancelled run: then a former owner of the parent,
    which has not noticed that it lost the run, cannot create it later."""
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


async def end_now(ledger: Ledger, writer: RunWriter, ending: e.RunCancelled | e.RunFailed) -> None:
    """End a run without a driver, regardless of other requests, and apply the effects on other runs."""
    await _append_ending(writer, ending)
    for pause in (*RETRY_PAUSES_S, None):
        try:
            created = await created_of(ledger.store, writer.run)
            await complete_run(ledger, writer.run, created, ending, writer.state)
            return
        except StoreError:
            if pause is None:
                raise
            await asyncio.sleep(pause)


async def _append_ending(writer: RunWriter, ending: e.RunCancelled | e.RunFailed) -> None:
    """Append the terminal event of a run. If the outcome of an append is unknown, try again: the writer finds out."""
    reason = decide.cut_short(ending).message if isinstance(ending, e.RunCancelled) else ending.error.message
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
    """End a run without a driver, as an open request demands; without its clean-up, if that could not start because of
    `error`."""
    cleanup: decide.Cleanup = "failed" if error is not None else "stopped" if writer.state.outline.cleanup else "none"
    await end_now(ledger, writer, decide.cancelled(writer.state, cleanup, error))


async def cancel(ledger: Ledger, run: RunId, reason: str, *, by: str = "", force: bool = False) -> RunId | None:
    """Request the cancellation of a run or of its latest successor. Returns the run that received the request; None if
    it does not exist or has ended."""
    target: RunId | None = run
    while target is not None:
        try:
            await ledger.deliver(target, [e.CancelRequested(by=by, reason=reason, force=force)])
            break
        except NotFound:
            return None
        except RunGone:
            target = await continuation_of(ledger, target)
        except Damaged as damage:
            log.error("run %s cannot be cancelled: %s", target, damage)
            return None
    return target


async def continuation_of(ledger: Ledger, run: RunId) -> RunId | None:
    """The successor of a closed run, or the run itself if it was reopened meanwhile. A successor that does not exist
    yet is created: a request cannot be delivered to a run that appears later."""
    head = await head_of(ledger.store, run)
    if not head.closed:
        return run
    ending = await ending_of(ledger.store, head)
    if not isinstance(ending, e.RunContinued):
        return None
    if await ledger.store.head(successor := RunId(ending.successor)) is not None:
        return successor
    state = await state_of(ledger.store, run, await lineage_of(ledger.store, head))
    return await _ensure_successor(ledger, head, await created_of(ledger.store, run), ending, state)


async def _ensure_successor(
    ledger: Ledger, head: Head, created: e.RunCreated, ending: e.RunContinued, state: State
) -> RunId:
    """Create the successor of a run that ends at `head`, if it does not exist, and return its id. It has the attributes that
    the run had in the end, and its exclusive key."""
    successor, attributes = RunId(ending.successor), state.outline.attributes
    successor_created = msgspec.structs.replace(
        created, params=ending.carried, attributes=attributes, key="", forked_from="", deferred=False, more=None
    )
    with suppress(AlreadyExists):
        await ledger.create_ready(successor, successor_created, succeeds=True)
    if created.exclusive:
        await ledger.store.give(head.run, head.epoch, [exclusive_slot(created.exclusive).name])
    return successor


async def _is_waited_for(store: Store, run: RunId, created: e.RunCreated) -> bool:
    """Whether the parent waits for this run: whether it is the last run of the child's chain. It is not, if an earlier
    run of the chain was reopened."""
    child = child_of(created)
    return run == child or await latest_run_of(store, child) == run


def child_of(created: e.RunCreated) -> RunId:
    """The child that the parent started: this run, or the first run of its chain."""
    return RunId(created.as_child) if created.as_child else derived_run(created.parent, created.parent_node)


def _child_ended_event(created: e.RunCreated, ending: Ended) -> e.ChildEnded:
    child = child_of(created)
    if isinstance(ending, e.RunCompleted):
        return e.ChildEnded(child=child, output=ending.output)
    if isinstance(ending, e.RunFailed):
        return e.ChildEnded(child=child, status="failed", error=ending.error)
    return e.ChildEnded(child=child, status="cancelled")
