"""Shared code of the stores: check an append, match summaries with a query, decode cursors and stored summaries."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from operator import eq, ge, gt, le, lt
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.errors import Damaged, InvalidInput, NotAllowed, StoreUnusable
from outlast.history.events import AttributeValue, Moment
from outlast.history.ids import RunId, WorkerId
from outlast.history.record import Kind
from outlast.lifecycle.state import Wait, WaitKind
from outlast.lifecycle.status import RunStatus
from outlast.lifecycle.summary import RunSummary
from outlast.store import (
    NO_INFO,
    Append,
    AttributeFilter,
    Due,
    Head,
    Listed,
    Notify,
    Page,
    RunFilter,
    WorkerInfo,
    search_text,
)

Refusal: TypeAlias = Literal["version", "epoch", "wait"]
_OWNER, _TAKEOVER = _BY_OWNER = Kind.OWNER, Kind.TAKEOVER

VERSION = 5
"""The version of the format of every store. A kind of store whose schema changed since has a version of its own."""

LARGEST = 1 << 62
"""Larger than any seq, time or number of rows, and within the 64-bit integers of a database."""

encode_summary = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunSummary).decode
_decode_wait = msgspec.json.Decoder(Wait).decode


def check_version(where: str, version: int, known: int = VERSION) -> None:
    """Refuse a store of another version than the known one."""
    if version > known:
        raise StoreUnusable(
            f"{where} has version {version}, this Outlast knows version {known}: upgrade Outlast to open it"
        )
    if VERSION <= version < known:
        raise StoreUnusable(
            f"{where} has version {version}, this Outlast knows version {known}: stop the processes that use it, and run "
            "`outlast db upgrade`"
        )
    if version < known:
        raise StoreUnusable(
            f"{where} has version {version}, written by an unreleased development version of Outlast; this Outlast knows "
            f"version {known} and cannot open it: create a new store"
        )


def check_schema(where: str, schema: str, present: Collection[str]) -> None:
    """Refuse a store that lacks a table, an index or a view of the schema file."""
    names = re.findall(r"^create (?:unique |virtual )?(?:table|index|view) (?:\{s\}\.)?(\w+)", schema, re.MULTILINE)
    if missing := [name for name in names if name not in present]:
        raise StoreUnusable(
            f"{where} lacks {', '.join(missing)}, perhaps dropped by another program: restore the store from a backup"
        )


class WorkerRuns(NamedTuple):
    """A registered worker and the number of runs it holds."""

    worker: WorkerId
    is_live: bool
    expires: int
    runs: int


class Contents(Struct, frozen=True, kw_only=True):
    """The contents of a store. `schema` is its version, 0 if it is empty or does not exist; `bytes` is the size of
    everything but the blobs; `deleted` is the number of tombstones."""

    path: str = ""
    schema: int = VERSION
    library: str
    bytes: int = 0
    runs: dict[str, int] = {}
    deleted: int = 0
    workers: tuple[WorkerRuns, ...] = ()
    blob_count: int = 0
    blob_bytes: int = 0


class Subscriptions:
    """The subscribers of a store, and the task that watches for changes while there are any."""

    def __init__(self, watch: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._watch = watch
        self._name = name
        self._notifies: list[Notify] = []
        self._watcher: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._notifies)

    def add(self, notify: Notify) -> Callable[[], None]:
        """Add a subscriber, and start the task with the first one. Return the function that removes it."""
        self._notifies.append(notify)
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(), name=self._name)

        def unsubscribe() -> None:
            if notify in self._notifies:
                self._notifies.remove(notify)
            if not self._notifies:
                self.stop()

        return unsubscribe

    def notify(self, runs: frozenset[RunId]) -> None:
        for each in list(self._notifies):
            each(runs)

    def stop(self) -> asyncio.Task[None] | None:
        """Remove all subscribers and cancel the task. Return it."""
        self._notifies.clear()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
        return watcher


def refusal(append: Append, head: Head | None, waits: Collection[str]) -> Refusal | None:
    """Return why the append does not fit this head and these open waits. The version is checked first: a stale version may
    mean that this same append landed before."""
    record = append.record
    if (head.version if head else 0) != record.first - 1:
        return "version"
    epoch = head.epoch if head else record.epoch
    if record.kind is _OWNER and record.epoch != epoch:
        return "epoch"
    if record.kind is _TAKEOVER and record.epoch <= epoch:
        return "epoch"
    return "wait" if append.needs and any(name not in waits for name in append.needs) else None


def head_after(old: Head | None, append: Append) -> Head:
    """Return the head after an append. Only a guest's append and a release set `ready`."""
    if old is None or append.release or append.record.kind not in _BY_OWNER:
        return append.head
    return append.head if append.head.ready == old.ready else replace(append.head, ready=old.ready)


