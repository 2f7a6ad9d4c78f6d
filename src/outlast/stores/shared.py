"""What the stores do alike: judge an append, match summaries with a query, read cursors and stored summaries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from outlast.errors import Damaged, InvalidInput, StoreUnusable
from outlast.history.record import Kind
from outlast.lifecycle.summary import RunSummary
from outlast.store import Append, Head, Listed, Page, RunFilter, search_text

Refusal: TypeAlias = Literal["version", "epoch", "wait"]

VERSION = 4
"""The version of what every store holds."""

encode_summary = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RunSummary).decode


def check_version(where: str, version: int) -> None:
    """Refuse a store of another version."""
    if version > VERSION:
        raise StoreUnusable(
            f"{where} has version {version}, this Outlast knows version {VERSION}: upgrade Outlast to open it"
        )
    if version < VERSION:
        raise StoreUnusable(
            f"{where} has version {version}, of a development version of Outlast that was never released; this one knows "
            f"version {VERSION} and cannot open it: create a new store"
        )


def check_schema(where: str, schema: str, there: Collection[str]) -> None:
    """Refuse a store of which a table or an index of the schema file was dropped."""
    made = re.findall(r"^create (?:unique )?(?:table|index|view) (?:\{s\}\.)?(\w+)", schema, re.MULTILINE)
    if missing := [name for name in made if name not in there]:
        raise StoreUnusable(
            f"{where} lacks {', '.join(missing)}: dropped by another program, perhaps; restore the store from a backup"
        )


def refusal(append: Append, head: Head | None, waits: Collection[str]) -> Refusal | None:
    """Why the append may not land on this head and these open waits. The version goes first: what is in its place may be
    this very append."""
    record = append.record
    if (head.version if head else 0) != record.first - 1:
        return "version"
    epoch = head.epoch if head else record.epoch
    if record.kind is Kind.OWNER and record.epoch != epoch:
        return "epoch"
    if record.kind is Kind.TAKEOVER and record.epoch <= epoch:
        return "epoch"
    return "wait" if any(name not in waits for name in append.needs) else None


def matches(summary: RunSummary, query: RunFilter) -> bool:
    """Whether a query finds the run of this summary, its cursor aside."""
    return (
        (not query.statuses or summary.status in query.statuses)
        and (not query.workflow or summary.workflow == query.workflow)
        and (not query.parent or summary.parent == query.parent)
        and (not query.exclusive or summary.exclusive == query.exclusive)
        and set(query.tags) <= set(summary.tags)
        and (query.created_from is None or summary.created >= query.created_from)
        and (query.created_until is None or summary.created < query.created_until)
        and query.text.casefold() in search_text(summary)
    )


def checked_document(name: str) -> str:
    """The name, if a document can have it."""
    if (
        len(name) > 200
        or not re.fullmatch(r"[a-z0-9._-]+(/[a-z0-9._-]+)*", name)
        or re.search(r"(^|/)\.{1,2}(/|$)", name)
    ):
        raise InvalidInput(
            f"{name[:80]!r} is not a name of a document: use segments of a-z, 0-9 and ._- separated by slashes"
        )
    return name


def check_limit(limit: int) -> None:
    """Refuse a page without entries."""
    if limit < 1:
        raise InvalidInput(f"a page holds at least one, not {limit}")


def cursor(after: str) -> tuple[int, str]:
    """The creation time and the id of the last run of the page before."""
    created, separator, run = after.partition(":")
    if not separator or not re.fullmatch(r"-?[0-9]{1,18}", created):
        raise InvalidInput(f"{after[:80]!r} is not a cursor of a list; use the one a page came with")
    return int(created), run


def page_of(shown: Iterable[Listed], *, is_last: bool) -> Page:
    """A page of these runs, with the cursor of the next one unless it is the last."""
    items = tuple(shown)
    end = items[-1].summary if items and not is_last else None
    return Page(items, f"{end.created}:{end.run}" if end else "")


def summary_of(run: str, body: Any) -> RunSummary:
    """A stored summary; `Damaged` if it does not read."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise Damaged(f"the summary does not read: {error}", run=run) from error


def catalogue_faults(
    columns: Sequence[str], stored: Sequence[Any], made: Sequence[Any], tags: Collection[str], kept: Collection[str]
) -> Iterator[str]:
    """How the columns and tags of a row differ from those made of its summary."""
    for name, there, expected in zip(columns, stored, made, strict=True):
        if there != expected and name != "body":
            yield f"the catalogue's column {name} is {there!r}, its record says {expected!r}"
    if sorted(tags) != sorted(set(kept)):
        yield f"the table of tags has {sorted(tags)!r}, the catalogue's record {sorted(set(kept))!r}"


def names_in(workflows: str) -> tuple[str, ...]:
    """The names in a column that holds a JSON list; empty where it does not read."""
    try:
        return msgspec.json.decode(workflows, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()
