"""Reuses results of an abandoned branch for nodes of a new branch with the same code and inputs."""

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
    from outlast.engine.driver import RunDriver
    from outlast.functions.commands import NodeCommand


log = logging.getLogger("outlast.engine")

BACK = 8
"""Branches to search for results that were not reused yet, because several branches began in quick succession."""


async def adoptable_by(writer: RunWriter) -> dict[str, Adoptable]:
    """The results that the current branch of a run may reuse from earlier ones. Nodes of a damaged branch run again."""
    branches: list[tuple[e.BranchOpened, list[Entry]]] = []
    head: Head | None = writer.head
    found: dict[str, Adoptable] = {}
    try:
        while head is not None and head.branch and len(branches) < BACK:
            opened, abandoned, head = await previous_branch(writer.store, head, writer.key)
            branches.append((opened, abandoned))
            if any(isinstance(entry.event, e.RunCompleted | e.RunContinued) for entry in abandoned):
                break  # that branch had already reused every result it needed
        for opened, abandoned in reversed(branches):
            if found or abandoned:
                found = adoptable(opened, await writer.state_at(opened.cutoff), abandoned, found)
        return found
    except (Damaged, Illegal, *STRANGE) as error:
        log.warning("run %s reuses no results of its previous branch, which is damaged: %s", writer.run, error)
        return {}


def adopt(driver: RunDriver, command: NodeCommand) -> bool:
    """Reuse a result instead of beginning an attempt, if there is one for this node, code and inputs."""
    found = reusable_result(driver, command, command)
    driver.adoptable.pop(command.name, None)
    if found is None:
        return False
    driver.worker.spawn(_adopt(driver, command, found))
    return True


def reusable_result(driver: RunDriver, command: NodeCommand, node: NodeCommand | NodeState) -> Adoptable | None:
    """The result that replaces an attempt of this node. None if a person edited its inputs or gave it feedback, which
    `asked` holds."""
    found = driver.adoptable.get(command.name)
    if found is None or found.hash != command.hash or found.code != command.spec.code or node.given is not None:
        return None
    return found


async def _adopt(driver: RunDriver, command: NodeCommand, found: Adoptable) -> None:
    try:
        value = command.arguments.returns.decode(await fetched(found.output, driver.worker.store.blobs))
    except (InvalidInput, NotFound) as error:
        log.warning("run %s: the result of node %s cannot be reused: %s", driver.run, command.name, error)
        driver.attempts.begin(command)
        return
    driver.completed(command, command.attempt, found.output, value, e.NO_TIME, adopted=found.seq)
    await driver.write()