def matches(summary: RunSummary, query: RunFilter) -> bool:
    """Return whether a query matches the run of this summary, ignoring its cursor."""
    return (
        (not query.statuses or summary.status in query.statuses)
        and (not query.workflow or summary.workflow == query.workflow)
        and (not query.parent or summary.parent == query.parent)
        and (not query.roots or not summary.parent)
        and set(query.tags) <= set(summary.tags)
        and (query.created_from is None or summary.created >= query.created_from)
        and (query.created_until is None or summary.created < query.created_until)
        and query.text.casefold() in search_text(summary)
        and summary.run.startswith(query.prefix)
        and (not query.queue or summary.queue == query.queue)
        and (query.held is None or summary.held is query.held)
        and all(_has(summary, condition) for condition in query.attributes)
        and (not query.order or query.order.removeprefix("-") in summary.attributes)
    )


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def _has(summary: RunSummary, condition: AttributeFilter) -> bool:
    """Return whether a run has an attribute that meets the condition."""
    if (value := summary.attributes.get(condition.name)) is None:
        return False
    (kind, value), (wanted, limit) = comparable(value), comparable(condition.value)
    return kind == wanted and _COMPARISONS[condition.operator](value, limit)


def comparable(value: AttributeValue) -> tuple[int, int | float | str]:
    """Return the type of an attribute's value as a number, and what is compared within the type. Lists by an attribute are
    in this order: false before true, numbers, text, times."""
    match value:
        case bool():
            return 0, int(value)
        case Moment(time):
            return 3, time
        case str():
            return 2, value
        case _:
            return 1, value


def checked_document(name: str) -> str:
    """Return the name if it is valid for a document."""
    if (
        len(name) > 200
        or not re.fullmatch(r"[a-z0-9._-]+(/[a-z0-9._-]+)*", name)
        or re.search(r"(^|/)\.{1,2}(/|$)", name)
    ):
        raise InvalidInput(
            f"{name[:80]!r} is not a valid document name: use segments of a-z, 0-9 and ._- separated by slashes"
        )
    return name


def bounded(number: int) -> int:
    """Return the number, limited to the range that a database accepts."""
    return max(-LARGEST, min(number, LARGEST))


def check_limit(limit: int) -> None:
    """Refuse a limit below 1."""
    if limit < 1:
        raise InvalidInput(f"limit must be at least 1, not {limit}")


Place: TypeAlias = tuple[int | float | str, ...]
"""The position of a run in a list: the creation time and the run, or what `comparable` returns of an attribute and the
run."""


def place(summary: RunSummary, order: str = "") -> Place:
    """Return the position of a run in a list with this order."""
    if not order:
        return summary.created, summary.run
    return *comparable(summary.attributes[order.removeprefix("-")]), summary.run


def is_descending(order: str) -> bool:
    """Return whether the greatest position comes first in a list with this order."""
    return not order or order.startswith("-")


def follows(summary: RunSummary, query: RunFilter) -> bool:
    """Return whether a run comes after the cursor of a query."""
    here = place(summary, query.order)
    if not query.order:
        return here < cursor(query.after)
    last = attribute_cursor(query.after)
    return here < last if is_descending(query.order) else here > last


