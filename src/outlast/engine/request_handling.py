"""Handles entries that guests append while a run is driven: deliveries to its code, and requests to its driver."""

from __future__ import annotations

from outlast.engine import pausing
from outlast.engine.outcomes import OutcomeHandling
from outlast.errors import InvalidInput, RunDiverged, StoreError
from outlast.functions.deliveries import decode_delivery
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.requests import Request


class RequestHandling(OutcomeHandling):
    """Adds deliveries and requests to a driver."""

    __slots__ = ()

    def on_news(self) -> None:
        """Guests have appended to this run."""
        self._has_news = True
        self._write_soon()

    async def _deliver_news(self) -> None:
        """Deliver the entries of guests to the code, one by one. NewsHeard records the position at which the code
        received each."""
        if self._has_news:
            await self._catch_up()
        while self.writer.arrived and not self.is_over:
            entry = self.writer.arrived.popleft()
            try:
                delivery = await decode_delivery(self.code, entry.event, self.worker.store.blobs)
            except InvalidInput as error:
                message = f"the code cannot decode the value of event {entry.seq}: {error}"
                self._hold_ending = decide.held(e.Failure(RunDiverged.code, message))
                return
            if delivery is not None and not self._is_stopping:
                self._set_time()
                self._pending.append(e.NewsHeard(upto=entry.seq))
                delivery()
                self._schedule_commands()

    async def _catch_up(self) -> None:
        self._has_news = False
        try:
            await self.writer.catch_up()
        except StoreError as error:
            self._has_news = True
            await self.worker.wait_for_store(self.run, error, 0.5)

    def _pending_request(self) -> Request | None:
        """The request to carry out next, unless that is already under way."""
        if self._is_stopping or not self.writer.state.outline.requests:
            return None
        request = decide.next_request(self.writer.state)
        return None if self.is_pausing and isinstance(request, e.PauseRequested) else request

    def _cleanup_expired(self) -> bool:
        """Whether the time of the clean-up is over."""
        outline = self.writer.state.outline
        if outline.cleanup is None or outline.extends_cleanup or self._is_stopping:
            return False
        return self._clock() >= outline.cleanup.due

    def wind_down(self) -> None:
        """Begin nothing more. Pending starts are removed; those nodes begin when the run resumes."""
        self.is_winding_down = True
        self._facts = pausing.without_starts(self._facts, self._to_begin)
        self._pending = pausing.without_starts(self._pending, self._to_begin)
        self._to_begin = []
