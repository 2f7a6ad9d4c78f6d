"""What the end of a run owes to others: a parent is told, a successor is started, children that still run are cancelled.

All of it is done before the run is given back, and is idempotent: whoever finds a run that ended and was not given back does
it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeAlias

import msgspec

from outlast.errors import AlreadyExists, Damaged, Gone, NotFound
from outlast.history import events as e
from outlast.history.ids import RunId, derived_run
from outlast.ledger import Ledger
from outlast.ledger.reading import lineage_of
from outlast.lifecycle.state import State
from outlast.store import Head, Journal

Ended: TypeAlias = e.RunCompleted | e.RunFailed | e.RunCancelled | e.RunContinued


def successor_of(run: RunId, generation: int = 0) -> RunId:
    """The run that goes on for this one; always the same, until a person goes back."""
    return derived_run(run, "continued", *([str(generation)] if generation else []))


def open_children(state: State) -> list[RunId]:
    """The runs that this one started, waits for and has not seen the end of."""
    return [RunId(name) for name, child in state.children.items() if not child.status and not child.detached]


async def settle(ledger: Ledger, created: e.RunCreated, ending: Ended, children: Iterable[RunId]) -> None:
    """See that everybody who has to know of this end does."""
    for child in children:
        await cancel_child(ledger, child, "its parent has ended")
    if isinstance(ending, e.RunContinued):
        again = msgspec.structs.replace(created, params=ending.carried, key="", forked_from="", more=None)
        with suppress(AlreadyExists):
            await ledger.create_ready(RunId(ending.successor), again)
    elif created.parent:
        with suppress(Gone, NotFound):  # it heard of it before, or is itself over
            await ledger.deliver(RunId(created.parent), [_for_parent(created, ending)])


async def cancel_child(ledger: Ledger, child: RunId, reason: str) -> None:
    """Ask a child to stop, if it is there and not over."""
    with suppress(Gone, NotFound):
        await ledger.deliver(child, [e.CancelRequested(reason=reason)])


def _for_parent(created: e.RunCreated, ending: Ended) -> e.ChildEnded:
    child = derived_run(created.parent, created.parent_node)
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
