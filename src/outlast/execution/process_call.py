"""One call in a helper process: from the name of a function and its inputs to a result or a failure."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

import msgspec

from outlast.errors import InvalidInput
from outlast.execution.process_entry import classes_named, function_named
from outlast.execution.process_wire import Call
from outlast.history.events import Category, Failure
from outlast.values.arguments import Arguments
from outlast.values.failures import failure_of


def outcome(call: Call, inputs: bytes, lines: AbstractContextManager[None]) -> tuple[Literal["done", "failed"], bytes]:
    """The outcome of a call: the encoded result or failure. Never raises, not even for errors that would end the
    process.

    An unknown name, inputs that do not fit and a result that cannot be stored are permanent failures: another attempt
    would fail in the same way. `lines` is entered around the function alone."""
    is_running = False
    try:
        function = function_named(call.entry, call.main)
        arguments = Arguments(function)
        args, kwargs = arguments.unpack(msgspec.Raw(inputs))
        is_running = True
        # Not while modules are loaded: with a handler installed, their own `logging.basicConfig` would do nothing.
        with lines:
            result = function(*args, **kwargs)
        is_running = False
        return "done", bytes(arguments.returns.encode(result, "result"))
    except BaseException as error:
        category: Category | None = "permanent" if isinstance(error, InvalidInput) and not is_running else None
        return "failed", msgspec.json.encode(_failure(error, call, category))


def _failure(error: BaseException, call: Call, category: Category | None) -> Failure:
    transient = classes_named(call.attempt.transient, call.main)
    permanent = classes_named(call.attempt.permanent, call.main)
    return failure_of(error, transient=transient, permanent=permanent, category=category)
