"""Finds a function by its name in another process.

A function is named "module:qualname". The module may be `__main__`: then the script is loaded here under the name
`__mp_main__`, as multiprocessing does, so that the block under `if __name__ == "__main__"` does not run again.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import CodeType, ModuleType
from typing import Any, Literal

import msgspec

from outlast.errors import InvalidInput
from outlast.execution.process_wire import Call
from outlast.history.events import Category, Failure
from outlast.values.arguments import Arguments
from outlast.values.failures import failure_of

is_loading = False
"""Whether a script is being loaded. Work that a script starts at import time would be started in each of its helpers.
"""

_MAIN = ("__main__", "__mp_main__")
_loaded: dict[str, ModuleType] = {}
_lock = threading.RLock()
"""A worker of a cluster may have several threads that need the same script."""


def main_of_this_process() -> str:
    """The name under which another process loads this one's `__main__`: the path of the script, or the module that
    `python -m` ran; empty in an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else getattr(main, "__file__", None) or ""


def function_named(entry: str, main: str) -> Callable[..., Any]:
    """The function with this name, or the `fn` of the object with this name. `InvalidInput` if there is none; errors of
    the module's import are raised unchanged."""
    value = _thing_named(entry, main)
    function = getattr(value, "fn", value)
    if not callable(function):
        raise InvalidInput(f"{entry} is not a function and holds none")
    return function  # type: ignore[no-any-return]


def classes_named(names: Iterable[str], main: str) -> tuple[type[BaseException], ...]:
    """The error classes with these names. Unknown names are skipped: no error in this process can be of such a class."""
    found = []
    for name in names:
        try:
            value = _thing_named(name, main)
        except (Exception, SystemExit):  # importing a module may raise anything
            continue
        if isinstance(value, type) and issubclass(value, BaseException):
            found.append(value)
    return tuple(found)


def _thing_named(entry: str, main: str) -> Any:
    name, _, path = entry.partition(":")
    if name in _MAIN:
        with _lock:
            value: Any = _main_loaded(main)
    else:
        value = _imported(name)
    for step in path.split("."):
        try:
            value = getattr(value, step)
        except AttributeError:
            raise InvalidInput(
                f"{entry} cannot be found by its name in another process; define it at the top level of its module"
            ) from None
    return value


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise InvalidInput(f"there is no module {name!r} on the path of the process that is to run it") from None
        raise


def _main_loaded(main: str) -> ModuleType:
    """The script or module, loaded once. A failed load is undone, so that the next call loads it again."""
    global is_loading
    if main in _loaded:
        return _loaded[main]
    code, module = _main_compiled(main)
    previous = {name: sys.modules.get(name) for name in _MAIN}
    # Before its code runs: dataclasses, for example, look up their module by name.
    sys.modules.update(dict.fromkeys(_MAIN, module))
    is_loading = True
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules["__mp_main__"]
        sys.modules.update({name: old for name, old in previous.items() if old is not None})
        raise
    finally:
        is_loading = False
    _loaded[main] = module
    return module


def _main_compiled(main: str) -> tuple[CodeType, ModuleType]:
    module = ModuleType("__mp_main__")
    if os.path.isfile(main):
        with open(main, "rb") as file:
            module.__file__ = main
            module.__package__ = ""
            return compile(file.read(), main, "exec", dont_inherit=True), module
    spec = importlib.util.find_spec(main) if main and os.sep not in main else None
    get_code = getattr(spec and spec.loader, "get_code", None)
    code = get_code(main) if get_code else None
    if spec is None or code is None:
        raise InvalidInput(
            f"the script {main!r} does not exist: a function of an interactive session, or of a script that was moved, "
            "cannot run in another process; move the function into a module"
        )
    module.__spec__, module.__package__, module.__file__ = spec, spec.parent, spec.origin
    return code, module


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
