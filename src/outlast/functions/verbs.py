"""The verbs of workflow code: gather, race, first, sleep, now, random, uuid, step, set_attributes, ask, approve,
continue_as_new."""

from __future__ import annotations

import asyncio
import random as chances
import sys
import uuid as uuids
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from types import FrameType
from typing import Any, Generic, NoReturn, TypeVar, overload

import msgspec

from outlast.errors import InvalidInput
from outlast.functions.call import Call, CombinedCall, WorkflowCall, ensure_started
from outlast.functions.code import Continue
from outlast.functions.commands import Note, QuestionCommand, TimerCommand
from outlast.functions.scope import Scope, current, require_scope
from outlast.history import events as e
from outlast.values.attributes import AttributeInput, checked_changes
from outlast.values.checked_text import words
from outlast.values.codec import codec_for
from outlast.values.schemas import schema_of
from outlast.values.source_location import shown, user_place

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
Many = Awaitable[R] | WorkflowCall[R]

# --- together ----------------------------------------------------------------------------------------------------------


@overload
def gather(a: Many[A], b: Many[B], /) -> WorkflowCall[tuple[A, B]]: ...
@overload
def gather(a: Many[A], b: Many[B], c: Many[C], /) -> WorkflowCall[tuple[A, B, C]]: ...
@overload
def gather(a: Many[A], b: Many[B], c: Many[C], d: Many[D], /) -> WorkflowCall[tuple[A, B, C, D]]: ...
@overload
def gather(a: Many[A], b: Many[B], c: Many[C], d: Many[D], e: Many[E], /) -> WorkflowCall[tuple[A, B, C, D, E]]: ...
@overload
def gather(
    a: Many[A], b: Many[B], c: Many[C], d: Many[D], e: Many[E], f: Many[F], /
) -> WorkflowCall[tuple[A, B, C, D, E, F]]: ...
@overload
def gather(*calls: Many[R]) -> WorkflowCall[list[R]]: ...
@overload
def gather(*calls: Many[Any], return_exceptions: bool) -> WorkflowCall[list[Any]]: ...
def gather(*calls: Any, return_exceptions: bool = False) -> Any:
    """Run all of these calls at once. Returns their results in the order given. The first failure is raised while the
    others continue, unless `return_exceptions` puts failures among the results."""
    scope = require_scope("gather()")
    return CombinedCall(scope, _gathered(calls, return_exceptions), calls, "gather", sys._getframe(1))


async def _gathered(calls: tuple[Any, ...], return_exceptions: bool) -> list[Any]:
    return list(await asyncio.gather(*ensure_started(calls), return_exceptions=return_exceptions))


class RaceResult(msgspec.Struct, Generic[R], frozen=True):
    """The call that ended first, and its result. `index` counts from 0; `name` is the keyword of the call."""

    index: int
    value: R
    name: str = ""


@overload
def race(a: Many[A], b: Many[B], /) -> WorkflowCall[RaceResult[A | B]]: ...
@overload
def race(a: Many[A], b: Many[B], c: Many[C], /) -> WorkflowCall[RaceResult[A | B | C]]: ...
@overload
def race(a: Many[A], b: Many[B], c: Many[C], d: Many[D], /) -> WorkflowCall[RaceResult[A | B | C | D]]: ...
@overload
def race(*calls: Many[R]) -> WorkflowCall[RaceResult[R]]: ...
@overload
def race(**calls: Many[Any]) -> WorkflowCall[RaceResult[Any]]: ...
def race(*calls: Any, **named: Any) -> Any:
    """Wait for the first of these calls to end. Returns its result or raises its error. The others are cancelled. The
    winner is recorded. `race(paid=…, late=…)` sets `name` in the result."""
    return _first_of("race", calls, named, sys._getframe(1))


@overload
def first(a: Many[A], b: Many[B], /) -> WorkflowCall[RaceResult[A | B]]: ...
@overload
def first(a: Many[A], b: Many[B], c: Many[C], /) -> WorkflowCall[RaceResult[A | B | C]]: ...
@overload
def first(*calls: Many[R]) -> WorkflowCall[RaceResult[R]]: ...
@overload
def first(**calls: Many[Any]) -> WorkflowCall[RaceResult[Any]]: ...
def first(*calls: Any, **named: Any) -> Any:
    """The same as `race`, but the other calls continue. Keep them in variables: await them later, or pass them to `first`
    again."""
    return _first_of("first", calls, named, sys._getframe(1))


def _first_of(
    verb: str, calls: tuple[Any, ...], named: dict[str, Any], caller: FrameType
) -> CombinedCall[RaceResult[Any]]:
    scope = require_scope(f"{verb}()")
    if bool(calls) is bool(named):
        raise InvalidInput(
            f"{shown(user_place())}: {verb}() takes at least one call, either all by name or none by name"
        )
    name, calls = scope.unique_name(verb), calls or tuple(named.values())
    return CombinedCall(scope, _ended_first(scope, name, calls, tuple(named), verb == "race"), calls, name, caller)


async def _ended_first(
    scope: Scope, decision: str, calls: tuple[Any, ...], names: tuple[str, ...], cancels: bool
) -> RaceResult[Any]:
    futures = ensure_started(calls)
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        index = next(place for place, each in enumerate(futures) if each.done())
    finally:
        if cancels:
            for each in futures:
                each.cancel()
    name = names[index] if names else ""
    chosen = e.DecisionRecorded(key=decision, value=msgspec.Raw(msgspec.json.encode(name or index)))
    scope.code.note(Note(f"decision:{decision}", chosen))
    return RaceResult(index, futures[index].result(), name)


