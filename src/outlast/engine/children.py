"""Child runs: created once the parent's log has ChildStarted, kept advanced, and cancelled when the parent stops
waiting."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.engine import completion
from outlast.errors import AlreadyExists, OutlastError, RunGone, StoreError
from outlast.functions import registry
from outlast.functions.commands import ChildCommand
from outlast.functions.workflow_import import import_entry
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.ledger.reading import created_of, latest_run_of
from outlast.values.codec import stored
from outlast.values.failures import failure_of
from outlast.values.source_location import shown

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver
    from outlast.engine.worker import Worker


async def start(worker: Worker, parent: RunDriver, command: ChildCommand, *, again: bool) -> None:
    """Create a child run, or, if it has already ended, deliver its end to the parent. `again` is set after a replay,
    when the child probably exists. Until this returns, the child counts as `starting`: the parent is not released, and
    its end is not complete."""
    pause = 0.05
    try:
        while parent.is_waiting_for(command):
            try:
                if again and await worker.store.head(command.child) is not None:
                    if (await created_of(worker.store, command.child)).parent != parent.run:
                        await _refuse(worker, parent, command)
                    else:
                        await _ensure_advanced(worker, command.child)
                else:
                    await _create(worker, parent, command)
                return
            except AlreadyExists as error:
                if await worker.store.tombstone(command.child) is not None:
                    await _fail(worker, parent, command, error)
                    return
                again = True
            except StoreError as error:
                await worker.wait_for_store(parent.run, error, pause)
                pause = min(pause * 2, 5.0)
    finally:
        parent.starting -= 1
        parent.free_slots()


async def cancel(worker: Worker, parent: RunDriver, child: RunId) -> None:
    """Request the cancellation of a child that its parent stopped waiting for. Retries while the store fails."""
    while True:
        await parent.children_started()  # the child may not exist yet
        try:
            cancelled = await completion.cancel(worker.ledger, child, "its parent stopped waiting for it")
        except StoreError as error:
            await worker.wait_for_store(child, error, 0.5)
        else:
            worker.advance_run(cancelled or child)  # an owner has to act on the request
            return


async def _create(worker: Worker, parent: RunDriver, command: ChildCommand) -> None:
    spec, options = command.workflow._spec, command.workflow._start_options
    entry, folder = import_entry(spec)
    queue, priority, fairness_key = command.workflow._placing
    created = e.RunCreated(
        workflow=spec.name,
        version=await worker.definitions.keep(command.workflow),
        params=await stored(command.packed.inputs, worker.store.blobs),
        parent=parent.run,
        parent_node=command.node,
        as_child=command.given and command.child,
        root=parent.created.root,
        on_restart=spec.on_restart,
        entry=entry,
        folder=folder,
        title=options.get("title", ""),
        tags=options.get("tags", ()),
        attributes=options.get("attributes", {}),
        queue=queue,
        priority=priority,
        fairness_key=fairness_key,
    )
    async with worker.starting_children:
        if worker.capacity and not created.queue and registry.known(spec.name) is not None:
            await worker.start(command.child, command.workflow, created, command.packed.args, command.packed.kwargs)
            return
    await worker.ledger.create_ready(command.child, created)
    worker.advance_run(command.child)


async def _refuse(worker: Worker, parent: RunDriver, command: ChildCommand) -> None:
    """The id belongs to a run that is not a child of this one: deliver a failure to the parent."""
    message = f"run {command.child} already exists and is not a child of run {parent.run}: use another id"
    await _fail(worker, parent, command, AlreadyExists(f"{shown(command.where)}: {message}"))


async def _fail(worker: Worker, parent: RunDriver, command: ChildCommand, error: OutlastError) -> None:
    """Deliver the failure of a child that cannot be started to its parent."""
    ended = e.ChildEnded(child=command.child, status="failed", error=failure_of(error))
    with suppress(RunGone):
        await worker.ledger.deliver(parent.run, [ended])


async def _ensure_advanced(worker: Worker, child: RunId) -> None:
    """Make sure that a child, or its latest successor, is advanced. If it ended before its end could be delivered,
    claim it and deliver the end."""
    newest = await latest_run_of(worker.store, child)
    worker.advance_run(newest)
    head = await worker.store.head(newest)
    if head is not None and head.closed and newest not in worker.drivers:
        for claim in await worker.claim(runs=[newest]):
            await worker.takeovers.adopt(claim)
