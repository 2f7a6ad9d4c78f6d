"""Recorded runs: exports of `outlast export`, read into memory."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from outlast.errors import InvalidInput
from outlast.history.record import Record
from outlast.maintenance.export import Blob, exported, read_line
from outlast.store import Head
from outlast.stores.memory import Memory, MemoryStore


def remembered(lines: Iterable[bytes | str], where: str = "") -> Memory:
    """The runs of an export, for reading only: no summaries, claims or waits."""
    memory = Memory()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            _add(memory, read_line(line))
        except InvalidInput as error:
            raise InvalidInput(f"{where or 'the export'}, line {number}: {error}") from error
    return memory


def _add(memory: Memory, item: Record | Blob) -> None:
    if isinstance(item, Blob):
        if item.data is not None:
            memory.blobs[item.hash] = item.data
        return
    head = memory.heads.get(item.run) or Head(item.run, 0, b"")
    if item.first != head.version + 1:
        raise InvalidInput(f"run {item.run}: event {item.first} follows event {head.version}")
    first = head.branch_first if head.branch == item.branch else item.first
    memory.logs.setdefault(item.run, []).append(item)
    memory.heads[item.run] = Head(item.run, item.last, item.digest, max(head.epoch, item.epoch), item.branch, first)


def files_at(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """The files that a path, a pattern or several of them match; `InvalidInput` if one matches none."""
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    found: list[Path] = []
    for each in named:
        here = sorted(glob.glob(str(each), recursive=True))
        if not here:
            raise InvalidInput(f"no file matches {str(each)!r}: a check of nothing would always pass")
        found += map(Path, here)
    return found


async def write(memory: Memory, path: Path) -> None:
    """Export all runs of a memory."""
    store = MemoryStore(memory)
    with path.open("wb") as file:
        for run in list(memory.heads):
            async for line in exported(store, run):
                file.write(line + b"\n")
