"""Find the code of a run: in the apps that are configured, or at the place recorded at its start.

A run records its code as `module:name`, with the folder to import the module from if that folder is not on the path of other
processes. If the code was named by its file or run as a script, the run records the path and the name.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from outlast.definition.function import WorkflowSpec
from outlast.errors import InvalidInput, NotImportable
from outlast.functions import registry
from outlast.functions.decorators import Workflow
from outlast.history import events as e
from outlast.values.source_location import kind_of_file

_files: set[str] = set()
"""Modules that were named by their files."""
_folders: set[str] = set()
"""Folders in which only this process finds modules."""


@cache
def import_entry(spec: WorkflowSpec) -> tuple[str, str]:
    """The entry of a workflow, and the folder to import it from if other processes do not search it."""
    module, _, name = spec.entry.partition(":")
    if module == "__main__":
        module = _module_of_program()
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        if not module:
            return (f"{Path(script).resolve()}:{name}" if script else spec.entry), ""
    code = getattr(inspect.unwrap(spec.fn), "__code__", None)
    file = code.co_filename if code is not None else ""
    if file in _files:
        return f"{file}:{name}", ""
    folder = _folder_of(module, file)
    return f"{module}:{name}", folder if folder in _folders else ""


def _module_of_program() -> str:
    """The name of the module that `python -m` runs; empty for a script."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.name if spec is not None else ""


def _folder_of(module: str, file: str) -> str:
    """The folder that a module was imported from; empty if its file is not named after it."""
    path = module.replace(".", "/")
    return next(
        (file.removesuffix(inner) for inner in (f"/{path}.py", f"/{path}/__init__.py") if file.endswith(inner)), ""
    )


def mark_local_only(folder: str) -> None:
    """This process finds modules in this folder and other processes may not: runs record the folder."""
    _folders.add(folder)


def add_script_folder(root: str) -> None:
    """Mark the folder of the running script, or of the package whose module `python -m` runs, as one that only this
    process searches, unless it is the project's folder."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return
    module, path = _module_of_program(), Path(file).resolve()
    if (
        module and kind_of_file(file) != "user"
    ):  # a program such as pytest: other processes find the modules in its folder
        return
    folder = _folder_of(module, str(path)) if module else str(path.parent)
    if folder and folder != root:
        mark_local_only(folder)


def load_apps(apps: Iterable[str], root: str = "") -> None:
    """Import these modules or files and register their workflows. `root` is added to the module path."""
    if root and root not in sys.path:
        sys.path.insert(0, root)
    for app in apps:
        load(app.partition(":")[0] if not app.endswith(".py") else app)


def load(place: str) -> ModuleType:
    """Import a module by its name, or a file by its path. `NotImportable` says why that failed."""
    try:
        return _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    except (NotImportable, InvalidInput):
        raise
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise NotImportable(f"no module named {place}; searched: {', '.join(sys.path[:3])} …") from error
        raise NotImportable(f"{place} could not be imported: it needs {error.name}, which is not installed") from error
    except Exception as error:
        if isinstance(error, ImportError) and "relative import" in str(error):
            raise NotImportable(
                f"{place} belongs to a package: name it as package.module, and add the parent folder of the package to "
                "PYTHONPATH or run the command there"
            ) from error
        raise NotImportable(f"{place} could not be imported: {type(error).__name__}: {error}") from error


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise NotImportable(f"no such file: {path}")
    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) and Path(str(main.__file__)).resolve() == path:  # type: ignore[union-attr]
        return main  # type: ignore[return-value]
    _files.add(str(path))
    mark_local_only(str(path.parent))
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path) and module.__name__ != "__main__":
            return module
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _load_from(folder: str, name: str) -> None:
    """Import a module from this folder only."""
    mark_local_only(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    file = getattr(load(name), "__file__", None) or ""
    if Path(_folder_of(name, file)).resolve() != Path(folder).resolve():
        raise NotImportable(
            f"the run needs module {name} from {folder}, but {name} is already imported from {file}: use another process"
        )


def find_workflow(created: e.RunCreated, apps: Iterable[str] = ()) -> Workflow[..., Any]:
    """The workflow of a run: from the registered ones, then the apps, then the recorded entry. The run is not changed."""
    found = registry.known(created.workflow)
    if found is None:
        load_apps(apps)
        found = registry.known(created.workflow)
    if found is None and created.entry:
        found = _from_entry(created)
    if found is None:
        raise NotImportable(
            f"workflow {created.workflow} is not known here: name the module or file that defines it with --app or in the "
            "setting `apps`, or import it first"
        )
    return found


def _from_entry(created: e.RunCreated) -> Workflow[..., Any] | None:
    place = created.entry.rpartition(":")[0]
    if created.root and created.root not in sys.path:
        sys.path.insert(0, created.root)
    try:
        if created.folder:
            _load_from(_relocated(created.folder, created.root), place)
        else:
            load(_relocated(place, created.root) if place.endswith(".py") else place)
    except NotImportable as error:
        if place.endswith(".py"):
            raise
        raise NotImportable(f"{error}. If the module is elsewhere, run the command there with --app {place}") from error
    return registry.known(created.workflow)


def _relocated(path: str, root: str) -> str:
    """The file or folder. If its project does not exist here (it was moved, or this is another machine), the same file of
    the project that is here. If the project exists, a missing file has no replacement."""
    before = Path(root).resolve()
    if not root or before.is_dir() or not Path(path).is_relative_to(before):
        return path
    within = Path(path).relative_to(before)
    return next((str(moved) for folder in sys.path if (moved := Path(folder) / within).exists()), path)


def named(entry: str) -> Workflow[..., Any]:
    """The workflow that `module:name`, `file.py:name` or, if a module has only one, `module` names."""
    place, colon, name = entry.rpartition(":") if ":" in entry else (entry, "", "")
    module = load(place)
    workflows = {key: value for key, value in vars(module).items() if isinstance(value, Workflow)}
    if not colon and len(workflows) == 1:
        return next(iter(workflows.values()))
    if not workflows:
        raise InvalidInput(f"{place} defines no workflow")
    known = ", ".join(sorted(workflows))
    if not colon:
        raise InvalidInput(f"{place} defines several workflows: write {place}:name with one of {known}")
    for key, value in workflows.items():
        if name in (key, value.name):
            return value
    raise InvalidInput(f"{place} has no workflow {name!r}: use one of {known}")
