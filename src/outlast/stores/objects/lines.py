"""The lines of an object store: each call of `keep` writes one chunk per run, named by the number of its first line.

A chunk is created under the number after the last known one, so two processes never assign the same number. A chunk is
deleted when newer lines of its attempts have superseded all its lines; until then, readers skip superseded lines. The place
of an attempt's first line shows how many were dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.history.ids import RunId
from outlast.store import LINES_PER_ATTEMPT, Line
from outlast.stores.objects import keys
from outlast.stores.objects.bucket import Bucket, Taken
from outlast.stores.objects.catalog import CatalogObjects
from outlast.stores.objects.run_index import fresh
from outlast.stores.shared import check_limit

REMEMBERED = 1000
"""Runs whose chunks are cached."""


class _Chunk(Struct, frozen=True):
    nonce: str
    lines: list[Line]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Chunk).decode


class _KnownLines:
    """The cached state of a run's lines: the last number, the last place of each attempt, and the places in each chunk."""

    def __init__(self) -> None:
        self.last = 0
        self.places: Counter[tuple[str, int]] = Counter()
        self.chunks: dict[str, dict[tuple[str, int], int]] = {}

    def add(self, name: str, lines: Sequence[Line]) -> None:
        newest = {(line.node, line.attempt): line.place for line in lines}
        self.chunks[name] = newest
        self.last = max(self.last, *(line.number for line in lines))
        for attempt, place in newest.items():
            self.places[attempt] = max(self.places[attempt], place)

    def superseded(self) -> list[str]:
        """Remove and return the chunks that have none of the newest lines of their attempts."""
        old = [
            name
            for name, newest in self.chunks.items()
            if all(place <= self.places[attempt] - LINES_PER_ATTEMPT for attempt, place in newest.items())
        ]
        for name in old:
            del self.chunks[name]
        return old


class LineObjects(CatalogObjects):
    """Implements the lines."""

    def __init__(self, bucket: Bucket, *, readonly: bool = False) -> None:
        super().__init__(bucket, readonly=readonly)
        self._known_lines: dict[RunId, _KnownLines] = {}

    async def keep(self, lines: Sequence[Line]) -> None:
        self._require_writable()
        by_run: dict[RunId, list[Line]] = {}
        for line in lines:
            by_run.setdefault(line.run, []).append(line)

        async def keep_of(run: RunId) -> None:
            if await self._exists(run):
                async with self._locked(run):
                    await self._keep(run, by_run[run])

        await self._each(keep_of, by_run)

    async def _keep(self, run: RunId, lines: Sequence[Line]) -> None:
        known_lines = self._known_lines.get(run)
        if known_lines is None:
            if len(self._known_lines) >= REMEMBERED:
                self._known_lines.clear()
            known_lines = self._known_lines[run] = _KnownLines()
            await self._catch_up(run, known_lines)
        while True:
            numbered = _numbered(lines, known_lines)
            name, body = _chunk(run, known_lines.last + 1), _encode(_Chunk(fresh(), numbered))
            try:
                await self._bucket.create(name, body)
            except Taken:
                found = await self._bucket.get(name)
                if found is None or found.body != body:
                    await self._catch_up(run, known_lines)
                    continue
            known_lines.add(name, numbered)
            break
        await self._bucket.delete(known_lines.superseded())

    async def _catch_up(self, run: RunId, known_lines: _KnownLines) -> None:
        """Read the chunks that other processes wrote."""
        after = _chunk(run, known_lines.last) if known_lines.last else ""
        names = [listed.name async for listed in self._bucket.listing(f"lines/{run}", after=after)]
        for name, lines in zip(names, await self._each(self._chunk_of, names), strict=True):
            if lines:
                known_lines.add(name, lines)

    async def _chunk_of(self, name: str) -> list[Line]:
        found = await self._bucket.get(name)
        try:
            return [] if found is None else _decode(found.body).lines
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []  # lines are not facts

    async def lines(
        self, run: RunId, *, node: str = "", attempt: int | None = None, after: int = 0, limit: int = 1000
    ) -> list[Line]:
        check_limit(limit)
        if await self._is_deleted(run):
            return []
        names = [listed.name async for listed in self._bucket.listing(f"lines/{run}")]
        skipped = [name for name in names if int(name.rpartition("/")[2]) <= after][:-1]
        chunks = await self._each(self._chunk_of, names[len(skipped) :])
        stored = [line for chunk in chunks for line in chunk]
        places: Counter[tuple[str, int]] = Counter()
        for line in stored:
            places[line.node, line.attempt] = max(places[line.node, line.attempt], line.place)
        found = [
            line
            for line in stored
            if line.number > after
            and line.place > places[line.node, line.attempt] - LINES_PER_ATTEMPT
            and node in ("", line.node)
            and attempt in (None, line.attempt)
        ]
        return found[:limit]


def _chunk(run: RunId, first: int) -> str:
    return f"lines/{run}/{keys.number(first)}"


def _numbered(lines: Sequence[Line], known_lines: _KnownLines) -> list[Line]:
    """Return the lines with numbers and places, without those that later lines of the same call supersede. The first and the
    last stay: the first names the chunk, the last has the greatest number."""
    places = Counter(known_lines.places)
    numbered = []
    for number, line in enumerate(lines, known_lines.last + 1):
        places[line.node, line.attempt] += 1
        numbered.append(replace(line, number=number, place=places[line.node, line.attempt]))
    ends = (known_lines.last + 1, known_lines.last + len(lines))
    return [
        line
        for line in numbered
        if line.number in ends or line.place > places[line.node, line.attempt] - LINES_PER_ATTEMPT
    ]
