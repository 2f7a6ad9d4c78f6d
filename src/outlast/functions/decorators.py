"""`@node` and `@workflow`: functions that the engine executes, and how code uses them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from msgspec.structs import replace

from outlast.definition.durations import Seconds, seconds_or_none
from outlast.definition.function import (
    CLEANUP,
    NodeSpec,
    WorkflowSpec,
    checked_name,
    checked_priority,
    checked_queue,
    document,
    entry_of,
    fingerprint,
    version_of,
    where_to_run,
)
from outlast.definition.retry import NEVER, Retry
from outlast.errors import InvalidInput, NotDurable
from outlast.functions.call import Call
from outlast.functions.commands import ChildCommand, NodeCommand
from outlast.functions.registry import register
from outlast.functions.scope import current, current_node
from outlast.history.ids import checked_run
from outlast.values.arguments import Arguments
from outlast.values.attributes import AttributeInput, checked_attributes
from outlast.values.checked_text import checked_texts, words
from outlast.values.source_location import shown, user_place

if TYPE_CHECKING:
    from outlast.client.handle import RunHandle

LONGEST_CLEANUP = 365 * 24 * 3600
P = ParamSpec("P")
R = TypeVar("R")


class Starter(Protocol):
    """Starts runs: an engine."""

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[RunHandle[R]]: ...


open_engine: ContextVar[Starter | None] = ContextVar("outlast_engine", default=None)
"""The engine that `async with` opened in this context."""


class Node(Generic[P, R]):
    """A unit of work. Calling it in a workflow returns a `Call`; `fn` is the undecorated function."""

    def __init__(self, spec: NodeSpec, *, id: str | None = None) -> None:
        functools.update_wrapper(self, spec.fn)
        self.fn: Callable[P, Any] = spec.fn
        self._spec = spec
        self._id = id

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._spec.name

    @functools.cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self.fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Call this node with these arguments. It starts when the call is awaited."""
        scope = current.get(None)
        if scope is None:
            raise _called_elsewhere("node", self._spec.name, "call it in a function decorated with @workflow")
        name = scope.node(self._spec.name, self._id)
        command = NodeCommand(name, self._spec, self._arguments, args, kwargs, scope.step)
        if scope.made is not None:
            scope.made.append(command)
        return Call(scope, command, sys._getframe(1))

    def _command_named(self, name: str, step: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NodeCommand:
        """The command of a call whose name is already known."""
        return NodeCommand(name, self._spec, self._arguments, args, kwargs, step)

    def options(
        self,
        *,
        id: str | None = None,
        retry: Retry | int | None = None,
        timeout: Seconds | None = None,
        repeatable: bool | None = None,
    ) -> Node[P, R]:
        """The same node with other options for the calls made through the result. Options that are not given are kept.
        `id` names one call among many, for example by the item it works on, so that the order of the calls may change."""
        policy = None if retry is None else _checked_retry(retry)
        changes: dict[str, Any] = {"retry": policy, "timeout": _checked_timeout(timeout), "repeatable": repeatable}
        spec = replace(self._spec, **{name: value for name, value in changes.items() if value is not None})
        other = Node[P, R](spec, id=self._id if id is None else _checked_id("id", id))
        other.__dict__["_arguments"] = self._arguments
        return other

    def __repr__(self) -> str:
        return f"<node {self._spec.name}>"


class StartOptions(dict[str, Any]):
    """Options for starting a run, besides its parameters."""


class Workflow(Generic[P, R]):
    """A durable function. `start` or `run` it; called inside another workflow it is a child run."""

    def __init__(self, spec: WorkflowSpec, start: StartOptions | None = None) -> None:
        functools.update_wrapper(self, spec.fn)
        self.fn: Callable[P, Any] = spec.fn
        self._spec = spec
        self._start_options = start or StartOptions()

    @functools.cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self.fn)

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self._spec.name

    @functools.cached_property
    def _is_async(self) -> bool:
        """Whether its function is a coroutine function; a plain one runs in a thread."""
        return inspect.iscoroutinefunction(self.fn)

    @property
    def version(self) -> str:
        """The version of its definition: the hash of its source."""
        return version_of(self._spec)

    @property
    def _document(self) -> bytes:
        """Its definition as it is stored."""
        return document(self._spec)

    def _exclusive_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The exclusive key for a run with these parameters; empty if the workflow has none."""
        pattern: str = self._start_options.get("exclusive") or self._spec.exclusive
        if not pattern:
            return ""
        bound = self._arguments.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            return pattern.format(**bound.arguments)
        except (LookupError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"exclusive={pattern!r} of workflow {self._spec.name} has a field that is not a parameter: {error}"
            ) from error

    @property
    def _placing(self) -> tuple[str, int, str]:
        """The queue, the priority and the fairness key of a run."""
        options, spec = self._start_options, self._spec
        queue, priority = options.get("queue", spec.queue), options.get("priority", spec.priority)
        return queue, priority, options.get("fairness_key", "")

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[RunHandle[R]]:
        """Start a run on the engine that `async with outlast.open()` opened here: `handle = await flow.start(...)`. The
        same as `engine.start(flow, ...)` on that engine."""
        if current.get(None) is not None:
            raise no_start_in_a_workflow(self.name)
        engine = open_engine.get()
        if engine is None:
            raise InvalidInput(
                f"{shown(user_place())}: {self.name}.start() needs an engine that is open here: call it inside "
                f"`async with outlast.open():`, or call engine.start({self.name}, ...)"
            )
        return engine.start(self, *args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """In a workflow: start a child run with these parameters. The call returns its result."""
        scope = current.get(None)
        name = self.name
        if scope is None:
            raise _called_elsewhere("workflow", name, f"use outlast.run({name}, ...) or {name}.start(...)")
        self._check_as_child(scope.code.child_ids)
        command = ChildCommand(scope.node(name, self._start_options.get("idempotency_key")), self, args, kwargs)
        return Call(scope, command, sys._getframe(1))

    def _check_as_child(self, ids: set[str]) -> None:
        if not self._start_options.get("start", True):
            raise InvalidInput(
                f"{shown(user_place())}: workflow {self.name} has start=False, which is not supported for a child run: "
                "call it without that option when the child should begin"
            )
        if self._start_options.get("exclusive") or self._spec.exclusive:
            raise InvalidInput(
                f"{shown(user_place())}: workflow {self.name} has exclusive=…, which is not supported for a child run: "
                "start it as a run of its own, or call a workflow without that option"
            )
        given = self._start_options.get("id")
        if given in ids:
            place = shown(user_place())
            raise InvalidInput(
                f"{place}: {given!r} is the id of another child of this run: give each child an id of its own"
            )
        if given:
            ids.add(given)

    def options(
        self,
        *,
        id: str | None = None,
        idempotency_key: str | None = None,
        title: str = "",
        tags: Sequence[str] = (),
        attributes: Mapping[str, AttributeInput] | None = None,
        exclusive: str = "",
        start: bool | None = None,
        queue: str | None = None,
        priority: int | None = None,
        fairness_key: str | None = None,
    ) -> Workflow[P, R]:
        """The same workflow with options for its start. Options that are not given are kept. Starting it twice with one
        `id` (the id of the run) or with one `idempotency_key` starts one run. By its `attributes` a run is found in lists:
        text, numbers, true or false, and times. Only one of the runs with the same
        `exclusive` text is live at a time. With `start=False` the run is only created:
        `engine.begin` begins it.

        The run waits in `queue` until a worker of that queue has capacity. Runs with the greatest `priority` (-100 to 100)
        begin first; among equals, the runs of each `fairness_key` (for example a customer) take turns."""
        key = _checked_id("idempotency_key", idempotency_key)
        named = {"id": None if id is None else checked_run(words("id", id)), "idempotency_key": key}
        texts = {"title": words("title", title), "exclusive": words("exclusive", exclusive)}
        found = checked_attributes("attributes", attributes or {})
        given = {**named, **texts, "tags": _checked_tags(tags), "attributes": found}
        chosen = StartOptions(self._start_options | {name: value for name, value in given.items() if value})
        if start is not None:
            chosen["start"] = start
        if queue is not None:
            chosen["queue"] = checked_queue(queue)
        if priority is not None:
            chosen["priority"] = checked_priority(priority)
        if fairness_key is not None:
            chosen["fairness_key"] = _checked_id("fairness_key", fairness_key or None) or ""
        if "id" in chosen and "idempotency_key" in chosen:
            raise InvalidInput("give id or idempotency_key, not both: either one makes the start idempotent")
        other = Workflow[P, R](self._spec, chosen)
        if (known := self.__dict__.get("_arguments")) is not None:  # not made here: types may be defined later
            other.__dict__["_arguments"] = known
        return other

    def __repr__(self) -> str:
        return f"<workflow {self._spec.name}>"


class _NodeMaker(Protocol):
    """The result of `@node(...)`: a decorator for async and for plain functions."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Node[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Node[P, R]: ...


