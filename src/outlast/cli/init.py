"""`outlast init`: a new project with a first workflow that runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from outlast.cli.console import notice, show_lines
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.project_template import FILES
from outlast.errors import InvalidInput
from outlast.views.lines import line
from outlast.views.texts import plain


def init(
    folder: Annotated[str, typer.Argument(help="Where; the current folder by default.", metavar="FOLDER")] = ".",
) -> None:
    """Make a project: settings, a first workflow, its tests, a README.

    It adds files to a folder and replaces none.

    \b
    outlast init
    outlast init my-project
    """
    carry_out(lambda: _init(Path(folder)))


async def _init(folder: Path) -> int:
    make_project(folder)
    for name in FILES:
        show_lines([line(plain(str(folder / name)), fit="copy")])
    steps = "python flows.py, then outlast ps"
    notice(f"Next: {steps}" if folder == Path() else f"Next: cd {folder}, {steps}", style="bold")
    return SOUND


def make_project(folder: Path) -> None:
    """Write the files of a new project into `folder`, all or none; `InvalidInput` if one of them is there."""
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there:
        raise InvalidInput(
            f"{folder} has {' and '.join(there)} already, and nothing is replaced; choose another folder"
        )
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
        raise InvalidInput(f"there can be no project in {str(folder)[:200]!r}: {error}") from error
