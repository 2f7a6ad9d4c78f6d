"""Definitions of nodes and workflows: a function, a name, and options."""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import Struct

from outlast.definition.retry import NEVER, Retry
from outlast.errors import InvalidInput
from outlast.history.ids import content_hash

Where: TypeAlias = Literal["loop", "thread", "process", "dask"]

CLEANUP = 30.0
"""The default seconds of clean-up."""
MAX_PRIORITY = 100
_PLACES = {"thread": "a thread", "process": "a process", "dask": "a cluster"}
_NAME = re.compile(r"[^\W\d][\w.-]{0,99}")


class NodeSpec(Struct, frozen=True):
    """One unit of work. `code` is the fingerprint of its function. If a run is interrupted inside a node that is not
    `repeatable`, it is held."""

    fn: Callable[..., Any]
    name: str
    code: str
    entry: str
    retry: Retry = NEVER
    timeout: float | None = None
    run_in: Where = "loop"
    repeatable: bool = True


class WorkflowSpec(Struct, frozen=True):
    """A durable function. `entry` is the place of its code: `module:name`. Of the runs with the same `exclusive` key, a
    text that may name parameters in braces, only one is live at a time. Its runs wait in `queue`, the greatest `priority`
    first."""

    fn: Callable[..., Any]
    name: str
    code: str
    entry: str
    on_restart: Literal["resume", "hold"] = "resume"
    exclusive: str = ""
    cleanup: float = CLEANUP
    """Seconds that its code has to clean up after a cancellation."""
    queue: str = ""
    priority: int = 0


def checked_name(name: str, what: str) -> str:
    """A name that can be part of ids, which consist of names, `/`, `#` and `[`…`]`."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a valid {what} name: use up to 100 letters, digits, _ . - and start with a letter"
        )
    return name


def checked_queue(name: Any) -> str:
    """The name of a queue; empty for none."""
    if not isinstance(name, str):
        raise InvalidInput(f"queue must be the name of a queue, not {name!r}")
    return checked_name(name, "queue") if name else ""


def checked_priority(priority: Any) -> int:
    """A priority: of two runs that are ready, a worker takes the one with the greater priority first."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MAX_PRIORITY:
        raise InvalidInput(
            f"priority must be a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}, the greater first, not {priority!r}"
        )
    return priority


def where_to_run(fn: Callable[..., Any], wanted: str | None) -> Where:
    """Coroutine functions run on the loop, plain ones in threads, unless `run_in` of a plain one names a process or a
    cluster."""
    if wanted is not None and wanted not in get_args(Where):
        raise InvalidInput(f'run_in={wanted!r} is not valid: use "loop", "thread", "process" or "dask"')
    if inspect.iscoroutinefunction(fn):
        if wanted not in (None, "loop"):
            raise InvalidInput(
                f"{fn.__qualname__} is async and runs on the loop, not in {_PLACES[wanted]}: leave run_in out"
            )
        return "loop"
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidInput(f"{fn.__qualname__} is a generator: a node returns one value, so return a list instead")
    if wanted == "loop":
        raise InvalidInput(
            f"{fn.__qualname__} is a plain function and would block the loop: make it async, or leave run_in out"
        )
    return "thread" if wanted is None else cast("Where", wanted)


def fingerprint(fn: Callable[..., Any]) -> str:
    """Six hex digits that change when the function's own code changes, and not when it only moves in its file."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        return ""
    hasher = hashlib.blake2b(digest_size=3)
    _feed(hasher.update, code)
    return hasher.hexdigest()


def _feed(update: Callable[[bytes], None], code: CodeType) -> None:
    update(code.co_code)
    update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(update, constant)
        elif isinstance(constant, frozenset):  # its order differs from process to process
            update(repr(sorted(map(repr, constant))).encode())
        else:
            update(repr(constant).encode())


@cache
def document(spec: WorkflowSpec) -> bytes:
    """The stored definition of a workflow: its source, so that people can read later what a run was started with. If
    there is no source, the fingerprint of its code replaces it."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(spec.fn)))
    except (OSError, TypeError):
        source = ""
    written = {"kind": "function", "workflow": spec.name, "source": source, "code": "" if source else spec.code}
    return msgspec.json.encode(written)


@cache
def version_of(spec: WorkflowSpec) -> str:
    """The version of a workflow: the hash of its definition."""
    return content_hash(document(spec))


def entry_of(fn: Callable[..., Any]) -> str:
    """The place of a function: `module:name`."""
    return f"{fn.__module__}:{fn.__qualname__}"
