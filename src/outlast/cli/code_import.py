"""Imports the code of workflows: from --app, then from the setting `apps`, then from the module recorded in the log.

The code is imported before a store is opened for writing: an error in it changes no run.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.errors import NotImportable
from outlast.history import events as e
from outlast.settings import Settings

if TYPE_CHECKING:
    from outlast.functions.decorators import Workflow

T = TypeVar("T")


def named_workflow(entry: str, apps: Iterable[str], settings: Settings) -> Workflow[..., Any]:
    """The workflow that `module:name`, `file.py:name` or `module` names."""
    from outlast.functions.workflow_import import named

    return _found(apps, settings, lambda: named(entry))


def workflow_of(created: e.RunCreated, apps: Iterable[str], settings: Settings) -> Workflow[..., Any]:
    """The workflow of a run."""
    from outlast.functions.workflow_import import find_workflow

    return _found(apps, settings, lambda: find_workflow(created, settings.apps))


def _found(apps: Iterable[str], settings: Settings, find: Callable[[], T]) -> T:
    from outlast.functions.workflow_import import load_apps

    extend_path(settings)
    _imported(lambda: load_apps(apps))
    found = _imported(find)
    log_info()
    return found


def load_here(apps: Iterable[str], settings: Settings) -> None:
    """Import the apps, so that their workflows are registered. A server has its own."""
    from outlast.functions.workflow_import import load_apps

    if not settings.url and (apps or settings.apps):
        extend_path(settings)
        _imported(lambda: load_apps([*apps, *settings.apps]))


def extend_path(settings: Settings) -> None:
    """Search modules in the current folder and in the project folder first."""
    from outlast.functions import workflow_import

    project, here = settings.root.resolve(), Path.cwd()
    if here != project:
        workflow_import.mark_local_only(str(here))
    for folder in (project, here):
        place = str(folder)
        if place in sys.path:
            sys.path.remove(place)
        sys.path.insert(0, place)


def log_info() -> None:
    """Record log lines from level INFO, unless the code configures logging. stderr still shows warnings only."""
    root = logging.getLogger()
    if not root.handlers and root.level == logging.WARNING:
        root.setLevel(logging.INFO)


def _imported(load: Callable[[], T]) -> T:
    try:
        return load()
    except SystemExit as ended:
        raise NotImportable(
            f"the code called exit during its import (exit code {ended.code}): "
            "move the script part under `if __name__ == '__main__':`"
        ) from ended
