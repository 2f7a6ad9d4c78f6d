"""One file on its way to its place: published when it is complete, kept aside when it is not."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from outlast.errors import BadInput

Stage: TypeAlias = Literal["begun", "finished", "interrupted"]

FINISHED, INTERRUPTED = "outlast.output", "outlast.output.interrupted"
"""The loggers of the lines that name files; the text of such a line is the path."""


class Written(NamedTuple):
    """Where it is written, where it belongs, and what its writer calls that."""

    hidden: str
    final: str
    given: str

    def publish(self) -> None:
        """Flush it and give it its name, in one step for everybody who looks; then the name is durable, too."""
        try:
            _flush(self.hidden)
        except FileNotFoundError:
            raise BadInput(
                f"nothing was written for output_path({self.given!r}): write to the path that the `with` block gives"
            ) from None
        if os.path.isdir(self.hidden):
            raise BadInput(f"output_path({self.given!r}) writes one file, and what was made is a folder")
        os.replace(self.hidden, self.final)
        _flush(os.path.dirname(self.final))

    def keep_partial(self) -> bool:
        """Keep what there is under a name that says so, instead of what was kept before. False if there is nothing."""
        with suppress(OSError):
            os.replace(self.hidden, partial_of(self.final))
            return True
        return False


def split(name: str) -> tuple[str, str]:
    """`report` and `.csv`; `all` and `.tar.gz`."""
    stem, extension = os.path.splitext(name)
    base, inner = os.path.splitext(stem)
    return (base, inner + extension) if inner == ".tar" else (stem, extension)


def partial_of(path: str) -> str:
    """Where an incomplete file is kept: `report_interrupted.csv` for `report.csv`."""
    folder, name = os.path.split(path)
    stem, extension = split(name)
    return os.path.join(folder, f"{stem}_interrupted{extension}")


def _flush(path: str) -> None:
    if os.name == "nt" and os.path.isdir(path):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
