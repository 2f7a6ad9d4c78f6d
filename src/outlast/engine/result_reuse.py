"""A node that need not be done again on a new branch, because its result over there still holds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from outlast.errors import Damaged, Illegal, InvalidInput, NotFound
from outlast.history import events as e
from outlast.history.record import Entry
from outlast.ledger import RunWriter
from outlast.ledger.reading import previous_branch
from outlast.ledger.verification import STRANGE
from outlast.lifecycle.adoption import Adoptable, adoptable
from outlast.lifecycle.state import NodeState
from outlast.store import Head
from outlast.values.codec import fetched

if TYPE_CHECKING:
    from outlast.engine.outcomes import OutcomeHandling
    from outlast.functions.commands import NodeCommand


log = logging.getLogger("outlast.engine")

BACK = 8
"""Branches that are looked back over for results nobody has taken over yet, because one turn soon followed the other."""


async def adoptable_by(writer: RunWriter) -> dict[str, Adoptable]:
    """What the current branch of a run may take over from the one before it, and what that one could have. What does not
    read as it was written is done again."""
    try:
        return await _adoptable_by(writer)
    except (Damaged, Illegal, *STRANGE) as error:
        log.warning("run %s takes nothing over from the branch it left, which is damaged: %s", writer.run, error)
        return {}


async def _adoptable_by(writer: RunWriter) -> dict[str, Adoptable]:
    turns: list[tuple[e.BranchOpened, list[Entry]]] = []
    head: Head | None = writer.head
    while head is not None and head.branch and len(turns) < BACK:
        opened, left, head = await previous_branch(writer.store, head, writer.key)
        turns.append((opened, left))
        if any(isinstance(entry.event, e.RunCompleted | e.RunContinued) for entry in left):
            break  # that branch had all it wanted
    found: dict[str, Adoptable] = {}
    for opened, left in reversed(turns):
        if found or left:
            found = adoptable(opened, await writer.state_at(opened.cutoff), left, found)
    return found


def adopt(driver: OutcomeHandling, command: NodeCommand) -> bool:
    """Take a result over instead of beginning an attempt, if there is one for just this node, code and inputs."""
    found = reusable_result(driver, command, command)
    driver.adoptable.pop(command.name, None)
    if found is None:
        return False
    driver.worker.spawn(_adopt(driver, command, found))
    return True


def reusable_result(driver: OutcomeHandling, command: NodeCommand, asked: NodeCommand | NodeState) -> Adoptable | None:
    """The result that this node need not be done again for; none if a person gave it something (`asked` knows)."""
    found = driver.adoptable.get(command.name)
    if found is None or found.hash != command.hash or found.code != command.spec.code or asked.given is not None:
        return None
    return found


async def _adopt(driver: OutcomeHandling, command: NodeCommand, found: Adoptable) -> None:
    try:
        value = command.arguments.returns.decode(await fetched(found.output, driver.worker.store.blobs))
    except (InvalidInput, NotFound) as error:
        log.warning("run %s: the result of node %s cannot be taken over: %s", driver.run, command.name, error)
        driver.attempts.begin(command)
        return
    driver.completed(command, command.attempt, found.output, value, e.NO_TIME, adopted=found.seq)
    await driver.write()