# --- in time -----------------------------------------------------------------------------------------------------------


def sleep(
    seconds: float | timedelta = 0,
    /,
    *,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
    until: datetime | None = None,
) -> Call[None]:
    """Wait for this time, or until `until`. The process may stop meanwhile."""
    scope = require_scope("sleep()")
    if until is not None:
        if until.tzinfo is None:
            raise InvalidInput(
                f"{shown(user_place())}: until={until.isoformat()} has no time zone: write datetime(…, tzinfo=UTC)"
            )
        due = round(until.timestamp() * 1e6)
    else:
        span = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        span += timedelta(minutes=minutes, hours=hours, days=days)
        due = scope.code.now_us + max(0, span // timedelta(microseconds=1))
    return Call(scope, TimerCommand(scope.unique_name("sleep"), due), sys._getframe(1))


def now() -> datetime:
    """The time of the last delivery to this workflow; the same in a replay."""
    return datetime.fromtimestamp(require_scope("now()").code.now(), UTC)


def random() -> float:
    """A number from 0 up to 1; the same in a replay."""
    return chances.Random(_seed(require_scope("random()"), "random")).random()


def uuid() -> uuids.UUID:
    """A UUID that no other call returns; the same in a replay."""
    return uuids.UUID(bytes=_seed(require_scope("uuid()"), "uuid"), version=4)


def _seed(scope: Scope, what: str) -> bytes:
    text = f"{scope.code.recorded_in}\0{scope.path}\0{what}\0{scope.count()}"
    return blake2b(text.encode(), digest_size=16).digest()


# --- steps -------------------------------------------------------------------------------------------------------------


class step:
    """`async with step("publish"):` (or `with`, in a plain workflow): the nodes called inside belong to that step."""

    def __init__(self, name: str) -> None:
        name = words("step", name)
        if not name or not name.isprintable() or name.isdigit() or set("/#[]:") & set(name) or len(name) > 100:
            raise InvalidInput(
                f"{shown(user_place())}: {name!r} is not a valid step name: use 1 to 100 printable characters without "
                "/ # [ ] : that are not only digits"
            )
        self._base = name

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def __enter__(self) -> None:
        scope = require_scope("step()")
        self._name, self._code = scope.unique_name(self._base), scope.code
        self._code.note(Note(f"step:{self._name}", e.StepStarted(step=self._name)))
        self._token = current.set(scope.for_step(self._name))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not GeneratorExit:
            current.reset(self._token)
        if kind is None:
            self._code.note(Note(f"step end:{self._name}", e.StepCompleted(step=self._name)))


# --- search attributes -------------------------------------------------------------------------------------------------


def set_attributes(attributes: Mapping[str, AttributeInput | None], /) -> None:
    """Set search attributes of this run, by which lists of runs are filtered and sorted; None removes one. Other attributes
    are kept. It does not wait: the change is recorded together with what the workflow does next."""
    scope, place = require_scope("set_attributes()"), user_place()
    scope.code.set_attributes(checked_changes(f"{shown(place)}: set_attributes()", attributes), place)


# --- questions -----------------------------------------------------------------------------------------------------------


@overload
def ask(prompt: str, *, key: str | None = None) -> Call[str]: ...
@overload
def ask(prompt: str, type: type[R], *, key: str | None = None) -> Call[R]: ...
@overload
def ask(prompt: str, type: Any = ..., *, key: str | None = None) -> Call[Any]: ...
def ask(prompt: str, type: Any = str, *, key: str | None = None) -> Call[Any]:
    """Ask a person a question and wait for the answer, which has the type given (a text by default)."""
    scope = require_scope("ask()")
    name = scope.unique_name("ask") if key is None else scope.keyed_name("ask", key)
    question = QuestionCommand(name, "ask", _checked_prompt(prompt), schema_of(type), codec_for(type))
    return Call(scope, question, sys._getframe(1))


def approve(prompt: str, *, key: str | None = None) -> Call[bool]:
    """Ask a person to approve. Returns True or False."""
    scope = require_scope("approve()")
    name = scope.unique_name("approve") if key is None else scope.keyed_name("approve", key)
    question = QuestionCommand(name, "approve", _checked_prompt(prompt), schema_of(bool), codec_for(bool))
    return Call(scope, question, sys._getframe(1))


def _checked_prompt(prompt: Any) -> str:
    if not isinstance(prompt, str) or not prompt.strip():
        raise InvalidInput(f"{shown(user_place())}: the prompt of a question must be a text that is not empty")
    return words("prompt", prompt)


# --- continuing as a new run -------------------------------------------------------------------------------------------


def continue_as_new(*args: Any, **params: Any) -> WorkflowCall[NoReturn]:
    """End this run. Its successor, a new run of the same workflow with these parameters, continues with a log of its own.

    `await` it like any call; in a plain workflow, `.wait()` for it. It takes effect when it is called: it raises an
    exception that unwinds the workflow. From then on the successor is the outcome of this run, even if the code catches the
    exception, returns in a `finally` block, raises another error or calls this again. Code that has not ended after the time
    for its clean-up (`@workflow(cleanup=30)`) is stopped."""
    scope = require_scope("continue_as_new()")
    try:
        packed = scope.code.workflow._arguments.pack(args, params)
    except TypeError as error:
        raise InvalidInput(f"{scope.code.workflow.name} cannot continue with these parameters: {error}") from error
    wanted = Continue(packed.inputs)
    if scope.code.continued is None:
        scope.code.continued, scope.code.continued_us = wanted, scope.code.now_us
    raise wanted
