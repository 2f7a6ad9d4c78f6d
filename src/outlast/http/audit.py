"""Who did what, from where, with which result: every request that changes something is recorded before it is answered.

Entries are documents of the store whose names sort the newest first. Requests that end at the same time share one document
and one write. An entry has no body, header or value of a request, so it holds no secret.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from outlast.errors import OutlastError
from outlast.http.problems import HttpError, unavailable
from outlast.http.rate_limit import RateLimit
from outlast.http.recovery import one_line
from outlast.store import Document, Store

log = logging.getLogger("outlast.audit")

FOLDER = "http/audit/"
KEPT_S = 365 * 86_400.0
"""How long entries are kept."""
PAGE = 500
SCANNED = 10_000
"""The most documents that one request reads: a filter that matches little continues with a cursor."""
UNKNOWN_RATE, UNKNOWN_BURST = 1.0, 60.0
"""Refused requests without a valid credential that are recorded: their number is not bounded by the number of users."""
SPREAD = 60_000_000
"""Microseconds between the entries of one document, at most."""
_LAST = 2**62


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request. `time` is in microseconds; `status` and `code` are its result; `subject` is the run or token that it was
    about; `note` says more in words. A decision has the id and the text of its question and, for an approval, its answer."""

    id: str = ""
    time: int
    by: str
    role: str
    address: str
    action: str
    status: int
    code: str = ""
    subject: str = ""
    note: str = ""
    interaction: str = ""
    text: str = ""
    answer: str = ""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries to list. Times are microseconds; an empty field does not filter. `by` matches a part of the name."""

    by: str = ""
    actions: tuple[str, ...] = ()
    subject: str = ""
    address: str = ""
    is_refused: bool | None = None
    is_decision: bool = False
    since: int = 0
    until: int = _LAST

    def has(self, entry: AuditEntry) -> bool:
        return (
            self.by.casefold() in entry.by.casefold()
            and (not self.actions or entry.action in self.actions)
            and self.subject in ("", entry.subject)
            and self.address in ("", entry.address)
            and self.is_refused in (None, entry.status >= 400)
            and (not self.is_decision or bool(entry.text))
            and self.since <= entry.time < self.until
        )


class Audit:
    """Writes and lists the entries of a store."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._pending: list[AuditEntry] = []
        self._next: asyncio.Task[None] | None = None
        """The write that will take what is pending."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._unknown = RateLimit(UNKNOWN_RATE, UNKNOWN_BURST)

    async def record(self, entry: AuditEntry, *, is_known: bool) -> None:
        """Log and store an entry. An error of the store is logged: the request it is about has been carried out."""
        if not is_known and self._unknown.wait_s(""):
            return
        log.info(
            "%s %s %s from %s: %d%s",
            one_line(entry.by) or "unknown",
            entry.action,
            one_line(entry.subject) or "-",
            entry.address or "unknown",
            entry.status,
            f" {entry.code}" if entry.code else "",
        )
        self._pending.append(entry)
        if self._next is None:
            self._next = asyncio.create_task(self._write())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        await asyncio.shield(self._next)

    async def _write(self) -> None:
        async with self._one_at_a_time:
            entries, self._pending, self._next = self._pending, [], None
            try:
                name = f"{_name(max(each.time for each in entries))}-{secrets.token_hex(4)}"
                body = msgspec.json.encode(sorted(entries, key=lambda each: -each.time))
                await self._store.put_document(Document(name, secrets.token_hex(16), body))
            except (OutlastError, HttpError) as error:
                log.error("%d audit entries could not be stored: %s", len(entries), one_line(str(error)))

    async def find(self, wanted: AuditFilter, *, after: str = "", limit: int = 50) -> tuple[list[AuditEntry], str]:
        """A page of the entries that match, the newest first, and the cursor to the next one, empty at the end."""
        found: list[AuditEntry] = []
        begun, _, place = after.partition(":")
        passed, last, scanned = int(place or -1), "", 0
        async for name, entries in self._documents(wanted, begun):
            for index, entry in enumerate(entries):
                last = f"{name}:{index}"
                if wanted.has(entry) and not (name == begun and index <= passed):
                    found.append(msgspec.structs.replace(entry, id=f"{name}.{index}"))
                    if len(found) == limit:
                        return found, last
            scanned += 1
            if scanned == SCANNED:
                return found, last
        return found, ""

    async def _documents(self, wanted: AuditFilter, begun: str) -> AsyncIterator[tuple[str, list[AuditEntry]]]:
        """The documents from the one named `begun` on, until they are older than the filter."""
        if begun:
            place = FOLDER + begun
            document = await self._store.document(place)
            if document is not None:
                yield begun, _entries(document)
        else:
            place = _name(wanted.until + SPREAD) if wanted.until < _LAST else ""
        while True:
            page = await self._store.documents(FOLDER, after=place, limit=PAGE)
            for document in page:
                entries = _entries(document)
                if entries[0].time < wanted.since:
                    return
                yield document.name.removeprefix(FOLDER), entries
            if len(page) < PAGE:
                return
            place = page[-1].name

    async def sweep(self) -> None:
        """Remove the entries that are older than `KEPT_S`, a page at a time."""
        for document in await self._store.documents(FOLDER, after=_name(int((time.time() - KEPT_S) * 1e6)), limit=PAGE):
            await self._store.remove_document(document.name, document.version)

    @property
    def _store(self) -> Store:
        if self.store is None:
            raise unavailable("the server is starting: its store is not open yet")
        return self.store


def _name(time: int) -> str:
    """A name that sorts before all names of earlier times."""
    return f"{FOLDER}{_LAST - time:016x}"


def _entries(document: Document) -> list[AuditEntry]:
    return msgspec.json.decode(document.body, type=list[AuditEntry])
