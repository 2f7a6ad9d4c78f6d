"""A node that need not be done again on a new branch, because its result over there still holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.history import events as e
from outlast.ledger import Pen
from outlast.ledger.reading import left_behind
from outlast.lifecycle.adoption import Adoptable, adoptable
from outlast.runtime.values import fetched

if TYPE_CHECKING:
    from outlast.runtime.asks import NodeAsk
    from outlast.runtime.outcomes import Outcomes


async def adoptable_by(pen: Pen) -> dict[str, Adoptable]:
    """What the current branch of a run may take over from the one before it."""
    if not pen.head.branch:
        return {}
    opened, left = await left_behind(pen.store, pen.head)
    if not left:
        return {}
    return adoptable(opened, await pen.state_at(opened.cutoff), left)


def adopt(driver: Outcomes, ask: NodeAsk) -> bool:
    """Take a result over instead of beginning an attempt, if there is one for just this node, code and inputs."""
    found = driver.adoptable.pop(ask.name, None)
    if found is None or found.hash != ask.hash or found.code != ask.spec.code or ask.given is not None:
        return False
    driver.worker.spawn(_adopt(driver, ask, found))
    return True


async def _adopt(driver: Outcomes, ask: NodeAsk, found: Adoptable) -> None:
    value = ask.arguments.returns.decode(await fetched(found.output, driver.worker.store.blobs))
    driver.completed(ask, ask.attempt, found.output, value, e.NO_TIME, adopted=found.seq)
    await driver.write()
