"""How a function is found by its name in another process.

A function is named "module:qualname". The module may be `__main__`: then the script that was run is loaded here under the
name `__mp_main__`, as multiprocessing does it, so that what is under `if __name__ == "__main__"` does not run again.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import CodeType, ModuleType
from typing import Any

from outlast.errors import InvalidInput

is_loading = False
"""Whether a script is being loaded. What a script starts while it is loaded, each of its helpers would start as well."""

_MAIN = ("__main__", "__mp_main__")
_loaded: dict[str, ModuleType] = {}
_lock = threading.RLock()
"""A worker of a cluster may have several threads that want the same script."""


def main_of_this_process() -> str:
    """What another process is to load for this one's `__main__`: the path of the script, or the name of the module that
    `python -m` ran; empty in an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else getattr(main, "__file__", None) or ""


def function_named(entry: str, main: str) -> Callable[..., Any]:
    """The function, or the one that the object of that name holds as `fn`. `InvalidInput` if the name does not lead to one;
    what the module raises when it is imported is raised here."""
    thing = _thing_named(entry, main)
    function = getattr(thing, "fn", thing)
    if not callable(function):
        raise InvalidInput(f"{entry} is not a function and holds none")
    return function  # type: ignore[no-any-return]


def classes_named(names: Iterable[str], main: str) -> tuple[type[BaseException], ...]:
    """The classes of errors; names that lead nowhere are passed over, for no error here can be of such a class."""
    found = []
    for name in names:
        try:
            thing = _thing_named(name, main)
        except (Exception, SystemExit):  # a module that is imported may do anything
            continue
        if isinstance(thing, type) and issubclass(thing, BaseException):
            found.append(thing)
    return tuple(found)


def _thing_named(entry: str, main: str) -> Any:
    name, _, path = entry.partition(":")
    if name in _MAIN:
        with _lock:
            found: Any = _main_loaded(main)
    else:
        found = _imported(name)
    for step in path.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise InvalidInput(
                f"{entry} cannot be found by its name in another process; define it at the top level of its module"
            ) from None
    return found


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise InvalidInput(f"there is no module {name!r} on the path of the process that is to run it") from None
        raise


def _main_loaded(main: str) -> ModuleType:
    """The script or module, loaded once. One that fails leaves nothing behind, and is loaded anew when it is asked for."""
    global is_loading
    if main in _loaded:
        return _loaded[main]
    code, module = _main_compiled(main)
    before = {name: sys.modules.get(name) for name in _MAIN}
    # Before its code runs: a dataclass, say, looks its module up by name.
    sys.modules.update(dict.fromkeys(_MAIN, module))
    is_loading = True
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules["__mp_main__"]
        sys.modules.update({name: old for name, old in before.items() if old is not None})
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
            f"the script {main!r} that was run is not there; a function of an interactive session, or of a script that was "
            "moved, cannot run in another process: put it into a module"
        )
    module.__spec__, module.__package__, module.__file__ = spec, spec.parent, spec.origin
    return code, module
