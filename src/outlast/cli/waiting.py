"""Waiting for a run: showing how far it is, putting its questions to whoever is there, and telling how it ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.cli import prompt
from outlast.cli.console import notice
from outlast.cli.live_display import Display
from outlast.cli.options import Reply
from outlast.cli.outcome import where_of
from outlast.client import Engine
from outlast.errors import InvalidInput, NotAsked, NotFound, RunGone
from outlast.history.ids import RunId
from outlast.lifecycle.state import Wait
from outlast.lifecycle.status import RunStatus
from outlast.settings import Settings
from outlast.views.actions import how_to_answer
from outlast.views.build import progress_of
from outlast.views.run_view import Tally, caught_up
from outlast.views.types import ProgressView

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

EVERY = 0.1
"""Seconds between two looks at a run."""
EVERY_SCRATCH = 5
"""So many looks are taken for one at what nodes say of their progress."""


class Manner(msgspec.Struct, frozen=True):
    """How runs are waited for: for whom, in which form, and `where` their store is, in commands that are told to people.
    `is_hearing_prints` if the engine keeps what nodes print: then nobody else may stand between them and stdout."""

    by: str
    reply: Reply
    where: str
    is_hearing_prints: bool

    @classmethod
    def of(cls, settings: Settings, by: str, reply: Reply) -> Manner:
        return cls(by, reply, where_of(settings), settings.capture_stdout)


class Attendant:
    """Attends one run, and its successors if it has some."""

    def __init__(self, desk: Engine, run: RunId, manner: Manner) -> None:
        self.tally = Tally(run)
        self._desk = desk
        self._manner = manner
        is_shown = manner.reply is Reply.TEXT
        self._display = Display(is_on=is_shown, prints_pass=not manner.is_hearing_prints)
        self._may_ask = is_shown and prompt.is_anyone_there()
        self._told: set[str] = set()
        self._said: tuple[ProgressView, ...] = ()
        self._looks = 0
        self._is_quiet = self._is_asking = False

    def be_quiet(self) -> None:
        """Show and ask nothing more."""
        self._is_quiet = True
        if self._is_asking:
            notice("")  # to leave the line of the question
        self._display.close()
        self._display = Display(is_on=False)

    async def result(self, workflow: Workflow[..., Any]) -> Any:
        """What the run returned; what it raised is raised; None if it was paused. Then `tally` tells how it ended."""
        result = asyncio.create_task(self._desk.result(self.tally.run, workflow=workflow))
        attending = asyncio.create_task(self._attend())
        try:
            await asyncio.wait({result, attending}, return_when=asyncio.FIRST_COMPLETED)
            if attending.done():  # the run is paused, and nobody knows for how long
                attending.result()
        finally:
            for task in (result, attending):
                task.cancel()
            await asyncio.gather(result, attending, return_exceptions=True)
            self._display.close()
        await self.look()
        return None if result.cancelled() else result.result()

    async def _attend(self) -> None:
        while True:
            await self.look()
            if self.tally.state.status is RunStatus.PAUSED:
                return
            if not self._is_quiet:
                await self._look_at_questions()
            if self._display.is_on:
                await self._show()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """See how the run stands now."""
        self.tally = await caught_up(self.tally, self._desk)
        while successor := self.tally.state.outline.successor:
            following = Tally(RunId(successor))
            with suppress(NotFound):  # it is about to be created
                self.tally = await caught_up(following, self._desk)
                continue
            return

    async def _show(self) -> None:
        now = await self._desk.diagnostics.now()
        if self._looks % EVERY_SCRATCH == 0:
            scratch = await self._desk.diagnostics.scratch(self.tally.run, self.tally.state.outline.created)
            self._said = progress_of(scratch)
        self._looks += 1
        self._display.show(self.tally, self._said, now)

    # --- questions

    async def _look_at_questions(self) -> None:
        for question in self.tally.questions:
            if self._name(question) in self._told:
                continue
            self._told.add(self._name(question))
            with self._display.hidden():
                if not (self._may_ask and await self._ask(question)):
                    self._tell(question)

    def _name(self, question: Wait) -> str:
        return f"{self.tally.run} {question.id}"

    def _tell(self, question: Wait) -> None:
        is_only = len(self.tally.questions) == 1
        command = how_to_answer(self.tally.run, question, self._manner.where, is_only=is_only)
        notice(f"run {self.tally.run} asks: {question.text or question.id}", f"Answer with: {command}", style="yellow")

    async def _ask(self, question: Wait) -> bool:
        """Ask here, until it is answered here or elsewhere; False if nobody wants to answer here."""
        run = self.tally.run
        asked = asyncio.create_task(prompt.ask(question))
        self._is_asking = True
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=EVERY)
                await self.look()
                if self._is_quiet:
                    return True
                if not asked.done() and not self._is_still_asked(question):
                    notice("", "answered elsewhere, or no longer asked")
                    return True
            await self._desk.answer(run, asked.result(), interaction=question.id, by=self._manner.by)
        except EOFError:
            return False
        except (RunGone, NotAsked, InvalidInput) as refusal:
            notice(str(refusal), style="red")
            return not isinstance(refusal, InvalidInput)
        finally:
            self._is_asking = False
            asked.cancel()
        return True

    def _is_still_asked(self, question: Wait) -> bool:
        is_open = any(each.id == question.id for each in self.tally.questions)
        return is_open and self.tally.state.status is not RunStatus.PAUSED
