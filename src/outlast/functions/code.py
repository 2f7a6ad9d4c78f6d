"""The code of one run: a workflow function on its deterministic loop, and the commands it waits for.

The code behaves the same live and in replay. It issues commands and receives outcomes one at a time; after each outcome it
runs until it is blocked. `new_commands` holds what it issued since, `open` what it waits for. Its user (the driver live,
`Replay` from the log) decides what becomes of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
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
from outlast.values.attributes import check_count, is_same
from outlast.values.context import ReplaySilencer, is_replaying
from outlast.values.failures import error_from
from outlast.values.secret_patterns import revealed_here
from outlast.values.source_location import Where, shown, user_place

if TYPE_CHECKING:
    from outlast.functions.call import CallBase
    from outlast.functions.decorators import Workflow

ATTRIBUTES = "search attributes:"
"""The key of the note that changes search attributes."""
REMEMBERED_FAILURES = 100
"""How many of the newest failures are kept with the node they came from."""


class Pending(StableFuture):
    """The future of an outcome that workflow code waits for. Cancelling it withdraws the command. A child run that has
    started is asked to end instead: the waiting code waits for that end, as for the end of a task."""

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
        """Unlink it from its command, and return it. Otherwise thousands of reference cycles would be left to the garbage
        collector."""
        del self.command.future, self.command, self.code
        return self


class Continue(BaseException):
    """Raised through workflow code that calls `continue_as_new`."""

    def __init__(self, inputs: e.Value) -> None:
        self.inputs = inputs


class Code:
    """The code of one run. `close` is called with each command that the code no longer waits for; without it, `to_close`
    collects them. The code runs in a copy of `context`, so that it does not depend on the context of the process that
    starts or replays it."""

    def __init__(self, run: RunId, workflow: Workflow[..., Any], context: Context | None = None) -> None:
        self.run = self.recorded_in = run
        """`recorded_in` differs in the copied part of a fork: there it is the run in which the code first ran."""
        self.workflow = workflow
        self._context = context
        self.open: dict[str, Command] = {}
        self.new_commands: dict[str, Command] = {}
        self.to_close: dict[str, Command] = {}
        self.child_ids: set[str] = set()
        """The ids that the code gave to child runs."""
        self.made: dict[int, CallBase] = {}
        """Calls that were made and have not started, by their `id()`."""
        self.close: Callable[[Command], None] | None = None
        self.main: asyncio.Task[Any] | None = None
        self.fatal_error: NotDurable | None = None
        """The reason the code cannot continue: it loops without waiting, or waits for something that cannot happen."""
        self.continued: Continue | None = None
        """The result of `continue_as_new`, once the code calls it: the outcome of the run, even if the code continues."""
        self.continued_us = 0
        """When it did, by the time in the log, which is the same in a replay."""
        self.on_progress: Callable[[dict[str, Any]], None] | None = None
        self.progress: dict[str, Any] | None = None
        """The last progress that the code reported."""
        self.attributes: Mapping[str, e.AttributeValue] = {}
        """The search attributes of the run, as far as the code has run."""
        self.now_us = 0
        self.generation = 0
        """The newest branch that a person opened. Commands that are issued on it get new ids."""
        self.silencer = ReplaySilencer(on=True)
        self._loop = WorkflowLoop(self)  # type: ignore[abstract]  # see its last lines
        self.next_hash = self._loop.next_hash
        """The stable hash of the next object that is made."""
        self._failures: dict[int, tuple[BaseException, str]] = {}
        self._is_dismissed = False
        self.is_cancelled = False
        """Whether CancelledError was delivered to the code because the run was cancelled."""
        self._tasks_are_cancelled = False
        self._unawaited_at_cancel: Collection[int] = ()
        """Calls that were made and not awaited when the code was cancelled, by their `id()`."""

    @property
    def continues_by(self) -> int | None:
        """When the successor starts even if the code has not ended, in microseconds: after `continue_as_new` the code has
        the time of a clean-up. None if it did not call it, or was cancelled, which has its own time limit."""
        if self.continued is None or self.is_cancelled:
            return None
        return self.continued_us + round(self.workflow._spec.cleanup * 1e6)

    # --- lifecycle

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start the code and run it until it first waits."""
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
        """Run the code until it is blocked."""
        while True:
            try:
                self._loop.run_until_blocked()
            except NotDurable as error:
                self.fatal_error = error
            except (SystemExit, KeyboardInterrupt):
                continue  # it is the outcome of a task; asyncio also raises it through the loop
            if not (self.is_cancelled and self._cancel_tasks_once()):
                return

    def cancel(self) -> None:
        """The run was cancelled: deliver CancelledError to the code where it waits. When its function has ended, its
        other tasks are cancelled, as by `asyncio.run`."""
        assert self.main is not None
        self.is_cancelled, self._unawaited_at_cancel = True, frozenset(self.made)
        self.main.cancel()
        self.advance()

    def _cancel_tasks_once(self) -> bool:
        """Whether the function has just ended and some of its tasks were still running."""
        if self._tasks_are_cancelled or self.main is None or not self.main.done():
            return False
        self._tasks_are_cancelled = True
        return self._loop.cancel_tasks()

    def is_done(self) -> bool:
        """Whether the code has returned or raised, or cannot continue. Code that was cancelled ends with its last task."""
        if self.fatal_error is not None:
            return True
        if self.main is None or not self.main.done():
            return False
        return not (self.is_cancelled and self._loop.has_tasks())

    @property
    def is_dismissed(self) -> bool:
        """Whether this process has stopped driving the code."""
        return self._is_dismissed

    def dismiss(self) -> None:
        """Stop driving the code. Its waits are cancelled and its commands are refused, so that it ends and leaves nothing
        to the garbage collector. Its log lines are dropped meanwhile."""
        self._is_dismissed = self.silencer.on = True
        for command in self.open.values():
            command.future.settled().cancel()
        if self._loop.is_unfinished():
            with replays_silenced():
                self._loop.end_tasks()
        self._loop.release()
        self.close = self.main = self.on_progress = None
        self.open.clear()
        self.new_commands.clear()
        for made in list(self.made.values()):
            made.close()
        self._failures.clear()

    def deadlock(self) -> NotDurable:
        """The error for code that waits when nothing is in progress that could end the wait."""
        return NotDurable(
            f"the workflow waits{self._loop.wait_places()} for something that nothing will set: no node, timer, question or "
            "child run is under way, and a workflow cannot wait for anything else. Do this in a node."
        )

    def unawaited(self) -> list[str]:
        """What code that has ended made and never awaited, with file and line. Calls of a task that was cancelled, has
        failed or is still running are not reported, nor, if the run was cancelled, calls made before that."""
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

    # --- commands of the code

    def issue(self, command: Command) -> asyncio.Future[Any]:
        """Record a command of the code. Returns the future of its outcome."""
        if self._is_dismissed:
            raise _dismissed()
        if type(command) is not NodeCommand:
            command.assign_id(self.run, self.generation)
        key = command.key
        if key in self.open:
            raise NotDurable(f"{command.describe()} is already open: a workflow cannot issue it twice at the same time")
        self.open[key] = self.new_commands[key] = command
        command.future = future = Pending(loop=self._loop)
        future.command, future.code, future.hash_value = command, self, self.next_hash()
        return future

    def begin_generation(self, generation: int) -> None:
        """A person went back to this event. Commands that are not in the log yet are issued again with new ids."""
        self.generation = generation
        for key, command in list(self.new_commands.items()):
            if isinstance(command, ChildCommand | QuestionCommand):
                command.assign_id(self.run, generation)
                del self.new_commands[key], self.open[key]
                self.new_commands[command.key] = self.open[command.key] = command

    def note(self, note: Note) -> None:
        """Record a statement of the code."""
        if self._is_dismissed:
            raise _dismissed()
        self.new_commands[note.key] = note

    def set_attributes(self, changes: Mapping[str, e.AttributeValue | None], place: Where | None) -> None:
        """Record changes of search attributes. Those that are made before the code waits again become one event."""
        changed = {name: value for name, value in changes.items() if not is_same(self.attributes.get(name), value)}
        if not changed:
            return
        after = {name: value for name, value in {**self.attributes, **changed}.items() if value is not None}
        check_count(f"{shown(place)}: set_attributes()", after)
        self.attributes = after
        before = self.new_commands.get(ATTRIBUTES)
        if isinstance(before, Note) and isinstance(before.event, e.AttributesSet):
            changed = {**before.event.attributes, **changed}
        note = Note(ATTRIBUTES, e.AttributesSet(attributes=changed))
        note.name, note.where = ", ".join(changed), place
        self.note(note)

    def show_progress(self, progress: dict[str, Any]) -> None:
        """Keep the progress, and show it unless this is a replay."""
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
        """The code no longer waits for this command."""
        if self.open.pop(command.key, None) is None or self._is_dismissed:
            return
        if self.new_commands.pop(command.key, None) is not None:
            return  # it was never logged
        if self.close is not None:
            self.close(command)
        else:
            self.to_close[command.key] = command

    def request_child_end(self, command: ChildCommand) -> bool:
        """The code cancelled this child. Request its end, and wait for it. False if the child has not started."""
        if self._is_dismissed or command.key in self.new_commands or command.key not in self.open:
            return False
        if not command.is_cancel_requested:
            command.is_cancel_requested = True
            if self.close is not None:
                self.close(command)
            else:
                self.to_close[command.key] = command
        return True

    # --- deliveries to the code

    def resolve_cancelled(self, command: ChildCommand) -> None:
        """Deliver the end of a child that the code had cancelled."""
        command.future.settled().cancel()
        self.advance()

    def resolve(self, command: Command, value: Any) -> None:
        """Deliver an outcome and run the code."""
        future = command.future
        del command.future, future.command, future.code  # as `settled` does, for the outcome that nearly every node has
        future.set_result(value)
        self.advance()

    def resolve_failure(self, command: Command, failure: e.Failure) -> None:
        """Deliver a failure and run the code."""
        error = error_from(failure, self.workflow.fn.__module__)
        self._failures[id(error)] = (error, command.name)
        if len(self._failures) > REMEMBERED_FAILURES:
            del self._failures[next(iter(self._failures))]
        future = command.future.settled()
        future.set_exception(error)
        future.exception()  # mark it as retrieved: the code need not look at it
        self.advance()

    def resolve_timer(self, command: TimerCommand) -> None:
        """Deliver a timer and run the code."""
        if command.alarm is not None:
            command.future.settled()
            self._loop.ring(command.alarm)
            self.advance()
        else:
            self.resolve(command, None)

    def node_of_error(self, error: BaseException | None) -> str:
        """The node whose failure this error is, or was caused by; empty if there is none."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._failures:
                return self._failures[id(error)][1]
            if isinstance(error, BaseExceptionGroup):
                return next(filter(None, map(self.node_of_error, error.exceptions)), "")
            error = error.__cause__ or error.__context__
        return ""


def reason_of(error: BaseException) -> BaseException:
    """The error that the run fails with, for an error that its code raised. A `NotDurable` inside exception groups
    replaces the groups that libraries wrap it in."""
    if isinstance(error, RuntimeError) and "attached to a different loop" in str(error):
        return NotDurable(f"the workflow awaits something that is not durable ({error}). Do this in a node.")
    return _refusal_in(error) or error


def _refusal_in(error: BaseException) -> NotDurable | None:
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_refusal_in, error.exceptions)), None)
    return error if isinstance(error, NotDurable) else None


def _has_returned(task: asyncio.Task[Any] | None) -> bool:
    return task is None or (task.done() and not task.cancelled() and asyncio.Task.exception(task) is None)


def _named(coroutine: Any) -> str:
    return str(getattr(coroutine, "__name__", "") or coroutine.describe())


def _dismissed() -> Dismissed:
    return Dismissed("this process has stopped driving the workflow")


async def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return await ThreadHandoff(fn, args, kwargs).run()
