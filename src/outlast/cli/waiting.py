"""Waits for a run: shows its progress and asks its questions on the terminal."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.cli import prompt
from outlast.cli.console import notice
from outlast.cli.live_display import Display
from outlast.cli.options import Output
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

INTERVAL_S = 0.1
"""Time between two reads of the log."""
SERVER_INTERVAL_S = 0.5
"""The same from a server."""
READS_PER_SCRATCH = 5
"""Reads of the log for each read of the progress of nodes."""


class WaitOptions(msgspec.Struct, frozen=True):
    """The user, the output format, and `where`: the --store option of commands that are shown. With `captures_stdout` the
    engine records the output of nodes, and the display must not redirect it. `interval_s` is the time between two reads."""

    by: str
    output: Output
    where: str
    captures_stdout: bool
    interval_s: float = INTERVAL_S

    @classmethod
    def of(cls, settings: Settings, by: str, output: Output) -> WaitOptions:
        interval_s = SERVER_INTERVAL_S if settings.url else INTERVAL_S
        return cls(by, output, where_of(settings), settings.capture_stdout, interval_s)


class RunWatcher:
    """Watches a run, and its successors."""

    def __init__(self, engine: Engine, run: RunId, options: WaitOptions) -> None:
        self.tally = Tally(run)
        self._engine, self._options = engine, options
        is_shown = options.output is Output.TEXT
        self._display = Display(is_on=is_shown, prints_pass=not options.captures_stdout)
        self._may_ask = is_shown and prompt.is_terminal()
        self._shown: set[str] = set()
        self._progress: tuple[ProgressView, ...] = ()
        self._reads = 0
        self._is_quiet = self._is_asking = False

    def be_quiet(self) -> None:
        """Stop the display and the questions."""
        self._is_quiet = True
        if self._is_asking:
            notice("")  # ends the line of the question
        self._display.close()
        self._display = Display(is_on=False)

    async def result(self, workflow: Workflow[..., Any] | None) -> Any:
        """The result of the run; None if it was paused. Raises the error of a run that failed. `tally` then has the end."""
        result = asyncio.create_task(self._engine.result(self.tally.run, workflow=workflow))
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({result, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():  # the run is paused
                watching.result()
        finally:
            for task in (result, watching):
                task.cancel()
            await asyncio.gather(result, watching, return_exceptions=True)
            self._display.close()
        await self.look()
        return None if result.cancelled() else result.result()

    async def _watch(self) -> None:
        while True:
            await self.look()
            if self.tally.state.status is RunStatus.PAUSED:
                return
            if not self._is_quiet:
                await self._show_questions()
            if self._display.is_on:
                await self._show()
            await asyncio.sleep(self._options.interval_s)

    async def look(self) -> None:
        """Read the new events of the run."""
        self.tally = await caught_up(self.tally, self._engine)
        while successor := self.tally.state.outline.successor:
            following = Tally(RunId(successor))
            with suppress(NotFound):  # it is created soon
                self.tally = await caught_up(following, self._engine)
                continue
            return

    async def _show(self) -> None:
        now = await self._engine.diagnostics.now()
        if self._reads % READS_PER_SCRATCH == 0:
            scratch = await self._engine.diagnostics.scratch(self.tally.run, self.tally.state.outline.created)
            self._progress = progress_of(scratch)
        self._reads += 1
        self._display.show(self.tally, self._progress, now)

    # --- questions

    async def _show_questions(self) -> None:
        for question in self.tally.questions:
            if self._name(question) in self._shown:
                continue
            self._shown.add(self._name(question))
            with self._display.hidden():
                if not (self._may_ask and await self._ask(question)):
                    self._show_question(question)

    def _name(self, question: Wait) -> str:
        return f"{self.tally.run} {question.id}"

    def _show_question(self, question: Wait) -> None:
        is_only = len(self.tally.questions) == 1
        command = how_to_answer(self.tally.run, question, self._options.where, is_only=is_only)
        notice(f"run {self.tally.run} asks: {question.text or question.id}", f"Answer with: {command}", style="yellow")

    async def _ask(self, question: Wait) -> bool:
        """Ask until the question is answered, here or elsewhere; False if the user declines (Ctrl+D)."""
        run = self.tally.run
        asked = asyncio.create_task(prompt.ask(question))
        self._is_asking = True
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=INTERVAL_S)
                await self.look()
                if self._is_quiet:
                    return True
                if not asked.done() and not self._is_open(question):
                    notice("", "the question was answered elsewhere or withdrawn")
                    return True
            await self._engine.answer(run, asked.result(), interaction=question.id, by=self._options.by)
        except EOFError:
            return False
        except (RunGone, NotAsked, InvalidInput) as refusal:
            notice(str(refusal), style="red")
            return not isinstance(refusal, InvalidInput)
        finally:
            self._is_asking = False
            asked.cancel()
        return True

    def _is_open(self, question: Wait) -> bool:
        is_open = any(each.id == question.id for each in self.tally.questions)
        return is_open and self.tally.state.status is not RunStatus.PAUSED
