"""Converts a batch of appends into the arguments of the server's function: one array per column.

The appends of one call are of different runs, so that the server can process them together. If a run occurs twice (its owner
and a guest append at the same time), its second append is in a second call of the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.history.record import Record
from outlast.lifecycle.state import Wait
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, search_text
from outlast.stores.postgres.rows import escape
from outlast.stores.shared import encode_summary

LARGEST_PART = 64 << 20
"""Approximate bytes of bodies in one call; the server limits a message to one gigabyte."""

_encode = msgspec.json.Encoder().encode

_HEAD = ("version", "digest", "epoch", "branch", "branch_first", "closed", "ready")
APPEND = f"select * from {{s}}.append({', '.join(f'${number}' for number in range(1, 47))})"


def split_batch(batch: Sequence[Append]) -> list[list[int]]:
    """Return the positions of the appends in each call. Appends of one run stay in order."""
    size = sum(len(append.record.body) for append in batch)
    if size <= LARGEST_PART and len({append.record.run for append in batch}) == len(batch):
        return [list(range(len(batch)))]
    next_parts: Counter[str] = Counter()
    parts: list[list[int]] = []
    sizes: list[int] = []
    for place, append in enumerate(batch):
        run, size = append.record.run, len(append.record.body)
        part = next_parts[run]
        while part < len(parts) and sizes[part] and sizes[part] + size > LARGEST_PART:
            part += 1
        if part == len(parts):
            parts.append([])
            sizes.append(0)
        parts[part].append(place)
        sizes[part] += size
        next_parts[run] = part + 1
    return parts


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
        any(record.first == 1 for record in records),
        any(append.claim is not None for append in batch),
        any(append.release for append in batch),
        relaxed,
    ]


def _summaries(batch: Sequence[Append]) -> list[list[Any]]:
    found = [(place, append.summary) for place, append in enumerate(batch, 1) if append.summary is not None]
    tags = [(place, tag) for place, summary in found for tag in dict.fromkeys(summary.tags)]
    rows = [(place, summary.run, *summary_row(summary)) for place, summary in found]
    return [*transposed(rows, 11), *transposed([(place, escape(tag)) for place, tag in tags], 2)]


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
    """Return the columns of a summary's row after its run."""
    names = escape(summary.workflow), escape(summary.parent), escape(summary.exclusive)
    times = summary.created, summary.updated
    return summary.at, str(summary.status), *names, *times, escape(search_text(summary)), encode_summary(summary)


def transposed(rows: Sequence[Sequence[Any]], count: int) -> list[list[Any]]:
    """Return the columns of these rows, one array for each."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
