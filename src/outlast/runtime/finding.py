"""Where the code of a run is found: in the apps that are named, or where its start was recorded."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from outlast.definition.function import WorkflowSpec
from outlast.errors import BadInput, NotImportable
from outlast.history import events as e
from outlast.runtime import registry
from outlast.runtime.functions import Workflow

_files: set[str] = set()
"""Modules that were named by their files."""
_folders: set[str] = set()
"""Folders in which modules are found here, and nowhere else by themselves."""


@cache
def found_at(spec: WorkflowSpec) -> str:
    """Where code is found again: `module:name`; or the file and the name, if the module was run as a script, named by its
    file, or lies in a folder that others do not look into. A module of that name may be another one there."""
    module, _, name = spec.entry.partition(":")
    if module == "__main__":
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        return f"{Path(script).resolve()}:{name}" if script else spec.entry
    code = getattr(inspect.unwrap(spec.fn), "__code__", None)
    file = code.co_filename if code is not None else ""
    is_beside = "." not in module and os.path.dirname(file) in _folders
    return f"{file}:{name}" if file in _files or is_beside else spec.entry


def look_only_here(folder: str) -> None:
    """Modules in this folder are found by this process and perhaps by no other: their files are recorded."""
    _folders.add(folder)


def load_apps(apps: Iterable[str], root: str = "") -> None:
    """Import these modules or files, whose workflows are known from then on. Modules are found from `root` too."""
    if root and root not in sys.path:
        sys.path.insert(0, root)
    for app in apps:
        load(app.partition(":")[0] if not app.endswith(".py") else app)


def load(place: str) -> ModuleType:
    """A module by its name, or a file by its path; `NotImportable` says why it could not be."""
    try:
        return _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except NotImportable:
        raise
    except BadInput:
        raise
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise NotImportable(f"there is no module {place} here; looked in: {', '.join(sys.path[:3])} …") from error
        raise NotImportable(f"{place} could not be imported: it needs {error.name}, which is not installed") from error
    except Exception as error:
        raise NotImportable(f"{place} could not be imported: {type(error).__name__}: {error}") from error


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise NotImportable(f"there is no file {path}")
    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) and Path(str(main.__file__)).resolve() == path:  # type: ignore[union-attr]
        return main  # type: ignore[return-value]
    _files.add(str(path))
    look_only_here(str(path.parent))
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


def find_workflow(created: e.RunCreated, apps: Iterable[str] = ()) -> Workflow[..., Any]:
    """The workflow of a run, from what is known, then the apps, then the recorded entry. The run is not touched."""
    found = registry.known(created.workflow)
    if found is None:
        load_apps(apps)
        found = registry.known(created.workflow)
    if found is None and created.entry:
        found = _from_entry(created)
    if found is None:
        raise NotImportable(
            f"workflow {created.workflow} is not known here: name the module or file that defines it with --app, "
            "in the setting `apps`, or import it first"
        )
    return found


def _from_entry(created: e.RunCreated) -> Workflow[..., Any] | None:
    place = created.entry.rpartition(":")[0]
    if created.root and created.root not in sys.path:
        sys.path.insert(0, created.root)
    load(_where_it_is_now(place, created.root) if place.endswith(".py") else place)
    return registry.known(created.workflow)


def _where_it_is_now(file: str, root: str) -> str:
    """The file, or, if its project is not there (it was moved, or the machine is another), the same file of the project that
    is here. In a project that is there, no other file stands for one that is gone."""
    before = Path(root).resolve()
    if not root or before.is_dir() or not Path(file).is_relative_to(before):
        return file
    within = Path(file).relative_to(before)
    return next((str(here) for folder in sys.path if (here := Path(folder) / within).is_file()), file)


def named(entry: str) -> Workflow[..., Any]:
    """The workflow that `module:name`, `file.py:name` or, if a module has only one, `module` names."""
    place, colon, name = entry.rpartition(":") if ":" in entry else (entry, "", "")
    module = load(place)
    workflows = {key: value for key, value in vars(module).items() if isinstance(value, Workflow)}
    if not colon and len(workflows) == 1:
        return next(iter(workflows.values()))
    if not workflows:
        raise BadInput(f"{place} defines no workflow")
    known = ", ".join(sorted(workflows))
    if not colon:
        raise BadInput(f"say which workflow of {place} is meant, as {place}:name; there are: {known}")
    for key, value in workflows.items():
        if name in (key, value.spec.name):
            return value
    raise BadInput(f"{place} has no workflow {name!r}; there are: {known}")
