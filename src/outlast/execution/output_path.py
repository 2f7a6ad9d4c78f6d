"""Files that nodes write: whole under their own name, or not there at all.

What is being written lies beside its place, under a hidden name that holds the run, the node and the attempt, so that no two
attempts share it. Once it is complete it is flushed to the disk and renamed, which is one step. What was interrupted is kept
under a name that says so and that was free. After a kill only the hidden file is left: its name says which attempt wrote it,
and a later attempt of the node renames it the same way. Nothing is removed.

That a file was written is said as a line of the attempt: it is no fact. What counts is the file.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from outlast.errors import InvalidInput, NotDurable
from outlast.execution import remote
from outlast.execution.node_context import Inside
from outlast.execution.partial_file import Stage, Written, cut, split
from outlast.functions import scope
from outlast.values.context import speaker

LONGEST_STEM, LONGEST_EXTENSION = 100, 20
"""Bytes of the final name that a hidden name holds; the writer's name and place take about 100 more."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


class OutputPath:
    """What `output_path` gives: enter it, with or without await, to get the path to write to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._given = os.fspath(path)
        if not self._given or self._given.endswith(("/", os.sep)):
            raise InvalidInput(f"output_path({self._given!r}) names no file; it writes one file, with a name")
        if scope.current.get(None) is not None:
            raise NotDurable(
                "output_path() is for nodes: a workflow's code runs again in every replay. Do this in a node."
            )
        self._written: Written | None = None
        self._writer: _Writer = _Nobody()

    def __enter__(self) -> Path:
        """The path to write to. Close what you open before the block ends."""
        final = Path(os.path.realpath(self._given))  # a link stays a link, and leads to the new file
        if final.is_dir():
            raise InvalidInput(f"output_path({self._given!r}): {final} is a folder; it writes one file, with a name")
        final.parent.mkdir(parents=True, exist_ok=True)
        self._writer = _writer()
        stem, extension = split(final.name)
        own = self._writer.own
        for leftover in list(_leftovers(final.parent, own)) if own.may_have_leftovers else ():
            self._keep(leftover._replace(given=self._given))
        stem, extension = cut(stem, LONGEST_STEM), cut(extension, LONGEST_EXTENSION)
        hidden = final.with_name(f".{stem}~{own.name}~{own.generation}-{own.attempt}.{secrets.token_hex(4)}{extension}")
        self._written = Written(str(hidden), str(final), self._given)
        self._writer.tell("begun", self._written)
        return hidden

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        written = self._written
        assert written is not None, "entered before it is left"
        if kind is not None or self._writer.is_over:
            self._keep(written)
            return
        try:
            written.publish()
        except BaseException:
            self._keep(written)
            raise
        self._writer.tell("finished", written)

    async def __aenter__(self) -> Path:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await asyncio.to_thread(self.__exit__, None, None, None)  # the disk may take its time
        else:
            self.__exit__(kind, error, trace)

    def _keep(self, written: Written) -> None:
        if (kept := written.keep_partial()) is not None:
            self._writer.tell("interrupted", kept)


def output_path(path: str | os.PathLike[str]) -> OutputPath:
    """A place to write a file to, so that it is whole under its name or not there at all, whatever is killed when.

    `with ol.output_path("results/report.csv") as path:` gives the path of a hidden file beside the final one, for your own
    code to write to. When the block ends well the file is flushed and renamed; a file that was there is replaced only then.
    When it does not, what was written is kept as `report_interrupted.csv`, or `report_interrupted-2.csv` if that is taken.
    Folders that are missing are made. In async nodes `async with` does not block the loop. Outside of a run it does the
    same, for one file after the other."""
    return OutputPath(path)


# --- who writes


class _Own(NamedTuple):
    """What a hidden name says of its writer. `name` is the same for all attempts of a node."""

    name: str
    generation: int
    attempt: int

    @property
    def may_have_leftovers(self) -> bool:
        return (self.generation, self.attempt) > (0, 1)


class _Writer(Protocol):
    @property
    def own(self) -> _Own: ...
    @property
    def is_over(self) -> bool: ...
    def tell(self, stage: Stage, written: Written) -> None: ...


class _Nobody:
    """A plain function, outside of any run."""

    is_over = False

    @property
    def own(self) -> _Own:
        return _Own("outside", 0, 1)

    def tell(self, stage: Stage, written: Written) -> None:
        pass


class _Near:
    """An attempt in this process."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    @property
    def own(self) -> _Own:
        return _own(self._inside.idempotency_key, self._inside.attempt)

    @property
    def is_over(self) -> bool:
        return self._inside.is_over

    def tell(self, stage: Stage, written: Written) -> None:
        self._inside.tell_written(stage, written)


class _Far:
    """An attempt whose engine is elsewhere."""

    is_over = False

    def __init__(self, here: remote.Far) -> None:
        self._here = here

    @property
    def own(self) -> _Own:
        return _own(self._here.attempt.idempotency_key, self._here.attempt.attempt)

    def tell(self, stage: Stage, written: Written) -> None:
        self._here.output({"stage": stage, **written._asdict()})


def _writer() -> _Writer:
    if (here := remote.current()) is not None:
        return _Far(here)
    found = speaker()
    return _Near(found) if isinstance(found, Inside) else _Nobody()


def _own(token: str, attempt: int) -> _Own:
    who, _, generation = token.rpartition("/")
    run, _, node = who.partition("/")
    mark = hashlib.blake2b(who.encode(), digest_size=6).hexdigest()
    return _Own(f"{_ODD.sub('-', run)[:36]}~{_ODD.sub('-', node)[:30]}~{mark}", int(generation), attempt)


def _leftovers(folder: Path, own: _Own) -> Iterator[Written]:
    """What earlier attempts of the node were writing in a folder when they were killed. A later attempt may be at work: this
    one may be of a process that was stopped for long."""
    of_node = re.compile(rf"\.(.*)~{re.escape(own.name)}~(\d+)-(\d+)\.[0-9a-f]{{8}}(\..*)?", re.DOTALL)
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            match = of_node.fullmatch(entry.name)
            if match and (int(match[2]), int(match[3])) < (own.generation, own.attempt):
                yield Written(entry.path, str(folder / f"{match[1]}{match[4] or ''}"), "")
