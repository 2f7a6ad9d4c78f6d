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
from outlast.execution.node_context import NodeContext
from outlast.execution.partial_file import OutputFile, Stage, cut, split
from outlast.functions import scope
from outlast.values.context import current_attempt_log

MAX_STEM, MAX_EXTENSION = 100, 20
"""Bytes of the final name that a hidden name holds; the writer's name and place take about 100 more."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


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
        self._written: OutputFile | None = None
        self._writer: _Writer = _NoWriter()

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
        stem, extension = cut(stem, MAX_STEM), cut(extension, MAX_EXTENSION)
        hidden = final.with_name(f".{stem}~{own.name}~{own.generation}-{own.attempt}.{secrets.token_hex(4)}{extension}")
        self._written = OutputFile(str(hidden), str(final), self._given)
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

    def _keep(self, written: OutputFile) -> None:
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


class _OutputName(NamedTuple):
    """What a hidden name says of its writer. `name` is the same for all attempts of a node."""

    name: str
    generation: int
    attempt: int

    @property
    def may_have_leftovers(self) -> bool:
        return (self.generation, self.attempt) > (0, 1)


class _Writer(Protocol):
    @property
    def own(self) -> _OutputName: ...
    @property
    def is_over(self) -> bool: ...
    def tell(self, stage: Stage, written: OutputFile) -> None: ...


class _NoWriter:
    """A plain function, outside of any run."""

    is_over = False

    @property
    def own(self) -> _OutputName:
        return _OutputName("outside", 0, 1)

    def tell(self, stage: Stage, written: OutputFile) -> None:
        pass


class _LocalWriter:
    """An attempt in this process."""

    def __init__(self, attempt: NodeContext) -> None:
        self._attempt = attempt

    @property
    def own(self) -> _OutputName:
        return _own(self._attempt.idempotency_key, self._attempt.attempt)

    @property
    def is_over(self) -> bool:
        return self._attempt.is_over

    def tell(self, stage: Stage, written: OutputFile) -> None:
        self._attempt.output_changed(stage, written)


class _RemoteWriter:
    """An attempt whose engine is elsewhere."""

    is_over = False

    def __init__(self, here: remote.RemoteAttempt) -> None:
        self._here = here

    @property
    def own(self) -> _OutputName:
        return _own(self._here.attempt.idempotency_key, self._here.attempt.attempt)

    def tell(self, stage: Stage, written: OutputFile) -> None:
        self._here.output({"stage": stage, **written._asdict()})


def _writer() -> _Writer:
    if (here := remote.current()) is not None:
        return _RemoteWriter(here)
    found = current_attempt_log()
    return _LocalWriter(found) if isinstance(found, NodeContext) else _NoWriter()


def _own(token: str, attempt: int) -> _OutputName:
    who, _, generation = token.rpartition("/")
    run, _, node = who.partition("/")
    mark = hashlib.blake2b(who.encode(), digest_size=6).hexdigest()
    return _OutputName(f"{_UNSAFE.sub('-', run)[:36]}~{_UNSAFE.sub('-', node)[:30]}~{mark}", int(generation), attempt)


def _leftovers(folder: Path, own: _OutputName) -> Iterator[OutputFile]:
    """What earlier attempts of the node were writing in a folder when they were killed. A later attempt may be at work: this
    one may be of a process that was stopped for long."""
    of_node = re.compile(rf"\.(.*)~{re.escape(own.name)}~(\d+)-(\d+)\.[0-9a-f]{{8}}(\..*)?", re.DOTALL)
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            match = of_node.fullmatch(entry.name)
            if match and (int(match[2]), int(match[3])) < (own.generation, own.attempt):
                yield OutputFile(entry.path, str(folder / f"{match[1]}{match[4] or ''}"), "")
