"""Files that nodes write: complete under their own name, or not present under that name.

A file is written beside its final path, under a hidden name that contains the run, the node and the attempt, so that
attempts do not collide. Once complete, it is flushed to disk and renamed in one step. An interrupted file is renamed to
a free name that marks it as interrupted. After a kill only the hidden file remains: its name identifies the attempt,
and a later attempt of the node renames it in the same way. No file is deleted.

A log line of the attempt reports a written file. It is not an event: only the file counts.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from outlast.errors import InvalidInput, NotDurable
from outlast.execution import remote
from outlast.execution.node_context import NodeContext
from outlast.execution.partial_file import OutputFile, Stage, cut, split
from outlast.functions import scope
from outlast.values.context import current_attempt_log

MAX_STEM, MAX_EXTENSION = 100, 20
"""Bytes of the final name that a hidden name contains; the rest of the hidden name takes about 100 more."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class OutputPath:
    """The result of `output_path`: a context manager, with or without `async`, that returns the path to write to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._given = os.fspath(path)
        if not self._given or self._given.endswith(("/", os.sep)):
            raise InvalidInput(f"output_path({self._given!r}) does not name a file: give the path of one file")
        if scope.current.get(None) is not None:
            raise NotDurable(
                "output_path() is for nodes: a workflow's code runs again in every replay. Do this in a node."
            )
        self._written: OutputFile | None = None

    def __enter__(self) -> Path:
        """The path to write to. Close the file before the block ends."""
        final = Path(os.path.realpath(self._given))  # a symbolic link is kept, and points to the new file
        if final.is_dir():
            raise InvalidInput(f"output_path({self._given!r}): {final} is a folder: give the path of one file")
        final.parent.mkdir(parents=True, exist_ok=True)
        self._writer = _writer()
        stem, extension = split(final.name)
        own = self._writer.own
        for leftover in list(_leftovers(final.parent, own)) if own.may_have_leftovers else ():
            self._keep(leftover._replace(given=self._given))
        stem, extension = cut(stem, MAX_STEM), cut(extension, MAX_EXTENSION)
        hidden = final.with_name(f".{stem}~{own.name}~{own.generation}-{own.attempt}.{secrets.token_hex(4)}{extension}")
        self._written = OutputFile(str(hidden), str(final), self._given)
        self._writer.report("begun", self._written)
        return hidden

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        written = self._written
        assert written is not None, "entered before it is left"
        if kind is not None or self._writer.is_over():
            self._keep(written)
            return
        try:
            written.publish()
        except BaseException:
            self._keep(written)
            raise
        self._writer.report("finished", written)

    async def __aenter__(self) -> Path:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await asyncio.to_thread(self.__exit__, None, None, None)  # a flush may take long
        else:
            self.__exit__(kind, error, trace)

    def _keep(self, written: OutputFile) -> None:
        if (partial := written.keep_partial()) is not None:
            self._writer.report("interrupted", partial)


def output_path(path: str | os.PathLike[str]) -> OutputPath:
    """A path to write a file to, so that the file is complete under its name or not present, whenever the process is
    killed.

    `with ol.output_path("results/report.csv") as path:` returns the path of a hidden file beside the final one, for
    your own code to write to. When the block succeeds, the file is flushed and renamed; an existing file is replaced
    only then. When the block fails, the incomplete file is kept as `report_interrupted.csv`, or
    `report_interrupted-2.csv` if that exists. Missing folders are created. In async nodes `async with` does not block
    the loop. Outside a run the function works in the same way."""
    return OutputPath(path)


class _OutputName(NamedTuple):
    """The part of a hidden name that identifies the attempt. `name` is the same for all attempts of a node."""

    name: str
    generation: int
    attempt: int

    @property
    def may_have_leftovers(self) -> bool:
        return (self.generation, self.attempt) > (0, 1)


class _Writer(NamedTuple):
    """The attempt that writes a file: its name, where to report the file, and whether it already has its outcome."""

    own: _OutputName
    report: Callable[[Stage, OutputFile], object]
    is_over: Callable[[], bool] = bool


def _writer() -> _Writer:
    if (remote_attempt := remote.current()) is not None:
        report = remote_attempt.output
        own = _output_name(remote_attempt.attempt.idempotency_key, remote_attempt.attempt.attempt)
        return _Writer(own, lambda stage, written: report({"stage": stage, **written._asdict()}))
    node = current_attempt_log()
    if isinstance(node, NodeContext):
        return _Writer(_output_name(node.idempotency_key, node.attempt), node.output_changed, lambda: node.is_over)
    return _Writer(_OutputName("outside", 0, 1), lambda *_: None)


def _output_name(key: str, attempt: int) -> _OutputName:
    path, _, generation = key.rpartition("/")
    run, _, node = path.partition("/")
    mark = hashlib.blake2b(path.encode(), digest_size=6).hexdigest()
    return _OutputName(f"{_UNSAFE.sub('-', run)[:36]}~{_UNSAFE.sub('-', node)[:30]}~{mark}", int(generation), attempt)


def _leftovers(folder: Path, own: _OutputName) -> Iterator[OutputFile]:
    """Hidden files in a folder that earlier attempts of the node left when they were killed. Files of later attempts
    are excluded: this attempt may belong to a process that was suspended for long."""
    of_node = re.compile(rf"\.(.*)~{re.escape(own.name)}~(\d+)-(\d+)\.[0-9a-f]{{8}}(\..*)?", re.DOTALL)
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            match = of_node.fullmatch(entry.name)
            if match and (int(match[2]), int(match[3])) < (own.generation, own.attempt):
                yield OutputFile(entry.path, str(folder / f"{match[1]}{match[4] or ''}"), "")
