"""The code of one run: a workflow's function on its deterministic loop, and what it waits for.

It does not know whether it lives or is being replayed. It asks; it is told outcomes, one at a time; after each it runs until
it is quiet. What it asked for since is `new_commands`, what it waits for is `open`. Whoever drives it (`driver` live,
`replay` from
the log) says what becomes of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from outlast.errors import NotDurable
from outlast.execution.log_capture import replays_silenced
from outlast.functions.commands import LATEST, ChildCommand, Command, NodeCommand, Note, QuestionCommand, TimerCommand
from outlast.functions.loop import Alarm, WorkflowLoop
from outlast.functions.scope import Scope, current
from outlast.functions.stable_hash import StableFuture
from outlast.functions.threaded import Dismissed, ThreadHandoff
from outlast.history import events as e
from outlast.history.ids import RunId
from outlast.values.context import ReplaySilencer, is_replaying
from outlast.values.failures import error_from
from outlast.values.secret_patterns import revealed_here
from outlast.values.source_location import shown, user_place

if TYPE_CHECKING:
    from outlast.functions.call import CallBase
    from outlast.functions.decorators import Workflow

REMEMBERED_FAILURES = 100
"""How many of the newest failures are known by the node they came from."""


class Pending(StableFuture):
    """An outcome that workflow code waits for. To cancel it withdraws what was asked. A child run that was started is asked
    to end: whoever waits for it waits for its end, as for that of a task."""

    __slots__ = ("code", "command")

    command: Command
    code: Code

    def cancel(self, msg: Any | None = None) -> bool:
        command = getattr(self, "command", None)
        if isinstance(command, ChildCommand) and not self.done() and self.code.request_child_end(command):
            return True
        if not super().cancel(msg):
            return False
        if command is not None:
            self.code.withdraw(command)
            self.settled()
        return True

    def settled(self) -> Pending:
        """Itself, no longer tied to what it was the outcome of: thousands of rings of objects would be left to collect."""
        del self.command.future, self.command, self.code
        return self


class Continue(BaseException):
    """Raised through workflow code that wants its successor to go on."""

    def __init__(self, inputs: e.Value) -> None:
        self.inputs = inputs


class Code:
    """The code of one run. `close` is called with what it no longer waits for; without it, that gathers in `to_close`.
    It runs in a copy of `context`, whoever starts or replays it: what they have set is not the same another time."""

    __slots__ = (
        "_context",
        "_failures",
        "_is_dismissed",
        "_loop",
        "_tasks_are_cancelled",
        "_unawaited_at_cancel",
        "child_ids",
        "close",
        "continued",
        "continued_us",
        "fatal_error",
        "generation",
        "is_cancelled",
        "made",
        "main",
        "new_commands",
        "next_hash",
        "now_us",
        "on_progress",
        "open",
        "progress",
        "run",
        "silencer",
        "to_close",
        "workflow",
    )

    def __init__(self, run: RunId, workflow: Workflow[..., Any], context: Context | None = None) -> None:
        self.run = run
        self.workflow = workflow
        self._context = context
        self.open: dict[str, Command] = {}
        self.new_commands: dict[str, Command] = {}
        self.to_close: dict[str, Command] = {}
        self.child_ids: set[str] = set()
        """The ids that the code gave to child runs."""
        self.made: dict[int, CallBase] = {}
        """Calls that were made and have not begun, by their `id()`."""
        self.close: Callable[[Command], None] | None = None
        self.main: asyncio.Task[Any] | None = None
        self.fatal_error: NotDurable | None = None
        """Why it cannot go on, if it loops without waiting or waits for nothing."""
        self.continued: Continue | None = None
        """That it called `continue_as_new`: its outcome, whatever it does afterwards."""
        self.continued_us = 0
        """When it did, by the time in the log, which is the same in a replay."""
        self.on_progress: Callable[[dict[str, Any]], None] | None = None
        self.progress: dict[str, Any] | None = None
        """How far the code said that it is."""
        self.now_us = 0
        self.generation = 0
        """The newest branch that a person opened: what is asked for on it is not what was asked for before."""
        self.silencer = ReplaySilencer(on=True)
        self._loop = WorkflowLoop(self)  # type: ignore[abstract]  # see its last lines
        self.next_hash = self._loop.next_hash
        """The place in a set of what is made next."""
        self._failures: dict[int, tuple[BaseException, str]] = {}
        self._is_dismissed = False
        self.is_cancelled = False
        """Whether CancelledError was delivered to it, because somebody cancelled the run."""
        self._tasks_are_cancelled = False
        self._unawaited_at_cancel: frozenset[int] = frozenset()
        """Calls that were made and not awaited when it was cancelled, by their `id()`."""

    @property
    def continues_by(self) -> int | None:
        """When its successor goes on although it has not ended: once it called `continue_as_new`, it has the time of a
        clean-up. In microseconds. None if it did not, or was cancelled, which has a time of its own."""
        if self.continued is None or self.is_cancelled:
            return None
        return self.continued_us + round(self.workflow._spec.cleanup * 1e6)

    # --- its life

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set it going, up to where it first waits."""
        context = copy_context() if self._context is None else self._context.copy()
        context.run(current.set, Scope(self))
        context.run(is_replaying.set, self.silencer)
        context.run(revealed_here.set, set())
        fn = self.workflow.fn
        if self.workflow._is_async:
            coroutine = context.run(fn, *args, **kwargs)
        else:
            coroutine = _in_thread(fn, args, kwargs)
        self.main = self._loop.task(coroutine, context)
        self.advance()

    def advance(self) -> None:
        """Let it run until it is quiet."""
        while True:
            try:
                self._loop.run_until_blocked()
            except NotDurable as error:
                self.fatal_error = error
            except (SystemExit, KeyboardInterrupt):
                continue  # a task has it as its outcome; asyncio raises it through the loop besides
            if not (self.is_cancelled and self._cancel_tasks_once()):
                return

    def cancel(self) -> None:
        """Somebody cancelled the run: deliver CancelledError to the code where it waits. Once its function has ended, its
        other tasks are cancelled, as by `asyncio.run`."""
        assert self.main is not None
        self.is_cancelled, self._unawaited_at_cancel = True, frozenset(self.made)
        self.main.cancel()
        self.advance()

    def _cancel_tasks_once(self) -> bool:
        """Whether the function has ended just now, and tasks of it were under way."""
        if self._tasks_are_cancelled or self.main is None or not self.main.done():
            return False
        self._tasks_are_cancelled = True
        return self._loop.cancel_tasks()

    def is_done(self) -> bool:
        """Whether it has returned or raised, or cannot go on. Code that was cancelled ends with the last task."""
        if self.fatal_error is not None:
            return True
        if self.main is None or not self.main.done():
            return False
        return not (self.is_cancelled and self._loop.has_tasks())

    @property
    def is_dismissed(self) -> bool:
        """Whether nobody drives it any more."""
        return self._is_dismissed

    def dismiss(self) -> None:
        """Nobody drives it any more. What it waits for is cancelled and whatever it asks is refused, so that it ends and
        nothing of it is left for the collector of garbage. What it says while it ends is not heard."""
        self._is_dismissed = self.silencer.on = True
        with replays_silenced():
            self._end()

    def _end(self) -> None:
        for command in self.open.values():
            command.future.settled().cancel()
        self._loop.end()
        self.close = self.main = None
        self.open.clear()
        self.new_commands.clear()
        for made in list(self.made.values()):
            made.close()
        self._failures.clear()

    def deadlock(self) -> NotDurable:
        """That it waits and nothing is under way that could end that."""
        return NotDurable(
            f"the workflow waits{self._loop.wait_places()} for something that nothing will set: no node, timer, question or "
            "child run is under way, and a workflow cannot wait for anything else. Do this in a node."
        )

    def unawaited(self) -> list[str]:
        """What code that has ended made and never awaited, with its file and line. What a task did not come to await because
        it was cancelled, failed or is under way is no mistake; nor is, if the run was cancelled, what was made before."""
        tasks = (
            []
            if self.is_cancelled
            else [task for task in self._loop.unawaited() if id(task.get_coro()) not in self.made]
        )
        calls = [
            f"{each.describe()} ({shown(each.where)})"
            for key, each in self.made.items()
            if _has_returned(each.scope.task) and key not in self._unawaited_at_cancel
        ]
        return calls + [f"task of {_named(task.get_coro())} ({shown(task.made)})" for task in tasks]

    # --- what it asks

    def issue(self, command: Command) -> asyncio.Future[Any]:
        """Take note of what it asks for; the outcome will be told to what this returns."""
        if self._is_dismissed:
            raise _dismissed()
        if type(command) is not NodeCommand:
            command.assign_id(self.run, self.generation)
        key = command.key
        if key in self.open:
            raise NotDurable(f"{command.describe()} is asked for twice at once")
        self.open[key] = self.new_commands[key] = command
        command.future = future = Pending(loop=self._loop)
        future.command, future.code, future.hash_value = command, self, self.next_hash()
        return future

    def begin_generation(self, generation: int) -> None:
        """A person went back to here. What is asked for and not in the log yet is asked for anew."""
        self.generation = generation
        for key, command in list(self.new_commands.items()):
            if isinstance(command, ChildCommand | QuestionCommand):
                command.assign_id(self.run, generation)
                del self.new_commands[key], self.open[key]
                self.new_commands[command.key] = self.open[command.key] = command

    def note(self, note: Note) -> None:
        """Take note of what it states."""
        if self._is_dismissed:
            raise _dismissed()
        self.new_commands[note.key] = note

    def show_progress(self, progress: dict[str, Any]) -> None:
        """Keep how far it is, and show it unless this is a replay."""
        self.progress = progress
        if self.on_progress is not None and not self.silencer.on:
            self.on_progress(progress)

    def now(self) -> float:
        return self.now_us / 1e6

    def set_alarm(self, alarm: Alarm) -> None:
        command = TimerCommand(current.get().unique_name("timer"), round(min(alarm.moment * 1e6, LATEST)), alarm)
        command.where = user_place()
        self.issue(command)
        alarm.cancel_timer = lambda: self.withdraw(command)

    def withdraw(self, command: Command) -> None:
        """It no longer waits for this."""
        if self.open.pop(command.key, None) is None or self._is_dismissed:
            return
        if self.new_commands.pop(command.key, None) is not None:
            return  # nobody has heard of it yet
        if self.close is not None:
            self.close(command)
        else:
            self.to_close[command.key] = command

    def request_child_end(self, command: ChildCommand) -> bool:
        """It no longer wants this child, which is asked to end; its end is the outcome. False if it was not started."""
        if self._is_dismissed or command.key in self.new_commands or command.key not in self.open:
            return False
        if not command.is_cancel_requested:
            command.is_cancel_requested = True
            if self.close is not None:
                self.close(command)
            else:
                self.to_close[command.key] = command
        return True

    # --- what it is told

    def resolve_cancelled(self, command: ChildCommand) -> None:
        """The end of a child that it no longer wanted, which it hears at once."""
        command.future.settled().cancel()
        self.advance()

    def resolve(self, command: Command, value: Any) -> None:
        """An outcome, which it hears at once."""
        future = command.future
        del command.future, future.command, future.code  # as `settled` does, for the outcome that nearly every node has
        future.set_result(value)
        self.advance()

    def resolve_failure(self, command: Command, failure: e.Failure) -> None:
        """A failure, which it hears at once."""
        error = error_from(failure, self.workflow.fn.__module__)
        self._failures[id(error)] = (error, command.name)
        if len(self._failures) > REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
        future = command.future.settled()
        future.set_exception(error)
        future.exception()  # nobody has to look at it
        self.advance()

    def resolve_timer(self, command: TimerCommand) -> None:
        """That a time has come, which it hears at once."""
        if command.alarm is not None:
            command.future.settled()
            self._loop.ring(command.alarm)
            self.advance()
        else:
            self.resolve(command, None)

    def node_of_error(self, error: BaseException | None) -> str:
        """The node whose failure an error is, or came from."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._failures:
                return self._failures[id(error)][1]
            if isinstance(error, BaseExceptionGroup):
                return next(filter(None, map(self.node_of_error, error.exceptions)), "")
            error = error.__cause__ or error.__context__
        return ""


def _has_returned(task: asyncio.Task[Any] | None) -> bool:
    return task is None or (task.done() and not task.cancelled() and asyncio.Task.exception(task) is None)


def _named(coroutine: Any) -> str:
    return str(getattr(coroutine, "__name__", "") or coroutine.describe())


def _dismissed() -> Dismissed:
    return Dismissed("this process no longer drives the workflow")


async def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return await ThreadHandoff(fn, args, kwargs).run()