def cursor(after: str) -> tuple[int, str]:
    """Decode a cursor into the creation time and the id of the last run already listed."""
    created, separator, run = after.partition(":")
    if not separator or not re.fullmatch(r"-?[0-9]{1,18}", created):
        raise invalid_cursor(after)
    return int(created), run


def attribute_cursor(after: str) -> tuple[int, int | float | str, str]:
    """Decode the cursor of a list by an attribute: what `comparable` returns of the attribute of the last run already
    listed, and the id of that run."""
    try:
        kind, value, run = msgspec.json.decode(after, type=tuple[int, int | float | str, str])
    except (msgspec.DecodeError, UnicodeError):
        raise invalid_cursor(after) from None
    if kind not in range(4) or (kind == 2) is not isinstance(value, str):
        raise invalid_cursor(after)
    return kind, value, run


def slot_cursor(after: str) -> tuple[str, str]:
    """Decode the cursor of a list of slots into the name and the run of the last holder already listed."""
    name, separator, run = after.rpartition("\n")
    if after and not separator:
        raise invalid_cursor(after)
    return name, run


def invalid_cursor(after: str) -> InvalidInput:
    return InvalidInput(f"{after[:80]!r} is not a cursor of this list; pass the one that the previous call returned")


def page_of(shown: Iterable[Listed], *, is_last: bool, order: str = "") -> Page:
    """Return a page of these runs, with a cursor to the next one unless it is the last."""
    items = tuple(shown)
    if is_last or not items:
        return Page(items)
    end = items[-1].summary
    return Page(items, msgspec.json.encode(place(end, order)).decode() if order else f"{end.created}:{end.run}")


# --- claims and slots


def may_be_due(summary: RunSummary) -> bool:
    """Return whether a run of this status is due when one of its timers is."""
    return summary.status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.COMPENSATING)


def is_due(wait: Wait, now: int) -> bool:
    """Return whether this wait is a timer that is due."""
    return wait.kind == "timer" and wait.due is not None and wait.due <= now


def claim_not_current(run: RunId, epoch: int) -> NotAllowed:
    return NotAllowed(f"run {run} is not claimed under epoch {epoch}, so it can take no slot: claim it first")


def summary_of(run: str, body: Any) -> RunSummary:
    """Decode a stored summary; raise `Damaged` if that fails."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise Damaged(f"the summary cannot be decoded: {error}", run=run) from error


def catalogue_faults(
    columns: Sequence[str], stored: Sequence[Any], expected: Sequence[Any], tags: Collection[str], kept: Collection[str]
) -> Iterator[str]:
    """Yield the differences between the stored columns and tags of a row and those of its summary."""
    for name, found, right in zip(columns, stored, expected, strict=True):
        if found != right and name != "body":
            yield f"the catalogue's column {name} is {found!r}, but its record has {right!r}"
    if sorted(tags) != sorted(set(kept)):
        yield f"the table of tags has {sorted(tags)!r}, but the catalogue's record has {sorted(set(kept))!r}"


def read_wait(body: Any) -> Wait | None:
    """Decode a stored wait; None if that fails."""
    try:
        return _decode_wait(body)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None


def wait_of(run: str, name: str, body: Any) -> Wait:
    """Decode a stored wait; raise `Damaged` if that fails."""
    if (wait := read_wait(body)) is None:
        raise Damaged(_fault_of_wait(name), run=run)
    return wait


def due_of(run: str, name: str, due: int | None, body: Any) -> Due:
    """Decode the stored wait of a list. If that fails, it is made from the name and the time in its row."""
    if (wait := read_wait(body)) is not None:
        return Due(RunId(run), wait)
    kind, _, id = name.partition(":")
    known: Any = kind if kind in get_args(WaitKind) else "trigger"
    return Due(RunId(run), Wait(known, id, due=due), _fault_of_wait(name))


def _fault_of_wait(name: str) -> str:
    return f"the row of the wait {name!r} cannot be decoded"


def info_in(text: str) -> WorkerInfo:
    """Decode what a worker said of itself; nothing if that fails."""
    try:
        return msgspec.json.decode(text, type=WorkerInfo)
    except (msgspec.DecodeError, UnicodeError):
        return NO_INFO
