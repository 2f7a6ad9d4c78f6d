"""Errors as data, and back (R5).

A log keeps the code or the class name of an error, its message, its traceback, its category, and its arguments and
attributes as far as they can be stored. It is restored as its own class without calling the user's code, so that `except`
and attributes work in a replay as they did live. An error that cannot be restored is a `NodeFailure`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from typing import Any, TypeAlias

import msgspec

from outlast.errors import CODES, NodeFailure, NotDurable, NotStorable, Rejected, code_of
from outlast.history.events import NULL, Category, Failure, Value
from outlast.lifecycle.decide import RECOVERABLE
from outlast.values.codec import decode, encode
from outlast.values.secret_patterns import is_given_away, masked
from outlast.values.tracebacks import REMOTE, trace_of

Classes: TypeAlias = tuple[type[BaseException], ...]

LONGEST_TEXT = 8_000
"""How many characters of a message, and of a trace, are kept."""
LARGEST_DATA = 64_000
"""How many bytes of arguments and attributes are kept; larger data is left out."""
MOST_CAUSES = 8
"""How many causes of an error are kept."""

_OF_RUNS: tuple[tuple[type[BaseException], Category], ...] = (
    (Rejected, "rejected"),
    (PermissionError, "denied"),
    (msgspec.ValidationError, "invalid"),
)
"""The category of a run that fails with an error of these classes; for other classes, it is that of a node."""
# These depend on what exists; any other OSError may go away by itself.
_STEADY = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


def failure_of(
    error: BaseException,
    *,
    transient: Classes = (Exception,),
    permanent: Classes = (),
    category: Category | None = None,
    is_member: bool = False,
) -> Failure:
    """The error as data. `transient` and `permanent` are the classes of a retry policy; `category` overrides all. The
    trace of a member of a group is in that of the group.

    It never fails: an error that raises when it is inspected, or is nested too deeply, is stored with the name of its class.
    """
    cause = None
    for each in reversed(_causes(error)):
        cause = _told_failure(each, (Exception,), (), None, True, cause)
    return _told_failure(error, transient, permanent, category, is_member, cause)


def _causes(error: BaseException) -> list[BaseException]:
    """The chain of errors that it was raised from."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while len(found) < MOST_CAUSES and each is not None:
        each = object.__getattribute__(each, "__cause__")  # without calling the user's code
        if each is None or each is error or any(each is other for other in found):
            break
        found.append(each)
    return found


def _told_failure(
    error: BaseException,
    transient: Classes,
    permanent: Classes,
    category: Category | None,
    is_member: bool,
    cause: Failure | None,
) -> Failure:
    try:
        return Failure(
            kind=kind_of(type(error)),
            message=_kept(_said(error)),
            trace="" if is_member else _kept(trace_of(error), last=True),
            category=category or _category(error, transient, permanent),
            data=_data(error, cause),
        )
    except BaseException as odd:  # a user's class may raise any exception when it is inspected
        message = f"the error cannot be stored: inspecting it raised {kind_of(type(odd))}"
        return Failure(kind_of(type(error)), message, category=category or "permanent")


def run_failure_of(error: BaseException) -> Failure:
    """The error of a failed run as data. Its category says whether the run is recoverable."""
    return failure_of(error, category=_category_of_run(error))


def error_from(failure: Failure, near: str = "") -> Exception:
    """The error of a failure: of its own class, with the recorded traceback as a note, or a `NodeFailure`. `near` is the
    module of the code that receives it: a script is `__main__` where it is run, and has its own name where it is
    imported."""
    note = f"{REMOTE}\n{failure.trace}" if failure.trace else ""
    try:
        error = _rebuilt(failure, near)
        if error is not None:
            return _noted(_caused(error, failure, near), note)
    except Exception:  # its class cannot be instantiated
        pass
    return _noted(_caused(NodeFailure(failure.kind, failure.message, failure.category), failure, near), note)


def _caused(error: Exception, failure: Failure, near: str) -> Exception:
    """The error, with its `__cause__`."""
    cause = _carried(failure).cause
    if cause is not None:
        object.__setattr__(error, "__cause__", error_from(cause, near))
    return error


def _carried(failure: Failure) -> Carried:
    try:
        return msgspec.json.decode(failure.data, type=Carried | None) or Carried()
    except (msgspec.DecodeError, RecursionError):  # damaged: its data is lost
        return Carried()


def _noted(error: Exception, note: str) -> Exception:
    if note:
        error.add_note(note)
    return error


def kind_of(cls: type) -> str:
    """The name of an error class in the log: the code if Outlast defines it, else "module:Name". A module that was run as
    a script is `__main__` in its helper processes too."""
    if code := code_of(cls):
        return code
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


# --- category -------------------------------------------------------------------------------------------


def _category(error: BaseException, transient: Classes, permanent: Classes) -> Category:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if not isinstance(error, Exception) or isinstance(error, (*permanent, NotDurable)):
        return "permanent"
    if isinstance(error, Rejected) or _flag(error, "recoverable") is False:
        return "rejected"
    retryable = _flag(error, "retryable")
    if retryable is not None:
        return "transient" if retryable else "permanent"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError) and not isinstance(error, _STEADY):
        return "transient"
    return "transient" if isinstance(error, transient) else "permanent"


