"""`outlast init`."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from outlast.cli.console import notice, show_lines
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.project_template import FILES
from outlast.errors import InvalidInput
from outlast.lifecycle.timeline.phrases import plain
from outlast.views.lines import line


def init(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="Folder of the project.", metavar="FOLDER")] = ".",
) -> None:
    """Create a project: settings, a first workflow, its tests, a README.

    Existing files are not replaced.

    \b
    outlast init
    outlast init my-project
    """

    def begin() -> Coroutine[Any, Any, int]:
        if "url" in ctx.obj or "profile" in ctx.obj:
            raise InvalidInput("`outlast init` creates files here: omit --server and --profile")
        return _init(Path(folder))

    carry_out(begin)


async def _init(folder: Path) -> int:
    make_project(folder)
    for name in FILES:
        show_lines([line(plain(str(folder / name)), fit="copy")])
    steps = "python flows.py, then outlast ps"
    notice(f"Next: {steps}" if folder == Path() else f"Next: cd {folder}, {steps}", style="bold")
    return SOUND


def make_project(folder: Path) -> None:
    """Write the files of a new project into `folder`, all or none; `InvalidInput` if one of them exists."""
    existing = [name for name in FILES if os.path.lexists(folder / name)]
    if existing:
        raise InvalidInput(f"{folder} already has {' and '.join(existing)}; choose another folder")
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                written.append(folder / name)
                file.write(text)
    except (OSError, ValueError) as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise InvalidInput(f"could not create a project in {str(folder)[:200]!r}: {error}") from error