class _WorkflowMaker(Protocol):
    """The result of `@workflow(...)`: a decorator for async and for plain functions."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Workflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Workflow[P, R]: ...


@overload
def node(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Node[P, R]: ...
@overload
def node(fn: Callable[P, R], /) -> Node[P, R]: ...
@overload
def node(
    *,
    name: str | None = None,
    retry: Retry | int = NEVER,
    timeout: Seconds | None = None,
    run_in: Literal["loop", "thread", "process", "dask"] | None = None,
    repeatable: bool = True,
) -> _NodeMaker: ...
def node(fn: Any = None, /, **options: Any) -> Any:
    """Make a function a node: a unit of work whose result is recorded, so that a completed node is never executed again.

    `retry` is a `Retry` or a number of attempts. `timeout` is per attempt, in seconds or as `timedelta`. `run_in` is where a
    plain function runs: in a thread by default; with "process" in a separate process, for work that uses the processor
    heavily or must be killable; with "dask" on the cluster that the setting `dask` names. `repeatable=False` holds the run
    for a person's decision if the node is interrupted."""
    return functools.partial(_node, **options) if fn is None else _node(fn, **options)


def _node(
    fn: Any,
    *,
    name: str | None = None,
    retry: Retry | int = NEVER,
    timeout: Seconds | None = None,
    run_in: str | None = None,
    repeatable: bool = True,
) -> Node[..., Any]:
    _require_function(fn, "node")
    spec = NodeSpec(
        fn=fn,
        name=checked_name(name or fn.__name__.lstrip("_"), "node"),
        code=fingerprint(fn),
        entry=entry_of(fn),
        retry=_checked_retry(retry),
        timeout=_checked_timeout(timeout),
        run_in=where_to_run(fn, run_in),
        repeatable=repeatable,
    )
    return Node(spec)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    on_restart: Literal["resume", "hold"] = "resume",
    exclusive: str = "",
    cleanup: float | timedelta = CLEANUP,
    queue: str = "",
    priority: int = 0,
) -> _WorkflowMaker: ...
def workflow(fn: Any = None, /, **options: Any) -> Any:
    """Make a function a workflow: plain Python that continues from its log after a crash.

    Put every effect that must not happen twice into a node. `on_restart="hold"` lets a person decide after a crash. Of the
    runs with the same `exclusive` key, such as `"folder:{path}"` with a parameter `path`, one is live at a time. When a run
    is cancelled, its `finally` and `except CancelledError` blocks have `cleanup` seconds (or a `timedelta`).

    Its runs wait in `queue` until a worker of that queue has capacity, the greatest `priority` (-100 to 100) first."""
    return functools.partial(_workflow, **options) if fn is None else _workflow(fn, **options)


