"""`outlast ps`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from outlast.cli.console import drawn, notice, screen, show_view, write_bytes
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.opening import opened
from outlast.cli.options import ConditionOption, HeldOption, Output, OutputOption, QueueOption
from outlast.client import Engine, RunFilter, RunSummary
from outlast.errors import InvalidInput
from outlast.lifecycle.status import RunStatus, parse_status
from outlast.lifecycle.timeline.phrases import counted
from outlast.settings import Settings
from outlast.values.attributes import checked_conditions, checked_name, checked_order
from outlast.views.lines import line
from outlast.views.run_list import run_list
from outlast.views.text import lines_of
from outlast.views.times import parse_time
from outlast.views.types import RunListView, RunView

PAGE = 1000
INTERVAL_S = 1.0
"""Time between two reads with --watch."""
HELD = "held"
"""A status for --status: failed, and a person must decide."""


class Wanted(msgspec.Struct, frozen=True):
    """The statuses to list, all if there are none. `held` is the condition of the store. With `is_mixed`, of the failed runs
    only those that are held are listed, beside runs of other statuses: stores have no such condition."""

    statuses: tuple[RunStatus, ...]
    held: bool | None = None
    is_mixed: bool = False

    def has(self, run: RunView | RunSummary) -> bool:
        return not self.is_mixed or run.status is not RunStatus.FAILED or run.held


@command
async def ps(
    settings: Settings,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS",
            help="List runs in this status; can be repeated, or several with commas. `held` lists failed runs that "
            "wait for a decision of a person; `failed` lists the other failed runs.",
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", "-w", metavar="NAME", help="List runs of this workflow.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="TAG", help="List runs with this tag; repeated: with all these tags."),
    ] = None,
    attribute: ConditionOption = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Sort by this search attribute; -NAME: from the greatest down. Only runs that have it are listed.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Search attributes to show as columns, separated by commas."),
    ] = None,
    queue: QueueOption = None,
    held: HeldOption = False,
    parent: Annotated[str | None, typer.Option(help="List the children of this run.", metavar="RUN")] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="List runs with this text in their id, workflow, title, tags or reason."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="List runs created since this time: 2h, 7d, 2026-11-01 …", metavar="WHEN")
    ] = None,
    until: Annotated[str | None, typer.Option(help="List runs created before this time.", metavar="WHEN")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum number of runs.")] = 50,
    everything: Annotated[bool, typer.Option("--all", "-a", help="List all runs, without limit.")] = False,
    after: Annotated[str | None, typer.Option(help="Continue an earlier list at its cursor.", metavar="CURSOR")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the list every second, until Ctrl+C.")] = False,
    output: OutputOption = Output.TEXT,
) -> int:
    """List runs, the newest first.

    With --sort, they are sorted by a search attribute instead. The value of a
    condition is a number, true, false, or a time with a zone if it looks like
    one, and text otherwise. Double quotes make it text: 'code="12"'.

    \b
    outlast ps --status failed,waiting --since 2d
    outlast ps --status held
    outlast ps --workflow digest --tag nightly --all
    outlast ps --attribute customer=acme --attribute 'total>=10' --sort -total
    outlast ps --watch
    outlast ps --status failed -o ids | xargs outlast verify
    """
    wanted = wanted_of(status or (), held=held)
    shown = columns_of(columns, sort)
    async with opened(settings, readonly=True) as engine:
        now = await engine.diagnostics.now()
        created_from, created_until = (parse_time(time, now) if time else None for time in (since, until))
        if created_from is not None and created_until is not None and created_from >= created_until:
            raise InvalidInput(f"--since {since} is not before --until {until}")
        query = RunFilter(
            workflow=workflow or "",
            tags=tuple(tag or ()),
            text=text or "",
            after=after or "",
            statuses=wanted.statuses,
            held=wanted.held,
            queue=queue or "",
            attributes=checked_conditions("--attribute", attribute or ()),
            order=checked_order("--sort", sort) if sort else "",
            parent=await engine.find(parent) if parent else "",
            created_from=created_from,
            created_until=created_until,
        )
        if watch:
            await _watch(engine, query, wanted, limit, output, shown)
        else:
            await _show(engine, query, wanted, now, None if everything else limit, output, shown)
    return SOUND


def columns_of(columns: str | None, sort: str | None) -> tuple[str, ...]:
    """The attributes to show: those that are named, and the one that the list is sorted by."""
    names = [checked_name("--columns", name.strip()) for name in columns.split(",")] if columns else []
    return tuple(dict.fromkeys([*names, *([sort.removeprefix("-")] if sort else [])]))


def wanted_of(given: Sequence[str], *, held: bool = False) -> Wanted:
    """Empty parts beside a comma are ignored. All parts empty is an error: it would list every run. With `held`, only held
    runs are listed."""
    names = [name.strip().lower() for listed in given for name in listed.split(",") if name.strip()]
    if given and not names:
        raise InvalidInput(f"--status {','.join(given)!r} has no status")
    known = [_status(name) for name in names if name != HELD]
    if held:
        return Wanted(tuple(dict.fromkeys(known)), held=True)
    is_failed_wanted = RunStatus.FAILED in known
    if HELD not in names:
        return Wanted(tuple(dict.fromkeys(known)), held=False if is_failed_wanted else None)
    statuses = tuple(dict.fromkeys([*known, RunStatus.FAILED]))
    is_mixed = bool(known) and not is_failed_wanted
    return Wanted(statuses, held=None if known else True, is_mixed=is_mixed)


def _status(name: str) -> RunStatus:
    try:
        return parse_status(name)
    except InvalidInput as refusal:
        raise InvalidInput(f"{refusal}, {HELD}") from None


async def _show(
    engine: Engine,
    query: RunFilter,
    wanted: Wanted,
    now: int,
    limit: int | None,
    output: Output,
    columns: tuple[str, ...],
) -> None:
    runs: list[RunView] = []
    shown, following = 0, None
    async for page in _pages(engine, query, wanted, limit):
        shown, following = shown + len(page.runs), page.next
        if output is Output.IDS:
            write_bytes("".join(f"{each.run}\n" for each in page.runs).encode())
        else:
            runs += page.runs
    if output is Output.JSON or runs:
        show_view(RunListView(runs=tuple(runs), next=following), output, now=now, columns=columns)
    if output is not Output.JSON and following:
        more = "there are more" if not wanted.is_mixed else "there may be more"
        notice(
            f"{counted(shown, 'run')} shown, {more}",
            f"To list them: --all, --limit {2 * shown}, or --after {following}",
            style="bold",
        )
    elif output is not Output.JSON and not shown:
        notice("no run matches" if query != RunFilter(limit=query.limit) else "the store has no runs yet")


async def _pages(engine: Engine, query: RunFilter, wanted: Wanted, limit: int | None) -> AsyncIterator[RunListView]:
    """Pages, until there are no more or `limit` runs."""
    left = limit
    while left is None or left > 0:
        page = await _page(engine, query, wanted, PAGE if left is None else min(left, PAGE))
        yield page
        if not page.next:
            return
        left = None if left is None else left - len(page.runs)
        query = msgspec.structs.replace(query, after=page.next)


async def _page(engine: Engine, query: RunFilter, wanted: Wanted, size: int) -> RunListView:
    """At most `size` runs. For a condition that stores do not have, more runs are read and filtered here. If too many match,
    only so many are read again that the next page begins where this one ends."""
    if not wanted.is_mixed:
        return await run_list(engine, msgspec.structs.replace(query, limit=size))
    page = await run_list(engine, msgspec.structs.replace(query, limit=PAGE))
    places = [place for place, run in enumerate(page.runs, 1) if wanted.has(run)]
    if len(places) > size:
        page = await run_list(engine, msgspec.structs.replace(query, limit=places[size - 1]))
    return RunListView(runs=tuple(filter(wanted.has, page.runs)), next=page.next)


async def _watch(
    engine: Engine, query: RunFilter, wanted: Wanted, limit: int, output: Output, columns: tuple[str, ...]
) -> None:
    """The list, refreshed, as much of it as the screen holds. Ctrl+C ends it with success."""
    console = screen()
    if output is not Output.TEXT:
        raise InvalidInput(f"--watch and -o {output} exclude each other: omit one of them")
    if not console.is_terminal:
        raise InvalidInput("--watch requires a terminal; `outlast events RUN --follow` works in a pipe")
    if console.is_dumb_terminal:
        raise InvalidInput(f"--watch requires a terminal that can be redrawn, not TERM={os.environ.get('TERM', '')}")
    from rich.live import Live

    with suppress(asyncio.CancelledError), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            most = max(1, min(limit, console.size.height - 2))
            runs = [run async for page in _pages(engine, query, wanted, most) for run in page.runs]
            view, now = RunListView(runs=tuple(runs), next=None), await engine.diagnostics.now()
            live.update(
                drawn(lines_of(view, now, columns=columns) if runs else [line("no runs")], console), refresh=True
            )
            await asyncio.sleep(INTERVAL_S)