def _category_of_run(error: BaseException) -> Category | None:
    """The category that the error, or one of a group, sets for the run; None if its class sets none."""
    recoverable = _flag(error, "recoverable")
    if recoverable is not None:
        return "permanent" if recoverable else "rejected"
    if isinstance(error, BaseExceptionGroup):
        found = (_category_of_run(each) for each in error.exceptions)
        return next((each for each in found if each is not None and not RECOVERABLE[each]), None)
    if isinstance(error, NodeFailure):
        return next((each for each in RECOVERABLE if each == error.category), None)
    return next((category for cls, category in _OF_RUNS if isinstance(error, cls)), None)


def _flag(error: BaseException, name: str) -> bool | None:
    """A bool attribute of the error; None if it has none."""
    try:
        value = getattr(error, name, None)
    except Exception:  # a property may raise anything
        return None
    return value if isinstance(value, bool) else None


# --- message and traceback -------------------------------------------------------------------------------


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a user's __str__ may raise anything
        return f"<{type(error).__qualname__} cannot be shown: {type(broken).__qualname__}>"


def _kept(text: str, *, last: bool = False) -> str:
    """Text that can be stored: Unicode, bounded, and without the value of a secret."""
    text = masked(text).encode(errors="backslashreplace").decode()
    if len(text) <= LONGEST_TEXT:
        return text
    return f"…{text[1 - LONGEST_TEXT :]}" if last else f"{text[: LONGEST_TEXT - 1]}…"


# --- arguments and attributes ------------------------------------------------------------------------------------------


class Carried(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `Failure.data`; parts that cannot be stored are left out. `errors` are those of a group, `cause` is
    the error that it was raised from."""

    args: Value = NULL
    state: dict[str, Value] = {}
    errors: tuple[Failure, ...] = ()
    cause: Failure | None = None


def _data(error: BaseException, cause: Failure | None) -> Value:
    try:
        _, args, *rest = _builtin(type(error)).__reduce__(error)
        state = {**(rest[0] if rest and isinstance(rest[0], dict) else vars(error))}
    except Exception:  # the data of an error must not raise another error
        return NULL
    state.pop("__notes__", None)  # they are in the trace
    errors: tuple[Failure, ...] = ()
    if isinstance(error, BaseExceptionGroup):
        args = args[:1]
        errors = tuple(failure_of(each, is_member=True) for each in error.exceptions)
    parts = {name: raw for name, value in state.items() if (raw := _storable(value)) is not None}
    carried = Carried((_storable(list(args)) or NULL) if args else NULL, parts, errors, cause)
    found = (msgspec.json.encode(each) for each in (carried, msgspec.structs.replace(carried, cause=None)))
    return next((msgspec.Raw(body) for body in found if _may_be_kept(body)), NULL)


def _may_be_kept(body: bytes) -> bool:
    return 2 < len(body) <= LARGEST_DATA and not is_given_away(body)


def _storable(value: Any) -> Value | None:
    try:
        return encode(value)
    except NotStorable:
        return None


def _rebuilt(failure: Failure, near: str) -> Exception | None:
    cls = _class_named(failure.kind, near)
    if cls is None:
        return None
    try:
        carried = msgspec.json.decode(failure.data, type=Carried | None) or Carried()
        args = decode(carried.args) or ([failure.message] if failure.message else [])
        if issubclass(cls, ExceptionGroup):
            args.append([error_from(each, near) for each in carried.errors])
        builtin = _builtin(cls)
        error: Exception = builtin.__new__(cls, *args)
        builtin.__init__(error, *args)  # in C: a user's __init__, which may have other parameters, is not called
        for name, raw in carried.state.items():
            object.__setattr__(error, name, decode(raw))
    except Exception:  # the caller makes a NodeFailure
        return None
    return error


def _builtin(cls: type) -> Any:
    """The built-in class that an error's class derives from."""
    return next(each for each in cls.__mro__ if each.__module__ == "builtins")


def _class_named(kind: str, near: str) -> type[Exception] | None:
    """The class of a code, or of a name that leads to a class of exceptions. Nothing is called on the way."""
    if kind in CODES:
        return CODES[kind].error
    module, _, path = kind.partition(":")
    if module == "__main__" and near not in ("", "__main__"):  # it was a script where it was recorded
        return _class_in(near, path) or _class_in(module, path)
    if module not in ("builtins", near) and _is_main(module):
        return _class_in("__main__", path)
    return _class_in(module, path)


def _class_in(module: str, path: str) -> type[Exception] | None:
    found: Any = _module_named(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return None
    return None if issubclass(found, StopIteration) else found  # a future cannot hold one


def _is_main(module: str) -> bool:
    """Whether the running script is this module. Importing it would load it a second time."""
    main = sys.modules.get("__main__")
    if (spec := getattr(main, "__spec__", None)) is not None:
        return bool(spec.name == module)
    file = getattr(main, "__file__", None)
    if not file or os.path.splitext(os.path.basename(file))[0] != module.rpartition(".")[2]:
        return False
    try:
        found = importlib.util.find_spec(module)
        return found is not None and found.origin is not None and os.path.samefile(found.origin, file)
    except (ImportError, ValueError, OSError):
        return False


def _module_named(name: str) -> Any:
    if name in sys.modules or not all(part.isidentifier() for part in name.split(".")):
        return sys.modules.get(name)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):  # importing a script may raise any exception
        return None
