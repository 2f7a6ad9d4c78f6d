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
    """Where it is written, where it belongs, where it is kept if it is not complete, and what its writer calls it."""

    hidden: str
    final: str
    partial: str
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
            os.replace(self.hidden, self.partial)
            return True
        return False

    @property
    def partial_given(self) -> str:
        """The partial file, as its writer would call it."""
        return os.path.join(os.path.dirname(self.given), os.path.basename(self.partial))


def _flush(path: str) -> None:
    if os.name == "nt" and os.path.isdir(path):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
