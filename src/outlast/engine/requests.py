"""What others write to a run while it is driven: news for its code, and requests that its driver obeys."""

from __future__ import annotations

from outlast.engine import pausing
from outlast.engine.outcomes import Outcomes
from outlast.errors import InvalidInput, RunDiverged, StoreError
from outlast.functions.deliveries import understood
from outlast.history import events as e
from outlast.lifecycle import decide
from outlast.lifecycle.requests import Request


class Requests(Outcomes):
    """The part of a driver that others turn to, by way of the log."""

    __slots__ = ()

    def on_news(self) -> None:
        """Others have written to this run."""
        self._has_news = True
        self._write_soon()

    async def _hear(self) -> None:
        """Tell the code, one by one, what others wrote. In the log NewsHeard stands where the code heard of it."""
        if self._has_news:
            await self._catch_up()
        while self.pen.arrived and not self.is_over:
            entry = self.pen.arrived.popleft()
            try:
                telling = await understood(self.code, entry.event, self.worker.store.blobs)
            except InvalidInput as error:
                said = f"the code cannot read what event {entry.seq} tells it: {error}"
                self._held = decide.held(e.Failure(RunDiverged.code, said))
                return
            if telling is not None and not self._is_stopping:
                self._date()
                self._pending.append(e.NewsHeard(upto=entry.seq))
                telling()
                self._ask_aloud()

    async def _catch_up(self) -> None:
        self._has_news = False
        try:
            await self.pen.catch_up()
        except StoreError as error:
            self._has_news = True
            await self.worker.in_trouble(self.run, error, 0.5)

    def _request(self) -> Request | None:
        """What is to be obeyed and is not being obeyed already."""
        if self._is_stopping or not self.pen.state.outline.requests:
            return None
        request = decide.next_request(self.pen.state)
        return None if self.is_pausing and isinstance(request, e.PauseRequested) else request

    def _has_overrun(self) -> bool:
        """Whether the time of the clean-up is over."""
        outline = self.pen.state.outline
        if outline.cleanup is None or outline.extends_cleanup or self._is_stopping:
            return False
        return self._clock() >= outline.cleanup.due

    def wind_down(self) -> None:
        """Let nothing more begin. What was said of attempts that have not begun is taken back; after a resume they do."""
        self.is_winding_down = True
        self._facts = pausing.without_starts(self._facts, self._begins)
        self._pending = pausing.without_starts(self._pending, self._begins)
        self._begins = []
