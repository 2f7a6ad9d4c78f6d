"""What a node and a workflow are, before anything runs: a function, a name, and how it wants to be treated."""

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
"""Seconds of clean-up, if a workflow does not say otherwise."""
_PLACES = {"thread": "a thread", "process": "a process", "dask": "a cluster"}
_NAME = re.compile(r"[^\W\d][\w.-]{0,99}")


class NodeSpec(Struct, frozen=True):
    """One unit of work. `code` is the fingerprint of its function. A run that is interrupted inside a node that is not
    `repeatable` holds."""

    fn: Callable[..., Any]
    name: str
    code: str
    entry: str
    retry: Retry = NEVER
    timeout: float | None = None
    run_in: Where = "loop"
    repeatable: bool = True


class WorkflowSpec(Struct, frozen=True):
    """A durable function. `entry` says where its code is found again: `module:name`. Of its runs with the same `exclusive`
    key, a text that may name parameters in braces, only one is live at a time."""

    fn: Callable[..., Any]
    name: str
    code: str
    entry: str
    on_restart: Literal["resume", "hold"] = "resume"
    exclusive: str = ""
    cleanup: float = CLEANUP
    """Seconds that its code has to clean up after it was cancelled."""


def checked_name(name: str, what: str) -> str:
    """A name that can stand in ids: those are made of names, `/`, `#` and `[`…`]`."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a {what}: use letters, digits, _ . - beginning with a letter"
        )
    return name


def where_to_run(fn: Callable[..., Any], wanted: str | None) -> Where:
    """Coroutine functions run on the loop, plain ones in threads, unless a plain one asks for a process or a cluster."""
    if wanted is not None and wanted not in get_args(Where):
        raise InvalidInput(f'run_in={wanted!r} is not a place to run; there are "loop", "thread", "process" and "dask"')
    if inspect.iscoroutinefunction(fn):
        if wanted not in (None, "loop"):
            raise InvalidInput(f"{fn.__qualname__} is async and runs on the loop, not in {_PLACES[wanted]}")
        return "loop"
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidInput(f"{fn.__qualname__} is a generator: a node returns one value, so return a list instead")
    if wanted == "loop":
        raise InvalidInput(
            f"{fn.__qualname__} is a plain function and would block the loop: make it async, or leave run_in out"
        )
    return "thread" if wanted is None else cast("Where", wanted)


def fingerprint(fn: Callable[..., Any]) -> str:
    """Six hex digits that change when the function's own code does, and not when it only moves in its file."""
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
    """The definition of a workflow as it is stored, so that people can read later what a run was started with: its source.
    Where there is none to be had, the fingerprint of its code stands for it."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(spec.fn)))
    except (OSError, TypeError):
        source = ""
    written = {"kind": "function", "workflow": spec.name, "source": source, "code": "" if source else spec.code}
    return msgspec.json.encode(written)


@cache
def version_of(spec: WorkflowSpec) -> str:
    """The version of a workflow: the name of its definition."""
    return content_hash(document(spec))


def entry_of(fn: Callable[..., Any]) -> str:
    """Where the function is found again."""
    return f"{fn.__module__}:{fn.__qualname__}"
