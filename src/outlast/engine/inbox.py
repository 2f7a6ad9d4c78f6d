"""The entries that guests append while a run is driven: deliveries to its code, and requests to its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.engine import cancelling, pausing
from outlast.engine.batch import Batch
from outlast.errors import InvalidInput, RunDiverged, StoreError
from outlast.functions.deliveries import decode_delivery
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.requests import Request

if TYPE_CHECKING:
    from outlast.engine.driver import RunDriver


async def deliver(driver: RunDriver) -> None:
    """Deliver the entries of guests to the code, one by one. GuestEventsRead records the position at which the code received
    each."""
    if driver.has_news:
        await _catch_up(driver)
    while driver.writer.arrived and not driver.is_over:
        entry = driver.writer.arrived.popleft()
        try:
            delivery = await decode_delivery(driver.code, entry.event, driver.worker.store.blobs)
        except InvalidInput as error:
            message = f"the code cannot decode the value of event {entry.seq}: {error}"
            driver.hold_ending = decide.held(e.Failure(RunDiverged.code, message))
            return
        if delivery is not None and not driver.is_stopping:
            driver.set_time()
            driver.batch.pending.append(e.GuestEventsRead(upto=entry.seq))
            delivery()
            driver.schedule_commands()


async def _catch_up(driver: RunDriver) -> None:
    driver.has_news = False
    try:
        await driver.writer.catch_up()
    except StoreError as error:
        driver.has_news = True
        await driver.worker.wait_for_store(driver.run, error, 0.5)


def open_request(driver: RunDriver) -> Request | None:
    """The request to carry out next, unless that is already under way."""
    if driver.is_stopping:
        return None
    request = decide.next_request(driver.writer.state)
    return None if driver.is_pausing and isinstance(request, e.PauseRequested) else request


async def carry_out(driver: RunDriver, request: Request) -> None:
    """Begin to pause or to cancel the run; for a jump, stop its nodes and pass the run to a takeover, which first opens
    the branch. Results of nodes that end meanwhile are recorded."""
    if isinstance(request, e.PauseRequested):
        pausing.begin(driver, request)
        return
    if isinstance(request, e.CancelRequested):
        await cancelling.cancel(driver, request)
        return
    driver.is_stopping = True
    await driver.attempts.stop_all(driver.open_node_commands())
    driver.deliver_outcomes()
    driver.set_time()
    batch, driver.batch = driver.batch, Batch()
    await driver.append_always(batch.facts + batch.pending)
    await driver.children_started()  # a child that does not exist yet cannot be cancelled
    driver.leave()
    driver.worker.spawn(driver.worker.takeovers.resume_owned(driver.writer))