def _workflow(
    fn: Any,
    *,
    name: str | None = None,
    on_restart: Literal["resume", "hold"] = "resume",
    exclusive: str = "",
    cleanup: float | timedelta = CLEANUP,
    queue: str = "",
    priority: int = 0,
) -> Workflow[..., Any]:
    _require_function(fn, "workflow")
    if on_restart not in ("resume", "hold"):
        raise InvalidInput(f'on_restart={on_restart!r} is not valid: use "resume" or "hold"')
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidInput(
            f"{shown((fn.__code__, 0))}: {fn.__qualname__} is a generator; a workflow returns one result: use `return`"
        )
    called = checked_name(name or fn.__name__, "workflow")
    key, seconds = words("exclusive", exclusive), _checked_cleanup(cleanup)
    placing = checked_queue(queue), checked_priority(priority)
    spec = WorkflowSpec(fn, called, fingerprint(fn), entry_of(fn), on_restart, key, seconds, *placing)
    made: Workflow[..., Any] = Workflow(spec)
    register(called, made)
    return made


def no_start_in_a_workflow(name: str) -> NotDurable:
    """The error for workflow code that starts a run of this workflow."""
    return NotDurable(
        f"{shown(user_place())}: a workflow cannot start {name}: after a crash it would start another run. Call it as a "
        "child run, or start it in a node."
    )


