"""A file that is being written: published when it is complete, kept under another name when it is not."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from typing import Literal, NamedTuple, TypeAlias

from outlast.atomic_file import publish
from outlast.errors import InvalidInput

Stage: TypeAlias = Literal["begun", "finished", "interrupted"]

FINISHED, INTERRUPTED = "outlast.output", "outlast.output.interrupted"
"""The logger names of lines about files; the text of such a line is the path."""


MAX_NAME = 255
"""Bytes that file systems allow in a file name."""


class OutputFile(NamedTuple):
    """The hidden path of a file, its final path, the path that the user gave, and the path of the incomplete file, if
    it was kept."""

    hidden: str
    final: str
    given: str
    kept: str = ""

    def publish(self) -> None:
        """Flush the file and rename it to its final path in one atomic step, durably."""
        if os.path.isdir(self.hidden):
            raise InvalidInput(f"output_path({self.given!r}) writes one file, but a folder was created at the path")
        if not os.path.exists(self.hidden):
            raise InvalidInput(
                f"nothing was written for output_path({self.given!r}): write to the path that the `with` block gives"
            )
        publish(self.hidden, self.final)

    def keep_partial(self) -> OutputFile | None:
        """Rename the hidden file to the first free name that marks it as interrupted; None if there is no hidden file.

        Creating the name exclusively reserves it, so that no other file is replaced. A process that dies between the
        two steps leaves an empty file and the hidden one."""
        is_folder = os.path.isdir(self.hidden) and not os.path.islink(self.hidden)
        with suppress(OSError):
            if os.path.lexists(self.hidden):
                place = _reserve(self.final, is_folder)
                try:
                    os.replace(self.hidden, place)
                except OSError:  # another process was first
                    os.rmdir(place) if is_folder else os.unlink(place)
                    raise
                return self._replace(kept=place if os.path.isabs(self.given) else os.path.relpath(place))
        return None


def _reserve(final: str, is_folder: bool) -> str:
    for number in count(1):
        place = partial_of(final, number)
        with suppress(FileExistsError):
            if is_folder:
                os.mkdir(place)
            else:
                os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return place
    raise AssertionError("count() does not end")


def split(name: str) -> tuple[str, str]:
    """`report` and `.csv`; `all` and `.tar.gz`."""
    stem, extension = os.path.splitext(name)
    base, inner = os.path.splitext(stem)
    return (base, inner + extension) if inner == ".tar" else (stem, extension)


def partial_of(path: str, number: int = 1) -> str:
    """The path of an incomplete file: `report_interrupted.csv` for `report.csv`, then `report_interrupted-2.csv`, …"""
    folder, name = os.path.split(path)
    stem, extension = split(name)
    ending = f"_interrupted{f'-{number}' if number > 1 else ''}{extension}"
    return os.path.join(folder, cut(stem, MAX_NAME - len(os.fsencode(ending))) + ending)


def cut(name: str, size: int) -> str:
    """The beginning of a name, of at most `size` bytes."""
    raw = os.fsencode(name)
    return name if len(raw) <= size else raw[:size].decode(errors="ignore")
