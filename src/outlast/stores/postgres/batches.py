"""Converts a batch of appends into the arguments of the server's function: one array per column.

The appends of one call are of different runs, so that the server can process them together. If a run occurs twice (its owner
and a guest append at the same time), its second append is in a second call of the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from outlast.history.record import Kind, Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, search_text
from outlast.stores.postgres.attribute_keys import attribute_keys
from outlast.stores.postgres.rows import escape
from outlast.stores.shared import bounded, encode_summary

LARGEST_PART = 64 << 20
"""Approximate bytes of bodies in one call; the server limits a message to one gigabyte."""

_encode = msgspec.json.Encoder().encode

_HEAD = ("version", "digest", "epoch", "branch", "branch_first", "closed", "ready")
APPEND = f"select * from {{s}}.append({', '.join(f'${number}' for number in range(1, 54))})"


def split_batch(batch: Sequence[Append]) -> list[list[int]]:
    """Return the positions of the appends in each call. Appends of one run stay in order, and one that takes slots comes
    after those that end some."""
    size = sum(len(append.record.body) for append in batch)
    is_plain = not any(append.takes for append in batch) or not any(map(_ends_slots, batch))
    if size <= LARGEST_PART and is_plain and len({append.record.run for append in batch}) == len(batch):
        return [list(range(len(batch)))]
    next_parts: Counter[str] = Counter()
    parts: list[list[int]] = []
    sizes: list[int] = []
    ended = -1
    for place, append in enumerate(batch):
        run, size = append.record.run, len(append.record.body)
        part = max(next_parts[run], ended + 1) if append.takes else next_parts[run]
        while part < len(parts) and sizes[part] and sizes[part] + size > LARGEST_PART:
            part += 1
        if part == len(parts):
            parts.append([])
            sizes.append(0)
        parts[part].append(place)
        sizes[part] += size
        next_parts[run] = part + 1
        if _ends_slots(append):
            ended = max(ended, part)
    return parts


def _ends_slots(append: Append) -> bool:
    return append.frees or append.release or append.record.kind is Kind.TAKEOVER


def columns(batch: Sequence[Append], relaxed: bool) -> list[Any]:
    """Return the arguments of the server's function, in its order."""
    records, heads = [append.record for append in batch], [append.head for append in batch]
    return [
        *([getattr(record, name) for record in records] for name in Record.__struct_fields__),
        *([getattr(head, name) for head in heads] for name in _HEAD),
        [append.release for append in batch],
        [append.claim for append in batch],
        *_summaries(batch),
        *_waits(batch),
        *_places(batch),
        *_blob_uses(batch),
        relaxed,
        _extras(batch),
    ]


def _places(batch: Sequence[Append]) -> Iterator[list[int]]:
    """Yield the positions of the births, in the order of their runs, of the releases, of the takeovers, and of the appends
    that may change when a run without an owner can be claimed."""
    numbered = [(place, append.record, append) for place, append in enumerate(batch, 1)]
    births = [(record.run, place) for place, record, _ in numbered if record.first == 1]
    yield [place for _, place in sorted(births)]
    yield [place for place, _, append in numbered if append.release]
    yield [place for place, record, _ in numbered if record.kind is Kind.TAKEOVER]
    yield [place for place, _, append in numbered if _may_be_unclaimed(append)]


def _blob_uses(batch: Sequence[Append]) -> list[list[Any]]:
    named = [(place, name) for place, append in enumerate(batch, 1) for name in dict.fromkeys(append.blobs)]
    return transposed([(place, bytes.fromhex(name)) for place, name in named], 2)


def _may_be_unclaimed(append: Append) -> bool:
    """Return whether the append may change when a run without an owner can be claimed."""
    if append.release or append.record.kind in (Kind.GUEST, Kind.CONTROL):
        return True
    has_changes = append.summary is not None or bool(append.opens or append.closes or append.head.closed)
    return append.claim is None and has_changes


def _extras(batch: Sequence[Append]) -> str | None:
    """Return what few appends have: attributes and slots, by the position of the append."""
    found: dict[str, list[Any]] = {}
    for place, append in enumerate(batch, 1):
        if append.summary is not None and append.summary.attributes:
            run, created = escape(append.summary.run), append.summary.created
            rows = [[place, run, created, key] for key in attribute_keys(append.summary)]
            found.setdefault("attributes", []).extend(rows)
        if append.takes:
            columns = transposed([(escape(slot.name), bounded(slot.limit), slot.until) for slot in append.takes], 3)
            found.setdefault("takes", []).append([place, *columns])
        if append.frees:
            found.setdefault("frees", []).append(place)
    return _encode(found).decode() if found else None


def tag_rows(summary: RunSummary) -> list[str]:
    """Return the tags of a run, each once."""
    return [escape(tag) for tag in dict.fromkeys(summary.tags)]


def _summaries(batch: Sequence[Append]) -> list[list[Any]]:
    found = [(place, append.summary) for place, append in enumerate(batch, 1) if append.summary is not None]
    tags = [(place, tag) for place, summary in found for tag in tag_rows(summary)]
    rows = [(place, escape(summary.run), *summary_row(summary)) for place, summary in found]
    return [*transposed(rows, 14), *transposed(tags, 2)]


def _waits(batch: Sequence[Append]) -> list[list[Any]]:
    needs, closes, opens = list[Any](), list[Any](), list[Any]()
    for place, append in enumerate(batch, 1):
        needs += [(place, append.record.run, escape(name)) for name in dict.fromkeys(append.needs)]
        closes += [(place, escape(name)) for name in append.closes]
        opens += [(place, *wait_row(wait)) for wait in {each.name: each for each in append.opens}.values()]
    return [*transposed(needs, 3), *transposed(closes, 2), *transposed(opens, 5)]


def wait_row(wait: Wait) -> tuple[Any, ...]:
    """Return the columns of a wait's row after its run."""
    return escape(wait.name), wait.kind, wait.due, _encode(wait)


def summary_row(summary: RunSummary) -> tuple[Any, ...]:
    """Return the columns of a summary's row after its run, and the text that a search looks through."""
    return (
        summary.at,
        str(summary.status),
        escape(summary.workflow),
        escape(summary.parent),
        escape(summary.queue),
        bounded(summary.priority),
        escape(summary.fairness_key),
        summary.held,
        summary.created,
        summary.updated,
        encode_summary(summary),
        escape(search_text(summary)),
    )


def transposed(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Return the columns of these rows, one array for each."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