def _called_elsewhere(what: str, name: str, advice: str) -> NotDurable:
    place, caller = shown(user_place()), current_node()
    bare = f"call {name}.fn(...) for the bare function"
    if caller:
        return NotDurable(
            f"{place}: node {caller} calls {what} {name}: the code of a node cannot call a {what}, because the result would "
            f"not be recorded. Call {name} in the workflow, or {bare}"
        )
    return NotDurable(f"{place}: {what} {name} is called outside a workflow: {advice}, or {bare}")


def _require_function(fn: Any, what: str) -> None:
    if isinstance(fn, Node | Workflow):
        raise InvalidInput(f"{fn!r} is already decorated: a function is either a node or a workflow, not both")
    if not inspect.isfunction(fn):
        raise InvalidInput(
            f"@{what} takes a function, not {type(fn).__name__}: put the decorator above `def` or `async def`"
        )
    owner, first = fn.__qualname__.rpartition(".")[0], next(iter(inspect.signature(fn).parameters), "")
    if owner and not owner.endswith("<locals>") and first in ("self", "cls"):
        raise InvalidInput(
            f"{shown((fn.__code__, 0))}: {fn.__qualname__} is a method; a {what} is a function without `self`, "
            "because the object would be lost in a crash. Make it a function, and pass the data as parameters"
        )


def _checked_retry(retry: Any) -> Retry:
    if isinstance(retry, int) and not isinstance(retry, bool):
        return Retry(max_attempts=retry)
    if not isinstance(retry, Retry):
        raise InvalidInput(f"retry must be a number of attempts or a Retry, not {retry!r}")
    return retry


def _checked_timeout(timeout: Seconds | None) -> float | None:
    found = seconds_or_none(timeout, "timeout")
    if found is not None and not found > 0:
        raise InvalidInput(f"timeout must be a positive number of seconds, not {timeout!r}")
    return found


def _checked_cleanup(cleanup: float | timedelta) -> float:
    seconds = cleanup.total_seconds() if isinstance(cleanup, timedelta) else cleanup
    if type(seconds) not in (int, float) or not 0 <= seconds <= LONGEST_CLEANUP:
        raise InvalidInput(
            f"cleanup must be a number of seconds from 0 to {LONGEST_CLEANUP:,}, or a timedelta, not {cleanup!r}"
        )
    return float(seconds)


def _checked_id(option: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or not 0 < len(given) <= 200 or not given.isprintable()):
        raise InvalidInput(f"{option} must be a text of 1 to 200 printable characters, not {given!r}")
    return None if given is None else words(option, given)


def _checked_tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InvalidInput(f"tags must be a sequence of texts, not one text: write tags=({tags!r},)")
    if not isinstance(tags, Iterable):
        raise InvalidInput(f"tags must be a sequence of texts, not {tags!r}")
    return checked_texts("tags", tags)
