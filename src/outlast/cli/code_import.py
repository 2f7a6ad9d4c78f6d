"""Where the code of runs comes from: what is named on the command line, then the settings' apps, then what was recorded.

It is imported before a store is opened for writing: a mistake in it leaves every run untouched.
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
    from outlast.functions import workflow_import

    open_the_way(settings)
    _imported(lambda: workflow_import.load_apps(apps))
    found = _imported(lambda: workflow_import.named(entry))
    keep_lines()
    return found


def workflow_of(created: e.RunCreated, apps: Iterable[str], settings: Settings) -> Workflow[..., Any]:
    """The workflow of a run that is there."""
    from outlast.functions import workflow_import

    open_the_way(settings)
    _imported(lambda: workflow_import.load_apps(apps))
    found = _imported(lambda: workflow_import.find_workflow(created, settings.apps))
    keep_lines()
    return found


def load_here(apps: Iterable[str], settings: Settings) -> None:
    """Import what is named, so that its workflows are known; nothing else is imported."""
    from outlast.functions import workflow_import

    if apps or settings.apps:
        open_the_way(settings)
        _imported(lambda: workflow_import.load_apps([*apps, *settings.apps]))


def open_the_way(settings: Settings) -> None:
    """Let modules be found in the current folder and in the project's, before all others."""
    from outlast.functions import workflow_import

    project, here = settings.root.resolve(), Path.cwd()
    if here != project:
        workflow_import.mark_local_only(str(here))
    for folder in (project, here):
        place = str(folder)
        if place in sys.path:
            sys.path.remove(place)
        sys.path.insert(0, place)


def keep_lines() -> None:
    """Where the program's own code does not set logging up, INFO is worth keeping; stderr still gets warnings only."""
    root = logging.getLogger()
    if not root.handlers and root.level == logging.WARNING:
        root.setLevel(logging.INFO)


def _imported(load: Callable[[], T]) -> T:
    try:
        return load()
    except SystemExit as ended:
        raise NotImportable(
            f"the code ended the program while it was imported (exit code {ended.code}): "
            "what a script does by itself belongs under `if __name__ == '__main__':`"
        ) from ended
